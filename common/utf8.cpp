#include "common/utf8.h"

#include <cstdint>
#include <cstring>

#include "common/hex.h"

namespace greta::utf8 {
namespace {

/// What may follow a first byte: how many bytes in all, and the range of the second.
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

void append_escaped(std::string& to, char32_t control) {
  switch (control) {
    case '\n':
      to += "\\n";
      break;
    case '\r':
      to += "\\r";
      break;
    case '\t':
      to += "\\t";
      break;
    default:
      to += "\\x";
      append_hex(to, static_cast<uint8_t>(control));
  }
}

}  // namespace

Head head(std::string_view text) {
  if (text.empty()) return {Head::Kind::kPartial, 0};
  const auto first = static_cast<uint8_t>(text[0]);
  const Lead lead = lead_of(first);
  if (lead.bytes == 0) return {Head::Kind::kInvalid, 1};
  char32_t code = lead.bytes == 1 ? first : first & (0xffu >> (lead.bytes + 1));
  for (size_t i = 1; i < lead.bytes; ++i) {
    if (i == text.size()) return {Head::Kind::kPartial, i};
    const auto byte = static_cast<uint8_t>(text[i]);
    const bool fits = i == 1 ? byte >= lead.low && byte <= lead.high : byte >= 0x80 && byte <= 0xbf;
    if (!fits) return {Head::Kind::kInvalid, i};
    code = code << 6 | (byte & 0x3fu);
  }
  return {Head::Kind::kCharacter, lead.bytes, code};
}

size_t valid_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (text.size() - at >= sizeof(uint64_t) && is_ascii_word(&text[at])) {
      at += sizeof(uint64_t);
      continue;
    }
    const Head next = head(text.substr(at));
    if (!next.is_character()) break;
    at += next.bytes;
  }
  return at;
}

std::string replace_invalid(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t valid = valid_prefix(bytes);
    text += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    text += kReplacement;
    bytes.remove_prefix(1);
  }
  return text;
}

std::string printable(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const Head next = head(bytes);
    const size_t length = next.is_character() ? next.bytes : 1;
    if (!next.is_character()) {
      text += kReplacement;
    } else if (is_control(next.code)) {
      append_escaped(text, next.code);
    } else {
      text += bytes.substr(0, length);
    }
    bytes.remove_prefix(length);
  }
  return text;
}

std::string Stream::push(std::string_view bytes) {
  pending_ += bytes;
  std::string_view rest = pending_;
  std::string characters;
  while (!rest.empty()) {
    const size_t valid = valid_prefix(rest);
    characters += rest.substr(0, valid);
    rest.remove_prefix(valid);
    const Head next = head(rest);
    if (next.kind == Head::Kind::kPartial) break;
    characters += kReplacement;
    rest.remove_prefix(next.bytes);
  }
  pending_ = std::string(rest);
  return characters;
}

std::string Stream::finish() {
  const bool incomplete = !pending_.empty();
  pending_.clear();
  return std::string(incomplete ? kReplacement : std::string_view{});
}

}  // namespace greta::utf8
