#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <span>
#include <string>

namespace greta {

/// SHA-256 (common/sha256.h) of a large file's bytes, computed on a thread of its own while other
/// work goes on.
class BackgroundDigest {
 public:
  /// bytes must outlive it.
  explicit BackgroundDigest(std::span<const std::byte> bytes);
  ~BackgroundDigest();  ///< stops at the next piece
  BackgroundDigest(const BackgroundDigest&) = delete;
  BackgroundDigest& operator=(const BackgroundDigest&) = delete;

  int64_t size_bytes() const { return static_cast<int64_t>(bytes_.size()); }
  int64_t done_bytes() const { return done_.load(std::memory_order_relaxed); }
  bool ready(int timeout_ms) const;  ///< waits at most so long

  /// Waits for the digest. Throws std::runtime_error when the library refuses.
  const std::string& hex();

 private:
  std::string compute();

  std::span<const std::byte> bytes_;
  std::atomic<int64_t> done_{0};
  std::atomic<bool> stop_{false};
  std::string hex_;
  std::future<std::string> result_;
};

}  // namespace greta
