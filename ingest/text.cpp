#include "ingest/text.h"

#include <algorithm>

#include "common/utf8.h"

namespace greta {

std::string lower_extension(const std::string& path) {
  std::string name = text::to_lower(path.substr(path.find_last_of('/') + 1));
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  size_t dot = name.find_last_of('.');
  return dot == std::string::npos ? "" : name.substr(dot);
}

std::string file_stem(const std::string& path) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return name.substr(0, name.find_last_of('.'));
}

}  // namespace greta

namespace greta::text {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";

size_t run_length(std::string_view s, char c) {
  const size_t end = s.find_first_not_of(c);
  return end == std::string_view::npos ? s.size() : end;
}

bool is_equals_rule(std::string_view line) {
  line = trim(line);
  return line.size() >= 3 && run_length(line, '=') == line.size();
}

}  // namespace

std::string_view trim(std::string_view s) {
  const size_t first = s.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(kBlanks) - first + 1);
}

std::string to_lower(std::string_view s) {
  std::string out(s);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string plain(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  for (const char c : s) {
    if (c != '*' && c != '`') out += c;
  }
  return std::string(trim(out));
}

std::optional<int64_t> parse_int(std::string_view s) {
  s = trim(s);
  if (s.size() > 1 && s[0] == '+' && s[1] != '-') s.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (error != std::errc() || end != s.data() + s.size()) return std::nullopt;
  return value;
}

std::string_view without_mark(std::string_view s) {
  if (s.starts_with(utf8::kByteOrderMark)) s.remove_prefix(utf8::kByteOrderMark.size());
  return s;
}

std::string with_line_ends(std::string text) {
  for (size_t i = text.find('\r'); i < text.size(); i = text.find('\r', i)) {
    const size_t end = text.find_first_not_of('\r', i);
    const bool is_of_lf = end != text.npos && text[end] == '\n';
    for (; i < std::min(end, text.size()); ++i) {
      if (!is_of_lf) text[i] = '\n';
    }
  }
  return text;
}

bool take_line(std::string_view& rest, std::string_view& line) {
  if (rest.empty()) return false;
  const size_t end = rest.find('\n');
  line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return true;
}

std::vector<std::string_view> split_lines(std::string_view s, size_t max_lines) {
  s = without_mark(s);
  std::vector<std::string_view> lines;
  for (std::string_view line; lines.size() < max_lines && take_line(s, line);) {
    lines.push_back(line);
  }
  return lines;
}

bool is_rule(std::string_view line) {
  line = trim(line);
  if (line.size() < 3 || std::string_view("-=*_").find(line[0]) == std::string_view::npos) {
    return false;
  }
  return run_length(line, line[0]) == line.size();
}

FenceTracker::Kind FenceTracker::next(std::string_view line) {
  line = trim(line);
  const char c = line.empty() ? '\0' : line[0];
  const size_t length = c == '`' || c == '~' ? run_length(line, c) : 0;
  if (mark_ == 0) {
    // A second backtick run makes it inline code on one line, not a fence.
    if (length < 3 || (c == '`' && line.find('`', length) != std::string_view::npos)) {
      return kOutside;
    }
    mark_ = c;
    length_ = length;
    return kFence;
  }
  if (c != mark_ || length < length_ || length != line.size()) return kInside;
  mark_ = 0;
  return kFence;
}

std::optional<std::string> heading(const std::vector<std::string_view>& lines, size_t i) {
  const std::string_view line = trim(lines[i]);
  const size_t level = run_length(line, '#');
  if (level >= 1 && level <= 6 && level < line.size() &&
      (line[level] == ' ' || line[level] == '\t')) {
    return plain(line.substr(level));
  }
  if (level == 0 && !line.empty() && i > 0 && i + 1 < lines.size() && !is_rule(line) &&
      is_equals_rule(lines[i - 1]) && is_equals_rule(lines[i + 1])) {
    return plain(line);
  }
  return std::nullopt;
}

}  // namespace greta::text
