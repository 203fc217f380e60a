#include "engine/session/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <stdexcept>

namespace greta {
namespace {

void require(int ok) {
  if (ok != 1) throw std::runtime_error("SHA-256 failed in the crypto library");
}

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_MD_CTX, FreeContext>;

Context begin() {
  Context context(EVP_MD_CTX_new());
  require(context != nullptr);
  require(EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr));
  return context;
}

std::string finish(const Context& context) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size_bytes = 0;
  require(EVP_DigestFinal_ex(context.get(), digest.data(), &size_bytes));
  std::string text;
  for (unsigned i = 0; i < size_bytes; ++i) {
    text += "0123456789abcdef"[digest[i] >> 4];
    text += "0123456789abcdef"[digest[i] & 15];
  }
  return text;
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  const Context context = begin();
  require(EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()));
  return finish(context);
}

BackgroundDigest::BackgroundDigest(std::span<const std::byte> bytes)
    : bytes_(bytes), result_(std::async(std::launch::async, [this] { return compute(); })) {}

BackgroundDigest::~BackgroundDigest() { stop_ = true; }  // the future waits for the thread

std::string BackgroundDigest::compute() {
  constexpr size_t kPieceBytes = size_t{4} << 20;
  const Context context = begin();
  for (size_t at = 0; at < bytes_.size() && !stop_; at += kPieceBytes) {
    const auto piece = bytes_.subspan(at, std::min(kPieceBytes, bytes_.size() - at));
    require(EVP_DigestUpdate(context.get(), piece.data(), piece.size()));
    done_.fetch_add(static_cast<int64_t>(piece.size()), std::memory_order_relaxed);
  }
  return finish(context);
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
