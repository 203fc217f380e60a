#include "ingest/table.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "common/utf8.h"

namespace greta {
namespace text {
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

std::vector<std::string_view> split_lines(std::string_view s) {
  if (s.starts_with(utf8::kByteOrderMark)) s.remove_prefix(utf8::kByteOrderMark.size());
  std::vector<std::string_view> lines;
  while (!s.empty()) {
    const size_t end = s.find('\n');
    std::string_view line = s.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    if (end == std::string_view::npos) break;
    s.remove_prefix(end + 1);
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

}  // namespace text

namespace {

using text::trim;

// Reads records one by one; a quoted field may span lines.
class DelimitedReader {
 public:
  DelimitedReader(std::string_view rest, char delimiter) : rest_(rest), delimiter_(delimiter) {}

  // False at the end of the text.
  bool next(TableRow& row) {
    if (rest_.empty()) return false;
    row.line = line_;
    row.cells.clear();
    do {
      row.cells.push_back(field());
    } while (take(delimiter_));
    if (take('\n')) ++line_;
    return true;
  }

 private:
  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::string field() {
    std::string cell;
    if (quotes_ && rest_.starts_with('"')) cell = quoted();
    return cell += unquoted();
  }

  // Also what a writer left between a closing quote and the next delimiter.
  std::string_view unquoted() {
    const char stops[] = {delimiter_, '\n'};
    std::string_view cell = rest_.substr(0, rest_.find_first_of(std::string_view(stops, 2)));
    rest_.remove_prefix(cell.size());
    if ((rest_.empty() || rest_.front() == '\n') && cell.ends_with('\r')) cell.remove_suffix(1);
    return cell;
  }

  // Leaves the text as it is when the quote never closes. Quotes then stop meaning anything, so
  // that no later one scans to the end of the text again.
  std::string quoted() {
    std::string cell;
    int64_t line_ends = 0;
    for (size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == '\n') ++line_ends;
      if (rest_[i] == '"') {
        if (i + 1 >= rest_.size() || rest_[i + 1] != '"') {
          rest_.remove_prefix(i + 1);
          line_ += line_ends;
          return cell;
        }
        ++i;
      }
      cell += rest_[i];
    }
    quotes_ = false;
    return {};
  }

  std::string_view rest_;
  char delimiter_;
  bool quotes_ = true;
  int64_t line_ = 1;
};

bool is_blank(const TableRow& row) { return row.cells.size() == 1 && trim(row.cells[0]).empty(); }

std::vector<std::string> split_pipes(std::string_view line) {
  line = trim(line);
  if (line.starts_with('|')) line.remove_prefix(1);
  std::vector<std::string> cells;
  std::string cell;
  bool open = true;  // a cell is open unless the line just ended with a pipe
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|') {
      cell += line[++i];
    } else if (line[i] == '|') {
      cells.emplace_back(trim(cell));
      cell.clear();
      open = i + 1 < line.size();
    } else {
      cell += line[i];
    }
  }
  if (open) cells.emplace_back(trim(cell));
  return cells;
}

bool has_pipe(std::string_view line) {
  for (size_t i = line.find('|'); i != std::string_view::npos; i = line.find('|', i + 1)) {
    if (i == 0 || line[i - 1] != '\\') return true;
  }
  return false;
}

// `:---:`, with at least `min_dashes` dashes.
bool is_delimiter_cell(std::string_view cell, size_t min_dashes) {
  cell = trim(cell);
  if (cell.starts_with(':')) cell.remove_prefix(1);
  if (cell.ends_with(':')) cell.remove_suffix(1);
  return cell.size() >= min_dashes && cell.find_first_not_of('-') == std::string_view::npos;
}

// `|---|:--:|` and `-----`. Inside a table three dashes a cell are asked for: "-" is a value.
bool is_delimiter_row(std::string_view line, size_t min_dashes) {
  line = trim(line);
  if (line.starts_with('|') || line.starts_with('+')) line.remove_prefix(1);
  if (line.ends_with('|') || line.ends_with('+')) line.remove_suffix(1);
  while (true) {
    const size_t end = line.find_first_of("|+");
    if (!is_delimiter_cell(line.substr(0, end), min_dashes)) return false;
    if (end == std::string_view::npos) return true;
    line.remove_prefix(end + 1);
  }
}

bool is_table_start(const std::vector<std::string_view>& lines, size_t i) {
  return i + 1 < lines.size() && has_pipe(lines[i]) && !is_delimiter_row(lines[i], 1) &&
         is_delimiter_row(lines[i + 1], has_pipe(lines[i + 1]) ? 1 : 3);
}

// Reads the table whose header is line `i`; returns its last line.
size_t read_pipe_table(const std::vector<std::string_view>& lines, size_t i, Table& table) {
  table.line = static_cast<int64_t>(i) + 1;
  table.columns = split_pipes(lines[i]);
  size_t last = i + 1;
  while (last + 1 < lines.size() && has_pipe(lines[last + 1])) {
    ++last;
    if (is_delimiter_row(lines[last], 3)) continue;
    table.rows.push_back({static_cast<int64_t>(last) + 1, split_pipes(lines[last])});
  }
  return last;
}

// Columns of a verdict table; kNone where it has none.
struct ReportColumns {
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();
  size_t prompt = kNone, token_id = kNone, pos_id = kNone, tok = kNone, layer = kNone;
  size_t tensor = kNone, first_fail = kNone, root_cause = kNone, details = kNone;
};

ReportColumns find_report_columns(const Table& table) {
  ReportColumns found;
  const std::pair<std::string_view, size_t*> known[] = {{"prompt", &found.prompt},
                                                        {"prompt_id", &found.prompt},
                                                        {"token_id", &found.token_id},
                                                        {"pos_id", &found.pos_id},
                                                        {"pos", &found.pos_id},
                                                        {"tok", &found.tok},
                                                        {"logical_tok_idx", &found.tok},
                                                        {"layer", &found.layer},
                                                        {"tensor", &found.tensor},
                                                        {"first_fail", &found.first_fail},
                                                        {"root_cause", &found.root_cause},
                                                        {"details", &found.details}};
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const std::string name = text::to_lower(text::plain(table.columns[i]));
    for (const auto& [known_name, column] : known) {
      if (name == known_name && *column == ReportColumns::kNone) *column = i;
    }
  }
  return found;
}

