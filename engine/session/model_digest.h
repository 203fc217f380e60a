#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "common/sha256.h"
#include "engine/gguf/file.h"
#include "engine/session/digest_cache.h"
#include "engine/session/model_root.h"

namespace greta {

/// The digests of a model's file, worked out on threads of their own that give way to all other
/// work, or found in a cache.
class ModelDigest {
 public:
  /// Begins. file must outlive it; it was opened from `path`. n_threads ≥ 1: at most so many, and
  /// fewer where the system has no more, none even: then advance() does it all. with_sha256: the
  /// SHA-256 of the whole file as well, which one thread takes long for.
  ModelDigest(const GgufFile& file, std::filesystem::path path, int n_threads, bool with_sha256,
              DigestCache cache);
  ~ModelDigest();  ///< gives up soon
  ModelDigest(const ModelDigest&) = delete;
  ModelDigest& operator=(const ModelDigest&) = delete;

  int64_t size_bytes() const { return size_bytes_; }
  int64_t done_bytes() const { return done_bytes_.load(std::memory_order_relaxed); }

  /// Works along for so long at most. Whether the digests are there.
  bool advance(int timeout_ms);

  /// Works along until they are there. Throws std::runtime_error when the library refuses. By one
  /// thread.
  const ModelDigests& get();

 private:
  void work();
  bool step();
  bool step_of_file();
  void finish();

  const GgufFile& file_;
  std::filesystem::path path_;
  DigestCache cache_;
  std::optional<FileStamp> stamp_;  ///< before anything was read
  ModelRoot root_;
  std::optional<Sha256> file_sha_;
  size_t file_at_ = 0;  ///< of the file's SHA-256; file_busy_ guards both
  std::mutex file_busy_;

  int64_t size_bytes_ = 0;
  std::atomic<int64_t> done_bytes_{0};
  std::atomic<size_t> next_{0};    ///< piece that nobody has taken
  std::atomic<size_t> to_end_{0};  ///< pieces, and the file, that have not ended
  std::atomic<bool> stop_{false};
  std::mutex ended_mutex_;
  std::condition_variable ended_;
  std::exception_ptr error_;  ///< under ended_mutex_
  std::optional<ModelDigests> digests_;
  std::vector<std::thread> threads_;
};

}  // namespace greta
