#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "cli/output/cell.h"
#include "cli/output/output.h"

// Rows as a table, JSON, CSV, TSV or Markdown.

namespace greta {

enum class Format {
  kTable,
  kJson,
  kCsv,
  kCsvSafe,  ///< ' before a text that a spreadsheet may take for a formula (OWASP, CSV injection)
  kTsv,
  kMarkdown,
  kHtml  ///< a page, which no RowPrinter prints
};

/// Prints rows in any format as they come. A table holds back its first rows to size the columns;
/// all other formats hold back nothing. Reals are printed in the fewest digits that read back the
/// same, integers exactly, blobs as hex, invalid UTF-8 as U+FFFD. NULL is null in JSON, "-" in
/// tables and Markdown, nothing in CSV and TSV ("" is an empty text). What is not printable
/// (utf8::printable) is spelled out, in JSON as \u. CSV has no spelling for it that readers take
/// back: it is so on a terminal only, and elsewhere texts are as they are.
class RowPrinter {
 public:
  static constexpr size_t kRowsHeldBack = 1000;

  /// JSON needs unique keys: the second column `x` becomes `x:1`.
  RowPrinter(Output& out, Format format, std::vector<std::string> columns);

  void row(std::span<const Cell> cells);  ///< as many as columns
  void row(std::initializer_list<Cell> cells) { row(std::span(cells.begin(), cells.size())); }

  /// Ends the output; call once.
  void finish();

  /// Put before every line of a table.
  void set_indent(std::string indent) { indent_ = std::move(indent); }
  /// Leaves columns out of a table that are NULL in all rows held back.
  void hide_empty_columns() { hide_empty_ = true; }
  int64_t rows() const { return rows_; }

 private:
  struct Text {
    std::string text;
    bool numeric;  ///< or NULL
    bool null = false;
  };
  void table_row(std::span<const Cell> cells);
  void size_columns();
  void write_table_line(std::span<const Text> cells, bool header);
  void json_row(std::span<const Cell> cells);
  void separated_row(std::span<const Cell> cells);
  void markdown_row(std::span<const Cell> cells);

  Output& out_;
  Format format_;
  std::vector<std::string> columns_;
  std::string indent_;
  int64_t rows_ = 0;
  std::vector<std::vector<Text>> held_back_;
  std::vector<size_t> widths_;
  std::vector<bool> right_aligned_;
  std::vector<bool> hidden_;
  bool hide_empty_ = false;
  bool sized_ = false;
  std::string line_;
};

}  // namespace greta