bool is_placeholder(std::string_view cell) { return text::to_lower(cell) == "tbd"; }

// The cell's value, "" when absent.
std::string value_at(const TableRow& row, size_t column) {
  std::string value = text::plain(row.cell(column));
  const std::string lower = text::to_lower(value);
  for (const std::string_view absent : {"-", "none", "null", "n/a"}) {
    if (lower == absent) return {};
  }
  return value;
}

// Details are the last column: a pipe that the writer did not escape belongs to them.
std::string details_at(const Table& table, const TableRow& row, size_t column) {
  if (column == ReportColumns::kNone) return {};
  std::string details(row.cell(column));
  if (column + 1 == table.columns.size()) {
    for (size_t i = column + 1; i < row.cells.size(); ++i) details += " | " + row.cells[i];
  }
  const std::string lower = text::to_lower(details);
  return lower == "none" || details == "-" || is_placeholder(details) ? std::string() : details;
}

// The text right of `'key':` in a printed dictionary, blanks skipped; "" without such a key.
std::string_view dictionary_value(std::string_view details, std::string_view key) {
  const size_t at = details.find(key);
  if (at == std::string_view::npos) return {};
  details.remove_prefix(at + key.size());
  const size_t start = details.find_first_not_of("'\" :=");
  return start == std::string_view::npos ? std::string_view() : details.substr(start);
}

