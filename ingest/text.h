#pragma once
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace greta {

/// ".jsonl" of "a/b.JSONL.gz"; "" when there is none.
std::string lower_extension(const std::string& path);

/// "b" of "a/b.jsonl.gz".
std::string file_stem(const std::string& path);

}  // namespace greta

/// What the readers of text share. Bytes above 0x7f are never blanks, letters or digits.
namespace greta::text {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool is_letter(char c) { return is_upper(c) || is_lower(c); }
/// A letter, a digit or '_'.
constexpr bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }

std::string_view trim(std::string_view s);
std::string to_lower(std::string_view s);
/// Trimmed and without '*' and '`', Markdown's emphasis and code marks.
std::string plain(std::string_view s);
/// The whole of `s`, decimal, optionally signed, with blanks around it.
std::optional<int64_t> parse_int(std::string_view s);
/// The whole of `s` as a number, without blanks or a plus sign; else nothing.
template <class T>
std::optional<T> number(std::string_view s) {
  T value{};
  auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (error != std::errc() || end != s.data() + s.size() || s.empty()) return std::nullopt;
  return value;
}
/// Longest line of a text that is looked at.
inline constexpr size_t kMaxTextLine = 1u << 20;
/// Without a leading byte order mark.
std::string_view without_mark(std::string_view s);
/// The text with an LF for each CR that ends a line by itself, as in a table of an old writer or
/// where a log draws over its last line.
std::string with_line_ends(std::string text);
/// Takes the next line off `rest`, without its end and the CR of CRLF; false when there is none.
bool take_line(std::string_view& rest, std::string_view& line);
/// The lines of a text without its mark, up to max_lines of them. "" has no lines.
std::vector<std::string_view> split_lines(std::string_view s, size_t max_lines = SIZE_MAX);
/// A line of nothing but at least three of '-', '=', '*' or '_'.
bool is_rule(std::string_view line);

/// Tells which lines lie inside ``` or ~~~ fences; feed it every line in order.
class FenceTracker {
 public:
  enum Kind { kOutside, kFence, kInside };
  Kind next(std::string_view line);

 private:
  char mark_ = 0;  // 0 outside
  size_t length_ = 0;
};

/// Heading text without markup when line `i` is a heading, else nullopt: "## Text", or a line
/// between two rules of '='.
std::optional<std::string> heading(const std::vector<std::string_view>& lines, size_t i);

}  // namespace greta::text
