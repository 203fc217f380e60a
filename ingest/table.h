#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

/// Tables as text files carry them, .tsv, .csv and Markdown pipes: pure functions of bytes that
/// accept any input and take time linear in it.
namespace greta {

/// What a table may have: no report comes near, and what a file of nothing but delimiters would
/// take has an end.
inline constexpr size_t kMaxCells = 1'000;              ///< of a row
inline constexpr size_t kMaxRowBytes = 1u << 20;        ///< of a row's cells
inline constexpr int64_t kMaxTableRows = 500'000;       ///< of a file of one table
inline constexpr size_t kMaxDocumentCells = 1'000'000;  ///< of a document; a row counts as two more

/// A row holds the cells it was written with, so a ragged one is shorter or longer than the
/// header. Read through cell(): the missing cells of a short row are "".
struct TableRow {
  int64_t line = 0;  ///< 1-based line of the row's first byte
  std::vector<std::string> cells;
  bool is_cut = false;  ///< it has more cells, or more in them, than a row may have

  std::string_view cell(size_t column) const {
    return column < cells.size() ? std::string_view(cells[column]) : std::string_view();
  }
};

/// How many rows something is true of, and the first of them.
struct RowCount {
  int64_t rows = 0, first_line = 0;

  void add(int64_t line) {
    if (rows++ == 0) first_line = line;
  }
};

struct Table {
  int64_t line = 0;     ///< 1-based line of the header
  std::string section;  ///< text of the nearest heading above; "" if none
  std::vector<std::string> columns;
  std::vector<TableRow> rows;
  RowCount cut;                    ///< rows and header that are cut
  RowCount refused;                ///< rows beyond what a table may have
  RowCount wide;                   ///< rows with something in a cell behind the last column
  std::vector<TableRow> comments;  ///< lines above the header that begin with '#'

  /// Columns that have the name of one before them, in order.
  std::vector<std::string> repeated_columns() const;
};

/// Gets the header, which has no rows, and one row after the other.
using RowTaker = std::function<void(const Table& header, const TableRow& row)>;

/// .tsv ('\t') and .csv (','): the first line that is neither blank nor one cell that begins with
/// '#' is the header. Takes a BOM, CRLF and RFC 4180 quotes; a quote that never closes is an
/// ordinary character, and so is every quote after it. Blank lines are not rows. With `take` it
/// gets the rows, and the table keeps none.
Table read_delimited(std::string_view text, char delimiter, const RowTaker& take = {});

/// Every pipe table outside code fences, in order: a header with a '|', a rule of dashes below it
/// (with or without pipes: the loose form of plain-text reports has none, and no leading pipe),
/// then lines with a '|'. Cells are trimmed, `\|` is a '|', Markdown emphasis stays.
std::vector<Table> read_pipe_tables(std::string_view text);

}  // namespace greta