std::string hash_prefix(std::string_view details, std::string_view key) {
  const std::string_view value = dictionary_value(details, key);
  const size_t end = value.find_first_not_of("0123456789");
  return std::string(value.substr(0, end));
}

std::optional<ReportPair> report_pair(const Table& table, const TableRow& row,
                                      const ReportColumns& columns) {
  ReportPair pair;
  pair.line = row.line;
  pair.prompt = value_at(row, columns.prompt);
  pair.tensor = value_at(row, columns.tensor);
  pair.cause = value_at(row, columns.first_fail);
  pair.root_cause = value_at(row, columns.root_cause);
  if (pair.prompt.empty() || is_placeholder(pair.prompt) || is_placeholder(pair.cause)) {
    return std::nullopt;
  }
  if (is_placeholder(pair.tensor)) pair.tensor.clear();
  if (is_placeholder(pair.root_cause)) pair.root_cause.clear();
  pair.token_id = text::parse_int(value_at(row, columns.token_id));
  pair.pos_id = text::parse_int(value_at(row, columns.pos_id));
  pair.logical_tok_idx = text::parse_int(value_at(row, columns.tok));
  pair.layer = text::parse_int(value_at(row, columns.layer));
  pair.details = details_at(table, row, columns.details);
  pair.prefill_hash_prefix = hash_prefix(pair.details, "prefill_hash");
  pair.decode_hash_prefix = hash_prefix(pair.details, "decode_hash");

  const auto says = [&](std::string_view word) {
    return pair.cause.find(word) != std::string::npos ||
           pair.root_cause.find(word) != std::string::npos;
  };
  const std::string details = text::to_lower(pair.details);
  const bool mismatch = dictionary_value(details, "hash_mismatch").starts_with("true") ||
                        dictionary_value(details, "hash_match").starts_with("false");
  if (says("TRACE_OFFSET")) {
    pair.status = ReportPair::kMissing;
  } else if (!pair.cause.empty() || !pair.root_cause.empty() || mismatch) {
    pair.status = ReportPair::kDrift;
  } else if (!pair.tensor.empty() && columns.first_fail < row.cells.size()) {
    pair.status = ReportPair::kMatch;
  } else {
    return std::nullopt;
  }
  return pair;
}

}  // namespace

Table read_delimited(std::string_view text, char delimiter) {
  if (text.starts_with(utf8::kByteOrderMark)) text.remove_prefix(utf8::kByteOrderMark.size());
  DelimitedReader reader(text, delimiter);
  Table table;
  TableRow row;
  while (reader.next(row)) {
    if (is_blank(row)) continue;
    if (table.line == 0) {
      table.line = row.line;
      for (const std::string& cell : row.cells) table.columns.emplace_back(trim(cell));
    } else {
      table.rows.push_back(row);
    }
  }
  return table;
}

std::vector<Table> read_pipe_tables(std::string_view text) {
  const std::vector<std::string_view> lines = text::split_lines(text);
  std::vector<Table> tables;
  std::string section;
  text::FenceTracker fences;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (fences.next(lines[i]) != text::FenceTracker::kOutside) continue;
    if (is_table_start(lines, i)) {
      Table table;
      table.section = section;
      i = read_pipe_table(lines, i, table);
      tables.push_back(std::move(table));
    } else if (auto heading = text::heading(lines, i)) {
      section = std::move(*heading);
    }
  }
  return tables;
}

std::optional<std::vector<ReportPair>> report_pairs(const Table& table) {
  const ReportColumns columns = find_report_columns(table);
  if (columns.prompt == ReportColumns::kNone || columns.first_fail == ReportColumns::kNone) {
    return std::nullopt;
  }
  std::vector<ReportPair> pairs;
  for (const TableRow& row : table.rows) {
    if (auto pair = report_pair(table, row, columns)) pairs.push_back(std::move(*pair));
  }
  return pairs;
}

}  // namespace greta
