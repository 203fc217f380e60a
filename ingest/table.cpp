#include "ingest/table.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/utf8.h"
#include "ingest/text.h"

namespace greta {
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
    row.is_cut = false;
    size_t bytes = 0;
    do {
      std::string cell = field();
      bytes += cell.size();
      row.is_cut |= row.cells.size() == kMaxCells || bytes > kMaxRowBytes;
      if (!row.is_cut) row.cells.push_back(std::move(cell));
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

/// True if a row has something in a cell behind the last column.
bool is_wide(const TableRow& row, size_t columns) {
  for (size_t i = columns; i < row.cells.size(); ++i) {
    if (!trim(row.cells[i]).empty()) return true;
  }
  return false;
}

bool is_blank(const TableRow& row) { return row.cells.size() == 1 && trim(row.cells[0]).empty(); }

TableRow split_pipes(std::string_view line, size_t line_no) {
  line = trim(line);
  if (line.starts_with('|')) line.remove_prefix(1);
  TableRow row{static_cast<int64_t>(line_no), {}};
  std::vector<std::string>& cells = row.cells;
  std::string cell;
  bool open = true;  // a cell is open unless the line just ended with a pipe
  for (size_t i = 0; i < line.size(); ++i) {
    if (cells.size() == kMaxCells) {
      row.is_cut = true;
      return row;
    }
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
  return row;
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

// Reads the table whose header is line `i`, taking from the cells that are left; returns its last
// line.
size_t read_pipe_table(const std::vector<std::string_view>& lines, size_t i, size_t& cells_left,
                       Table& table) {
  table.line = static_cast<int64_t>(i) + 1;
  TableRow header = split_pipes(lines[i], i + 1);
  if (header.is_cut) table.cut.add(header.line);
  table.columns = std::move(header.cells);
  size_t last = i + 1;
  while (last + 1 < lines.size() && has_pipe(lines[last + 1])) {
    ++last;
    if (is_delimiter_row(lines[last], 3)) continue;
    if (cells_left == 0) {
      table.refused.add(static_cast<int64_t>(last) + 1);
      continue;
    }
    const TableRow& row = table.rows.emplace_back(split_pipes(lines[last], last + 1));
    if (row.is_cut) table.cut.add(row.line);
    cells_left -= std::min(cells_left, row.cells.size() + 2);
  }
  return last;
}

}  // namespace

std::vector<std::string> Table::repeated_columns() const {
  std::vector<std::string> repeated;
  std::set<std::string_view> seen;
  for (const std::string& column : columns) {
    if (!column.empty() && !seen.insert(column).second) repeated.push_back(column);
  }
  return repeated;
}

Table read_delimited(std::string_view text, char delimiter, const RowTaker& take) {
  if (text.starts_with(utf8::kByteOrderMark)) text.remove_prefix(utf8::kByteOrderMark.size());
  DelimitedReader reader(text, delimiter);
  Table table;
  TableRow row;
  for (int64_t rows = -1; reader.next(row); rows += !is_blank(row)) {
    if (is_blank(row)) continue;
    if (rows >= kMaxTableRows) {
      table.refused.add(row.line);
      continue;
    }
    if (row.is_cut) table.cut.add(row.line);
    if (table.line == 0 && row.cells.size() == 1 && trim(row.cells[0]).starts_with('#') &&
        table.comments.size() < kMaxCells) {
      table.comments.push_back(row);
      --rows;
    } else if (table.line == 0) {
      table.line = row.line;
      for (const std::string& cell : row.cells) table.columns.emplace_back(trim(cell));
    } else {
      if (is_wide(row, table.columns.size())) table.wide.add(row.line);
      if (take) {
        take(table, row);
      } else {
        table.rows.push_back(row);
      }
    }
  }
  return table;
}

std::vector<Table> read_pipe_tables(std::string_view text) {
  const std::vector<std::string_view> lines = text::split_lines(text);
  std::vector<Table> tables;
  std::string section;
  text::FenceTracker fences;
  size_t cells_left = kMaxDocumentCells;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (fences.next(lines[i]) != text::FenceTracker::kOutside) continue;
    if (is_table_start(lines, i)) {
      Table table;
      table.section = section;
      i = read_pipe_table(lines, i, cells_left, table);
      tables.push_back(std::move(table));
    } else if (auto heading = text::heading(lines, i)) {
      section = std::move(*heading);
    }
  }
  return tables;
}

}  // namespace greta
