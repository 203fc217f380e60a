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

}  // namespace greta
