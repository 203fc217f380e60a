#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace greta {

/// Appends a byte as two lower-case hex digits.
inline void append_hex(std::string& to, uint8_t byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  to += kDigits[byte >> 4];
  to += kDigits[byte & 15];
}

/// Appends every byte so.
inline void append_hex(std::string& to, std::string_view bytes) {
  for (const char byte : bytes) append_hex(to, static_cast<uint8_t>(byte));
}

/// Appends the low `bytes` bytes of a number, the most significant first.
inline void append_hex_number(std::string& to, uint32_t number, int bytes) {
  while (bytes-- > 0) append_hex(to, static_cast<uint8_t>(number >> (8 * bytes)));
}

}  // namespace greta
