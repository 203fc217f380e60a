#include "common/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

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

struct Range {
  char32_t first, last;
};

/// Characters that are not shown, ascending. Source: DerivedCoreProperties.txt and UnicodeData.txt
/// of Unicode 15, default ignorable and Cf; without the signs of Arabic, Syriac and Kaithi, which
/// are Cf but have a glyph.
constexpr Range kNotShown[] = {
    {0x0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},
    {0x61c, 0x61c},     {0x115f, 0x1160},   {0x17b4, 0x17b5},   {0x180b, 0x180f},
    {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},   {0x3164, 0x3164},
    {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xfffb},
    {0xfffe, 0xffff},  // no characters: XML forbids them
    {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
};

/// White_Space of Unicode 15 that is shown, and the pattern of Braille that has no dot.
bool is_blank(char32_t code) {
  return code == 0x20 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
         code == 0x205f || code == 0x2800 || code == 0x3000 || (code == 0x202f);
}

bool is_joiner(char32_t code) { return code == 0x200c || code == 0x200d; }

bool is_variation_selector(char32_t code) { return code >= 0xfe00 && code <= 0xfe0f; }

/// Whether `code` shapes the character before it; 0 when that was not shown.
bool belongs_to(char32_t before, char32_t code) {
  if (before < 0x80) return false;
  return (is_joiner(code) && !is_joiner(before)) ||
         (is_variation_selector(code) && is_shown(before));
}

void append_escaped(std::string& to, char32_t code) {
  if (code == '\n' || code == '\r' || code == '\t') {
    to += code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t";
    return;
  }
  const int bytes = code < 0x100 ? 1 : code < 0x10000 ? 2 : 4;
  to += bytes == 1 ? "\\x" : bytes == 2 ? "\\u" : "\\U";
  append_hex_number(to, code, bytes);
}

/// Bytes at the start that are ASCII with a glyph, or blanks.
size_t plain_prefix(std::string_view text) {
  const auto is_plain = [](char c) { return c >= ' ' && c < '\x7f'; };
  return static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_plain) - text.begin());
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

bool is_shown(char32_t code) {
  const auto* range = std::lower_bound(std::begin(kNotShown), std::end(kNotShown), code,
                                       [](const Range& r, char32_t c) { return r.last < c; });
  return range == std::end(kNotShown) || code < range->first;
}

bool shows_something(std::string_view text) {
  while (!text.empty()) {
    const Head next = head(text);
    if (next.is_character() && is_shown(next.code) && !is_blank(next.code)) return true;
    text.remove_prefix(std::max<size_t>(next.bytes, 1));
  }
  return false;
}

std::string printable(std::string_view bytes, std::string_view kept) {
  std::string text;
  text.reserve(bytes.size());
  char32_t before = 0;
  while (!bytes.empty()) {
    if (const size_t plain = plain_prefix(bytes)) {
      text += bytes.substr(0, plain);
      bytes.remove_prefix(plain);
      before = 0;
      continue;
    }
    const Head next = head(bytes);
    const size_t length = next.is_character() ? next.bytes : 1;
    const bool as_is = is_shown(next.code) || belongs_to(before, next.code) ||
                       (length == 1 && kept.find(bytes[0]) != kept.npos);
    if (!next.is_character()) {
      text += kReplacement;
    } else if (as_is) {
      text += bytes.substr(0, length);
    } else {
      append_escaped(text, next.code);
    }
    before = next.is_character() && as_is ? next.code : 0;
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
