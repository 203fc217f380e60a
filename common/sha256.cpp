#include "common/sha256.h"

#include <openssl/evp.h>

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

Sha256::Digest Sha256::digest() const {
  const std::unique_ptr<evp_md_ctx_st, Free> copy(EVP_MD_CTX_new());
  require(copy != nullptr && EVP_MD_CTX_copy_ex(copy.get(), context_.get()) == 1);
  Digest digest;
  require(EVP_DigestFinal_ex(copy.get(), digest.data(), nullptr));
  return digest;
}

std::string Sha256::hex() const {
  std::string text;
  for (const uint8_t byte : digest()) append_hex(text, byte);
  return text;
}

Sha256::Digest Sha256::digest_of(std::string_view bytes) {
  Sha256 sha;
  sha.update(bytes.data(), bytes.size());
  return sha.digest();
}

std::string Sha256::hex_of(std::string_view bytes) {
  Sha256 sha;
  sha.update(bytes.data(), bytes.size());
  return sha.hex();
}

}  // namespace greta
