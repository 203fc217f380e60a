#pragma once
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace greta {

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

  /// The integer, or the number; nothing of another type.
  std::optional<int64_t> id() const {
    return type == Type::kInteger ? std::optional(integer) : std::nullopt;
  }
  std::optional<double> number() const {
    return type == Type::kReal      ? std::optional(real)
           : type == Type::kInteger ? std::optional(static_cast<double>(integer))
                                    : std::nullopt;
  }
};

/// NULL for "", and for no id; the text is borrowed.
inline Cell or_null(const std::string& text) { return text.empty() ? Cell() : Cell(text); }
inline Cell or_null(std::optional<int64_t> id) { return id ? Cell(*id) : Cell(); }

/// Text of a value as tables show it.
std::string display_text(const Cell& cell);

/// Text in Markdown, of a line or a cell of a table: no name ends the cell, the row or begins
/// markup.
std::string markdown_text(std::string_view text);

/// Value as every format but JSON spells it: invalid UTF-8 replaced, blobs as hex; NULL is "".
std::string plain_text(const Cell& cell);

/// The fewest digits that read back the same, always with a point or exponent: 1.0, 1e-07.
std::string shortest_real(double value);

/// Appends a value as JSON: integers exact, reals as shortest_real (infinity as 1e999, which
/// readers take for it), blobs as a string of hex digits.
void append_json_cell(std::string& to, const Cell& cell);

/// append_json_cell under the name by which JsonObject finds it; nothing is converted to a Cell for
/// it.
void append_json(std::string& to, const std::same_as<Cell> auto& cell) {
  append_json_cell(to, cell);
}

/// A JSON array.
std::string json_of_texts(const std::vector<std::string>& texts);

}  // namespace greta
