#include "engine/session/background_digest.h"

#include <algorithm>
#include <chrono>

#include "common/sha256.h"
#include "common/thread.h"

namespace greta {
BackgroundDigest::BackgroundDigest(std::span<const std::byte> bytes)
    : bytes_(bytes), result_(with_thread_error([this] {
        return std::async(std::launch::async, [this] { return compute(); });
      })) {}

BackgroundDigest::~BackgroundDigest() { stop_ = true; }  // the future waits for the thread

std::string BackgroundDigest::compute() {
  constexpr size_t kPieceBytes = size_t{4} << 20;
  Sha256 hash;
  for (size_t at = 0; at < bytes_.size() && !stop_; at += kPieceBytes) {
    const auto piece = bytes_.subspan(at, std::min(kPieceBytes, bytes_.size() - at));
    hash.update(piece.data(), piece.size());
    done_.fetch_add(static_cast<int64_t>(piece.size()), std::memory_order_relaxed);
  }
  return hash.hex();
}

bool BackgroundDigest::ready(int timeout_ms) const {
  return !result_.valid() ||
         result_.wait_for(std::chrono::milliseconds(timeout_ms)) == std::future_status::ready;
}

const std::string& BackgroundDigest::hex() {
  if (result_.valid()) hex_ = result_.get();
  return hex_;
}

}  // namespace greta
