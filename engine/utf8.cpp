#include "engine/utf8.h"

#include <cstdint>
#include <cstring>

namespace greta {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// What may follow a first byte: how many bytes in all, and the range of the second.
struct Lead {
  size_t bytes;  // 0: never a first byte
  uint8_t low = 0x80, high = 0xbf;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xc2) return {0};
  if (byte < 0xe0) return {2};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0};
}

bool is_ascii_word(const char* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return (word & 0x8080808080808080u) == 0;
}

}  // namespace

Utf8Head utf8_head(std::string_view text) {
  if (text.empty()) return {Utf8Head::Kind::kPartial, 0};
  const Lead lead = lead_of(static_cast<uint8_t>(text[0]));
  if (lead.bytes == 0) return {Utf8Head::Kind::kInvalid, 1};
  for (size_t i = 1; i < lead.bytes; ++i) {
    if (i == text.size()) return {Utf8Head::Kind::kPartial, i};
    const auto byte = static_cast<uint8_t>(text[i]);
    const bool fits = i == 1 ? byte >= lead.low && byte <= lead.high : byte >= 0x80 && byte <= 0xbf;
    if (!fits) return {Utf8Head::Kind::kInvalid, i};
  }
  return {Utf8Head::Kind::kCharacter, lead.bytes};
}

size_t utf8_valid_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (text.size() - at >= sizeof(uint64_t) && is_ascii_word(&text[at])) {
      at += sizeof(uint64_t);
      continue;
    }
    const Utf8Head head = utf8_head(text.substr(at));
    if (head.kind != Utf8Head::Kind::kCharacter) break;
    at += head.bytes;
  }
  return at;
}

std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  std::string_view rest = pending_;
  std::string characters;
  while (!rest.empty()) {
    const size_t valid = utf8_valid_prefix(rest);
    characters += rest.substr(0, valid);
    rest.remove_prefix(valid);
    const Utf8Head head = utf8_head(rest);
    if (head.kind == Utf8Head::Kind::kPartial) break;
    characters += kReplacement;
    rest.remove_prefix(head.bytes);
  }
  pending_ = std::string(rest);
  return characters;
}

std::string Utf8Stream::finish() {
  const bool incomplete = !pending_.empty();
  pending_.clear();
  return std::string(incomplete ? kReplacement : std::string_view{});
}

}  // namespace greta
