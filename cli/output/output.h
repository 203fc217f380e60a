#pragma once
#include <concepts>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace greta {

enum class Format { kTable, kJson, kCsv, kTsv, kMarkdown };

/// Standard output was closed by its reader: nobody is left to tell.
struct OutputClosed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Buffered standard output. Not thread-safe.
class Output {
 public:
  Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Throws OutputClosed when the reader went away, std::system_error when the disk is full etc.
  void write(std::string_view text);
  void flush();

  bool is_terminal() const { return width_ > 0; }
  int width() const { return width_; }  ///< columns of the terminal, 0 when it is none
  bool colors() const { return colors_; }  ///< a terminal, and no NO_COLOR (https://no-color.org)

 private:
  std::string buffer_;
  int width_ = 0;
  bool colors_ = false;
};

/// One value of a result; text and blob are borrowed.
struct Cell {
  enum class Type : uint8_t { kNull, kInteger, kReal, kText, kBlob };
  Type type = Type::kNull;
  int64_t integer = 0;
  double real = 0;
  std::string_view text;  ///< of kText, bytes of kBlob

  Cell() = default;
  Cell(int64_t value) : type(Type::kInteger), integer(value) {}
  Cell(double value) : type(Type::kReal), real(value) {}
  Cell(std::string_view value) : type(Type::kText), text(value) {}
  Cell(const std::string& value) : type(Type::kText), text(value) {}
  Cell(const char* value) : type(Type::kText), text(value) {}
  static Cell blob(std::string_view bytes);
};

/// Prints rows in any format as they come. A table holds back its first rows to size the columns;
/// all other formats hold back nothing. Reals are printed in the fewest digits that read back the
/// same, integers exactly, blobs as hex, invalid UTF-8 as U+FFFD. NULL is null in JSON, "-" in
/// tables and Markdown, nothing in CSV and TSV ("" is an empty text).
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

/// Columns a terminal uses for valid UTF-8.
size_t display_width(std::string_view text);

/// Appends a value as JSON: integers exact, reals as shortest_real (infinity as 1e999, which readers
/// take for it), blobs as a string of hex digits.
void append_json_cell(std::string& to, const Cell& cell);

/// append_json_cell under the name by which JsonObject finds it; nothing is converted to a Cell for
/// it.
void append_json(std::string& to, const std::same_as<Cell> auto& cell) {
  append_json_cell(to, cell);
}

/// Text of a value as tables show it.
std::string display_text(const Cell& cell);

/// The fewest digits that read back the same, always with a point or exponent: 1.0, 1e-07.
std::string shortest_real(double value);

/// `text` in the colour of that verdict or pair status: green, red, yellow; as is without colours.
std::string colored(const Output& out, std::string_view text);

}  // namespace greta
