// Tables as text files carry them, .tsv, .csv and Markdown pipes, and the pairs that a report's
// table claims: pure functions of bytes that accept any input and take time linear in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace greta {

// A row holds the cells it was written with, so a ragged one is shorter or longer than the
// header. Read through cell(): the missing cells of a short row are "".
struct TableRow {
  int64_t line = 0;  // 1-based line of the row's first byte
  std::vector<std::string> cells;

  std::string_view cell(size_t column) const {
    return column < cells.size() ? std::string_view(cells[column]) : std::string_view();
  }
};

struct Table {
  int64_t line = 0;     // 1-based line of the header
  std::string section;  // text of the nearest heading above; "" if none
  std::vector<std::string> columns;
  std::vector<TableRow> rows;
};

// .tsv ('\t') and .csv (','): the first line that is not blank is the header. Takes a BOM, CRLF
// and RFC 4180 quotes; a quote that never closes is an ordinary character, and so is every quote
// after it. Blank lines are not rows.
Table read_delimited(std::string_view text, char delimiter);

// Every pipe table outside code fences, in order: a header with a '|', a rule of dashes below it
// (with or without pipes: the loose form of plain-text reports has none, and no leading pipe),
// then lines with a '|'. Cells are trimmed, `\|` is a '|', Markdown emphasis stays.
std::vector<Table> read_pipe_tables(std::string_view text);

// One row of a report's verdict table: what it claims about one pair.
struct ReportPair {
  enum Status { kMatch, kDrift, kMissing };

  int64_t line = 0;
  std::string prompt;
  std::optional<int64_t> token_id, pos_id;
  std::optional<int64_t> logical_tok_idx;  // TOK: it counts tokens, it is not a vocabulary id
  std::optional<int64_t> layer;
  std::string tensor;  // "" when the table has no such column or cell
  Status status = kDrift;
  std::string cause;       // FIRST_FAIL as written; "" when absent
  std::string root_cause;  // ROOT_CAUSE as written; "" when absent
  std::string details;
  std::string prefill_hash_prefix, decode_hash_prefix;  // decimal digits before the "..."
};

// nullopt unless the table has PROMPT and FIRST_FAIL columns, in any case. Absent is "", "-",
// "None", "null" or "N/A". TRACE_OFFSET in FIRST_FAIL or ROOT_CAUSE is kMissing, any other cause
// kDrift. Neither present is kMatch, but only if the row names a tensor, reaches the FIRST_FAIL
// column and has no detail that says mismatch. A row without a prompt or with TBD in FIRST_FAIL,
// and one that claims nothing, is not a pair.
std::optional<std::vector<ReportPair>> report_pairs(const Table& table);

// What the readers of text share. Bytes above 0x7f are never blanks, letters or digits.
namespace text {

std::string_view trim(std::string_view s);
std::string to_lower(std::string_view s);
// Trimmed and without '*' and '`', Markdown's emphasis and code marks.
std::string plain(std::string_view s);
// The whole of `s`, decimal, optionally signed.
std::optional<int64_t> parse_int(std::string_view s);
// Without a leading BOM, line ends and the CR of CRLF. "" has no lines.
std::vector<std::string_view> split_lines(std::string_view s);
// A line of nothing but at least three of '-', '=', '*' or '_'.
bool is_rule(std::string_view line);

// Tells which lines lie inside ``` or ~~~ fences; feed it every line in order.
class FenceTracker {
 public:
  enum Kind { kOutside, kFence, kInside };
  Kind next(std::string_view line);

 private:
  char mark_ = 0;  // 0 outside
  size_t length_ = 0;
};

// Heading text without markup when line `i` is a heading, else nullopt: "## Text", or a line
// between two rules of '='.
std::optional<std::string> heading(const std::vector<std::string_view>& lines, size_t i);

}  // namespace text
}  // namespace greta
