#include "engine/tokenizer/byte_level.h"

#include <array>
#include <cstdint>

namespace greta {
namespace {

constexpr int kFirstSubstitute = 0x100;
constexpr int kSubstitutes = 68;  // bytes that are not printable
constexpr int kCharacters = kFirstSubstitute + kSubstitutes;

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

struct Alphabet {
  std::array<uint16_t, 256> character{};    // of a byte
  std::array<int16_t, kCharacters> byte{};  // of a character; -1 when there is none
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte.fill(-1);
  int substitute = kFirstSubstitute;
  for (int byte = 0; byte < 256; ++byte) {
    const int character = stands_for_itself(byte) ? byte : substitute++;
    alphabet.character[byte] = static_cast<uint16_t>(character);
    alphabet.byte[character] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();
static_assert(kAlphabet.character[0xad] == kCharacters - 1);

}  // namespace

std::string to_byte_level(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const int character = kAlphabet.character[static_cast<uint8_t>(byte)];
    if (character < 0x80) {
      text += static_cast<char>(character);
    } else {
      text += static_cast<char>(0xc0 | (character >> 6));
      text += static_cast<char>(0x80 | (character & 0x3f));
    }
  }
  return text;
}

std::optional<std::string> from_byte_level(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    int character = static_cast<uint8_t>(text[i]);
    if (character >= 0x80) {  // the alphabet has one and two byte forms only
      const int next = i + 1 < text.size() ? static_cast<uint8_t>(text[i + 1]) : 0;
      if ((character & 0xe0) != 0xc0 || (next & 0xc0) != 0x80) return std::nullopt;
      character = (character & 0x1f) << 6 | (next & 0x3f);
      if (character < 0x80) return std::nullopt;  // overlong
      ++i;
    }
    if (character >= kCharacters || kAlphabet.byte[character] < 0) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.byte[character]);
  }
  return bytes;
}

}  // namespace greta
