#pragma once
#include <cstddef>
#include <string_view>

namespace greta {

/// Whether it can stand in a name or a word of SQL without quotes.
inline bool is_of_word(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Where the quoted text that begins at `at` ends: behind its closing quote. A quote that stands
/// twice in it ends one text and begins another, which is all the same to who skips it.
inline size_t quoted_end(std::string_view sql, size_t at) {
  const char close = sql[at] == '[' ? ']' : sql[at];
  const size_t end = sql.find(close, at + 1);
  return end == std::string_view::npos ? sql.size() : end + 1;
}

/// Where the comment that begins at `at` ends; `at` when none does.
inline size_t comment_end(std::string_view sql, size_t at) {
  const bool line = sql.substr(at, 2) == "--";
  if (!line && sql.substr(at, 2) != "/*") return at;
  const size_t end = line ? sql.find('\n', at) : sql.find("*/", at + 2);
  if (end == std::string_view::npos) return sql.size();
  return end + (line ? 1 : 2);
}

}  // namespace greta
