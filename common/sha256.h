#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace greta {

/// SHA-256 of bytes that arrive in pieces (FIPS 180-4, by OpenSSL). Members throw
/// std::runtime_error when the library refuses (out of memory, SHA-256 disabled).
class Sha256 {
 public:
  Sha256();

  void update(const void* data, size_t size_bytes);

  /// Digest of everything so far: 64 lower-case hex digits. More may be added afterwards.
  std::string hex() const;

  /// Digest of these bytes.
  static std::string hex_of(std::string_view bytes);

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace greta
