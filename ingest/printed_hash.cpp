#include "ingest/printed_hash.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

#include "ingest/text.h"

namespace greta {
namespace {

/// No hash has more digits; longer cells are compared as text.
constexpr size_t kMaxPrinted = 256;

enum class Base { kDecimal, kHex, kEither };

/// A hash as printed. Of a cut one the digits before and behind the gap are known.
struct PrintedHash {
  std::string head, tail;
  Base base = Base::kEither;
  bool is_cut = false;
  bool is_number = false;  // else head is the text
};

bool is_hex_digit(char c) { return text::is_digit(c) || (c >= 'a' && c <= 'f'); }

void erase_all(std::string& s, std::string_view part) {
  for (size_t at = s.find(part); at != s.npos; at = s.find(part, at)) s.erase(at, part.size());
}

/// Blanks, quotes and separators of thousands go; a point is one only between groups of three.
std::string without_separators(std::string s) {
  for (const char* blank : {"\xc2\xa0", "\xe2\x80\xaf", "\xe2\x80\x89"}) erase_all(s, blank);
  std::erase_if(
      s, [](char c) { return std::string_view(" \t,_'\"").find(c) != std::string_view::npos; });
  for (size_t at = s.find('.'); at != s.npos; at = s.find('.', at + 1)) {
    const size_t end = std::min(s.find('.', at + 1), s.size());
    if (at == 0 || end - at != 4) return s;
  }
  erase_all(s, ".");
  return s;
}

/// Base and digits of one part of a hash; false when it is no number.
bool read_part(std::string& part, Base& base) {
  const bool is_marked = part.starts_with("0x");
  if (is_marked) part.erase(0, 2);
  if (!std::all_of(part.begin(), part.end(), is_hex_digit)) return false;
  if (is_marked || !std::all_of(part.begin(), part.end(), text::is_digit)) base = Base::kHex;
  return true;
}

/// The 64 bits of a negative decimal number, as the unsigned one that they are too.
std::string unsigned_text(const std::string& number) {
  const auto value = text::number<int64_t>(number);
  return value ? std::to_string(static_cast<uint64_t>(*value)) : number;
}

PrintedHash read(std::string_view cell) {
  PrintedHash hash;
  std::string whole = text::to_lower(text::plain(cell));
  for (const std::string_view gap : {"...", "\xe2\x80\xa6"}) {
    const size_t at = whole.find(gap);
    if (at == whole.npos || hash.is_cut) continue;
    hash.is_cut = true;
    hash.tail = without_separators(whole.substr(at + gap.size()));
    whole.resize(at);
  }
  hash.head = without_separators(std::move(whole));
  if (hash.head.starts_with('-') && !hash.is_cut) {
    hash.head = unsigned_text(hash.head);
    hash.base = Base::kDecimal;
  }
  hash.is_number = (hash.is_cut || !hash.head.empty()) && read_part(hash.head, hash.base) &&
                   read_part(hash.tail, hash.base);
  return hash;
}

std::string_view without_zeros(std::string_view digits) {
  return digits.substr(std::min(digits.find_first_not_of('0'), digits.size()));
}

/// Digits of a decimal number in hexadecimal; "?" beyond 64 bits.
std::string in_hex(std::string_view decimal) {
  const auto value = text::number<uint64_t>(decimal);
  if (!value) return "?";
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof digits, *value, 16).ptr;
  return {digits, end};
}

/// Digits without a mark are hexadecimal beside a hexadecimal hash only when they are as many as
/// those of a word are.
bool equals_hex(const PrintedHash& hex, const PrintedHash& other) {
  if (other.base == Base::kHex) return without_zeros(hex.head) == without_zeros(other.head);
  if (other.base == Base::kEither && other.head.size() % 8 == 0 &&
      without_zeros(hex.head) == without_zeros(other.head)) {
    return true;
  }
  return without_zeros(in_hex(other.head)) == without_zeros(hex.head);
}

bool equal_wholes(const PrintedHash& a, const PrintedHash& b) {
  if (a.base == Base::kHex) return equals_hex(a, b);
  if (b.base == Base::kHex) return equals_hex(b, a);
  return without_zeros(a.head) == without_zeros(b.head);
}

/// Whether a digit that both show differs, or one shows more than the other has.
bool cut_ones_differ(const PrintedHash& a, const PrintedHash& b) {
  if (a.base != b.base) return false;  // digits of two bases tell nothing
  const std::string_view a_head = without_zeros(a.head), b_head = without_zeros(b.head);
  const size_t shown = std::min(a_head.size(), b_head.size());
  if (a_head.substr(0, shown) != b_head.substr(0, shown)) return true;
  if ((!a.is_cut && b_head.size() > shown) || (!b.is_cut && a_head.size() > shown)) return true;
  const std::string_view a_end = a.is_cut ? a.tail : a.head, b_end = b.is_cut ? b.tail : b.head;
  const size_t end = std::min(a_end.size(), b_end.size());
  return a_end.substr(a_end.size() - end) != b_end.substr(b_end.size() - end);
}

}  // namespace

bool is_absent_cell(std::string_view cell) {
  const std::string lower = text::to_lower(text::plain(cell));
  for (const std::string_view absent : {"", "-", "none", "null", "n/a", "tbd"}) {
    if (lower == absent) return true;
  }
  return false;
}

std::optional<bool> same_printed_hash(std::string_view a, std::string_view b) {
  if (is_absent_cell(a) || is_absent_cell(b)) return std::nullopt;
  const auto same_text = [&] {
    return text::to_lower(text::plain(a)) == text::to_lower(text::plain(b));
  };
  if (std::max(a.size(), b.size()) > kMaxPrinted) return same_text();
  const PrintedHash x = read(a), y = read(b);
  if (!x.is_number || !y.is_number) return same_text();
  if (!x.is_cut && !y.is_cut) return equal_wholes(x, y);
  return cut_ones_differ(x, y) ? std::optional(false) : std::nullopt;
}

}  // namespace greta
