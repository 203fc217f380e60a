#include "common/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <stdexcept>

#include "common/hex.h"

namespace greta {
namespace {

void require(int ok) {
  if (ok != 1) throw std::runtime_error("SHA-256 failed in the crypto library");
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  require(context_ != nullptr);
  require(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

void Sha256::update(const void* data, size_t size_bytes) {
  require(EVP_DigestUpdate(context_.get(), data, size_bytes));
}

std::string Sha256::hex() const {
  const std::unique_ptr<evp_md_ctx_st, Free> copy(EVP_MD_CTX_new());
  require(copy != nullptr && EVP_MD_CTX_copy_ex(copy.get(), context_.get()) == 1);
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest;
  unsigned size_bytes = 0;
  require(EVP_DigestFinal_ex(copy.get(), digest.data(), &size_bytes));
  std::string text;
  for (unsigned i = 0; i < size_bytes; ++i) append_hex(text, digest[i]);
  return text;
}

std::string Sha256::hex_of(std::string_view bytes) {
  Sha256 sha;
  sha.update(bytes.data(), bytes.size());
  return sha.hex();
}

}  // namespace greta
