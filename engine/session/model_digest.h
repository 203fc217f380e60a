#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/sha256.h"
#include "engine/gguf/file.h"

namespace greta {

/// The identity of a model: SHA-256 in a tree over what decides its results, so that many threads
/// can work on it. docs/fingerprint.md defines it. Two files have one root when their tensors
/// (name, type, shape, every stored byte) and their metadata of llama.* and tokenizer.* are the
/// same, whatever order and alignment they have them in, and whatever else they say.
///
/// Different hash() calls may run on different threads. The file must outlive it.
class ModelRoot {
 public:
  /// Bytes of a tensor that are hashed at once; the last piece may be shorter.
  static constexpr size_t kPieceBytes = size_t{1} << 20;

  explicit ModelRoot(const GgufFile& file);

  size_t n_pieces() const { return values_.size() + pieces_.size(); }
  size_t bytes_of(size_t piece) const;  ///< of the file; 0 for a value of its metadata
  void hash(size_t piece);              ///< any order, once each

  /// The root, when all pieces are hashed: 64 lower-case hex digits.
  std::string hex() const;

 private:
  struct Value {
    std::string_view key;
    const GgufValue* value;
    Sha256::Digest digest;
  };
  struct Tensor {
    const GgufTensor* tensor;
    size_t first_piece;
  };
  struct Piece {
    std::span<const std::byte> data;
    Sha256::Digest digest;
  };

  std::vector<Value> values_;    ///< by key
  std::vector<Tensor> tensors_;  ///< by name
  std::vector<Piece> pieces_;
};

/// Identity of a model. Digests are 64 lower-case hex digits.
struct ModelDigests {
  std::string root;         ///< ModelRoot
  std::string file_sha256;  ///< empty when it was not asked for and is not kept
};

/// Keeps the digests of model files between programs, a small text file for each path. They are
/// believed as long as the file system says the same of the file: size, times of the last change to
/// its content and to what is said of it, inode, device. A cache that cannot be read or written is
/// an empty one: no member throws but for want of memory.
class DigestCache {
 public:
  /// Nowhere: keeps nothing.
  DigestCache() = default;
  explicit DigestCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// $XDG_CACHE_HOME/greta/models, else $HOME/.cache/greta/models; nowhere when neither is an
  /// absolute path.
  static DigestCache usual();

  std::optional<ModelDigests> find(const std::filesystem::path& file, const FileStamp& stamp) const;

  /// stamp: as it was when the digests were begun, and is still. One of a file that changed less
  /// than kSettledNs before is not kept: another change within the same tick of the file system's
  /// clock would not show.
  void keep(const std::filesystem::path& file, const FileStamp& stamp,
            const ModelDigests& digests) const;

  /// 2 s, the longest tick that a file system has.
  static constexpr int64_t kSettledNs = 2'000'000'000;

 private:
  std::filesystem::path folder_;
};

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
