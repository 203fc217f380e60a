#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/pages/pair_map.h"

namespace greta {

/// Values by number: each stands once, as JSON.
class NumberedValues {
 public:
  size_t at(std::string json);
  std::string json() const;

 private:
  std::map<std::string, size_t> index_;
  std::vector<std::string> list_;
};

/// What the cells of a map refer to by number.
struct CellValues {
  NumberedValues states, texts, tolerances;
};

/// The cells of a panel, column by column in the order of rows, as a JSON object. A column is an
/// array; [value, n] in it is n cells that have this value, and null is a value that a cell has
/// not. A column without a value is left out. "state", "tolerance" and texts are numbers in
/// `values`; each "left_line" and "right_line" is the distance from the one before; "=" in a right
/// column is the left one's value; "shares" are thousandths between blanks; "told" is 1 where the
/// cell has its MapDetail. A column of hashes is a text: of each 11 digits of base 64, "." without
/// one, "=" for that of the left.
std::string json_of_cells(const MapPanel& panel, CellValues& values);

/// A real in at most five digits and the fewest characters: 0.00012, 1.2345e-7.
std::string short_real(double value);

/// That, null without a value or for NaN, and what is read as infinite.
std::string real_json(const std::optional<double>& value);

/// A text of data as JSON.
std::string text_json(const std::string& text);

}  // namespace greta
