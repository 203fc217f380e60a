#include "ingest/failure_lines.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "ingest/failure_claim.h"
#include "ingest/failure_members.h"
#include "ingest/failure_table.h"
#include "ingest/judging_table.h"
#include "ingest/report_pairs.h"
#include "ingest/telling_words.h"
#include "ingest/text.h"

namespace greta {
namespace {

constexpr size_t kMaxPipedBytes = 1024, kMaxHeadCellBytes = 32;
constexpr size_t kMaxStatedBytes = 128;  // of "name: value"

/// Whether a line begins as one that names a limit, or what is expected; hardly any does.
bool may_say_what_should_be(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t-*");
  if (begin == line.npos || line.size() > kMaxStatedBytes || !text::is_letter(line[begin]))
    return false;
  size_t end = begin;
  while (end < line.size() && line[end] != ':' && line[end] != '=') ++end;
  return end < line.size() && may_be_held_against_others(line.substr(begin, end - begin));
}

/// "name: value" of a line, and nothing else.
std::optional<Member> stated_member(std::string_view line) {
  line = text::trim(line);
  if (line.size() > kMaxStatedBytes) return std::nullopt;
  const size_t end = line.find_first_of(":=");
  if (end == line.npos || end == 0) return std::nullopt;
  std::string name = text::plain(line.substr(0, end));
  std::string value = text::plain(line.substr(end + 1));
  const auto is_of_name = [](char c) {
    return text::is_word(c) || c == ' ' || c == '-' || c == '.';
  };
  if (value.empty() || !std::all_of(name.begin(), name.end(), is_of_name)) return std::nullopt;
  return Member{std::move(name), std::move(value)};
}

/// "3c3", "1,2d0": where a difference is, as `diff` says.
bool is_difference_range(std::string_view line) {
  const auto take_lines = [&line] {
    const size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
    line.remove_prefix(digits);
    return digits > 0;
  };
  const auto take_lines_or_two = [&] {
    if (!take_lines()) return false;
    if (!line.starts_with(',')) return true;
    line.remove_prefix(1);
    return take_lines();
  };
  if (!take_lines_or_two() || line.empty()) return false;
  const bool is_change = line[0] == 'a' || line[0] == 'c' || line[0] == 'd';
  line.remove_prefix(1);
  return is_change && take_lines_or_two() && line.empty();
}

/// The name of "--- name\t2026-11-26".
std::string_view name_of_side(std::string_view line) {
  line.remove_prefix(4);
  return text::trim(line.substr(0, line.find('\t')));
}

/// Whether two things are held against each other, and no change of one is shown, as git does.
bool are_two(std::string_view before, std::string_view behind) {
  if (before == "/dev/null" || behind == "/dev/null") return false;
  if (before.starts_with("a/") && behind.starts_with("b/")) {
    before.remove_prefix(2);
    behind.remove_prefix(2);
  }
  const bool is_change =
      before == behind || (before.starts_with(behind) && before.substr(behind.size()) == ".orig");
  return !is_change;
}

TableRow piped_row(std::string_view line) {
  TableRow row;
  if (line.starts_with('|')) line.remove_prefix(1);
  if (line.ends_with('|')) line.remove_suffix(1);
  while (true) {
    const size_t end = line.find('|');
    row.cells.emplace_back(text::plain(line.substr(0, end)));
    if (end == line.npos || row.cells.size() == kMaxCells) return row;
    line.remove_prefix(end + 1);
  }
}

/// "|---|---|", "+----+", which stands between the rows of a table.
bool is_rule_of_table(std::string_view line) {
  return line.find_first_not_of("|-+=: \t") == line.npos;
}

bool may_be_head_cell(const std::string& column) {
  return column.size() <= kMaxHeadCellBytes && (column.empty() || !text::is_digit(column[0]));
}

}  // namespace

bool FailureLines::claims(std::string_view line) {
  const bool by_others = disagrees(line);
  std::string plain;
  if (line.find('\xe2') != line.npos) line = with_plain_boxes(line, plain);
  const bool by_difference = ends_difference(line), by_row = is_failing_row(line);
  return by_others || by_difference || by_row || line_claims_failure(line);
}

bool FailureLines::disagrees(std::string_view line) {
  if (line.empty()) {
    lines_held_ = lines_to_look_at_ = 0;
    return false;
  }
  held_[lines_held_++ % kLinesHeld] = line;
  if (may_say_what_should_be(line)) {
    lines_to_look_at_ = kLinesHeld;
  } else if (lines_to_look_at_ > 0) {
    --lines_to_look_at_;
  }
  if (lines_to_look_at_ == 0) return false;
  std::vector<Member> members;
  const size_t n = std::min(lines_held_, kLinesHeld);
  for (size_t i = n; i > 0; --i) {
    auto member = stated_member(held_[(lines_held_ - i) % kLinesHeld]);
    if (member) {
      members.push_back(*std::move(member));
    } else {
      members.clear();
    }
  }
  return members.size() > 1 && !claim_of_members(members).empty();
}

bool FailureLines::ends_difference(std::string_view line) {
  const Difference last = difference_;
  difference_ = Difference::kNone;
  if (line.empty()) return false;
  switch (line[0]) {
    case '-':
      if (line == "---" && last == Difference::kOldLine) {
        difference_ = Difference::kRule;
      } else if (line.starts_with("--- ")) {
        difference_ = Difference::kOldName;
        old_name_ = name_of_side(line);
      }
      return false;
    case '+':
      if (last == Difference::kOldName && line.starts_with("+++ ") &&
          are_two(old_name_, name_of_side(line))) {
        difference_ = Difference::kNames;
      }
      return false;
    case '@':
      return last == Difference::kNames && line.starts_with("@@ -");
    case '<':
      if (line.starts_with("< ")) difference_ = Difference::kOldLine;
      return last == Difference::kRange && line.starts_with("< ");
    case '>':
      return (last == Difference::kRange || last == Difference::kRule) && line.starts_with("> ");
    default:
      if (text::is_digit(line[0]) && is_difference_range(line)) difference_ = Difference::kRange;
      return false;
  }
}

bool FailureLines::is_failing_row(std::string_view line) {
  if (line.find('|') == line.npos || line.size() > kMaxPipedBytes) {
    const bool is_between =
        !head_.columns.empty() && line.starts_with('+') && is_rule_of_table(line);
    if (!head_.columns.empty() && !is_between) head_.columns.clear();
    return false;
  }
  if (is_rule_of_table(line)) return false;
  if (head_.columns.empty()) {
    if (text::is_digit(line.front())) return false;  // as a bar of progress does
    TableRow row = piped_row(text::trim(line));
    if (row.cells.size() < 2 || !std::all_of(row.cells.begin(), row.cells.end(), may_be_head_cell))
      return false;
    head_.columns = std::move(row.cells);
    head_tells_ = said::has_telling_word(line) || text::to_lower(line).find("hash") != line.npos;
    return false;
  }
  if (!head_tells_ && !said::has_telling_word(line)) return false;
  const TableRow row = piped_row(text::trim(line));
  if (row.cells.size() != head_.columns.size()) {
    head_.columns.clear();
    return false;
  }
  auto judging = report_columns(head_);
  if (!judging) judging = status_columns(head_);
  if (judging) {
    const auto pair = report_pair(head_, row, *judging);
    return pair && pair->status == ReportPair::kDrift;
  }
  const bool has_columns = is_of_one_run_ || lists_parts_of_a_run(head_);
  return !claim_of_row(head_, row, has_columns, !is_of_one_run_).empty();
}

}  // namespace greta
