#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Tables as text files carry them, .tsv, .csv and Markdown pipes: pure functions of bytes that
/// accept any input and take time linear in it.
namespace greta {

/// A row holds the cells it was written with, so a ragged one is shorter or longer than the
/// header. Read through cell(): the missing cells of a short row are "".
struct TableRow {
  int64_t line = 0;  ///< 1-based line of the row's first byte
  std::vector<std::string> cells;

  std::string_view cell(size_t column) const {
    return column < cells.size() ? std::string_view(cells[column]) : std::string_view();
  }
};

struct Table {
  int64_t line = 0;     ///< 1-based line of the header
  std::string section;  ///< text of the nearest heading above; "" if none
  std::vector<std::string> columns;
  std::vector<TableRow> rows;
};

/// .tsv ('\t') and .csv (','): the first line that is not blank is the header. Takes a BOM, CRLF
/// and RFC 4180 quotes; a quote that never closes is an ordinary character, and so is every quote
/// after it. Blank lines are not rows.
Table read_delimited(std::string_view text, char delimiter);

/// Every pipe table outside code fences, in order: a header with a '|', a rule of dashes below it
/// (with or without pipes: the loose form of plain-text reports has none, and no leading pipe),
/// then lines with a '|'. Cells are trimmed, `\|` is a '|', Markdown emphasis stays.
std::vector<Table> read_pipe_tables(std::string_view text);

}  // namespace greta
