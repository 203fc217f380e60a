#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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

  using Digest = std::array<uint8_t, 32>;

  void update(const void* data, size_t size_bytes);

  /// Digest of everything so far. More may be added afterwards.
  Digest digest() const;
  std::string hex() const;  ///< the same as 64 lower-case hex digits

  /// Of these bytes.
  static Digest digest_of(std::string_view bytes);
  static std::string hex_of(std::string_view bytes);

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace greta
