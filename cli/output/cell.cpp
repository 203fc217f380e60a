#include "cli/output/cell.h"

#include <charconv>
#include <cmath>

#include "common/hex.h"
#include "common/json_text.h"
#include "common/utf8.h"

namespace greta {

Cell Cell::blob(std::string_view bytes) {
  Cell cell(bytes);
  cell.type = Type::kBlob;
  return cell;
}

std::string shortest_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[32];
  std::string text(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string plain_text(const Cell& cell) {
  std::string text;
  switch (cell.type) {
    case Cell::Type::kNull:
      break;
    case Cell::Type::kInteger:
      text = std::to_string(cell.integer);
      break;
    case Cell::Type::kReal:
      text = shortest_real(cell.real);
      break;
    case Cell::Type::kText:
      text = utf8::replace_invalid(cell.text);
      break;
    case Cell::Type::kBlob:
      append_hex(text, cell.text);
      break;
  }
  return text;
}

void append_json_cell(std::string& to, const Cell& cell) {
  switch (cell.type) {
    case Cell::Type::kNull:
      to += "null";
      break;
    case Cell::Type::kInteger:
      append_json(to, cell.integer);
      break;
    case Cell::Type::kReal:
      if (std::isinf(cell.real)) {
        to += cell.real < 0 ? "-1e999" : "1e999";
      } else {
        to += std::isnan(cell.real) ? "null" : shortest_real(cell.real);
      }
      break;
    case Cell::Type::kText:
      append_json(to, cell.text);
      break;
    case Cell::Type::kBlob:
      to += '"';
      append_hex(to, cell.text);
      to += '"';
      break;
  }
}

std::string json_of_texts(const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  for (const std::string& text : texts) append_json(all.emplace_back(), text);
  return json_array(all);
}

std::string display_text(const Cell& cell) {
  switch (cell.type) {
    case Cell::Type::kNull:
      return "-";
    case Cell::Type::kText:
      return utf8::printable(cell.text);
    case Cell::Type::kBlob:
      return "(" + std::to_string(cell.text.size()) + " bytes)";
    default:
      return plain_text(cell);
  }
}

std::string markdown_text(std::string_view text) {
  constexpr std::string_view kMarkup = "\\|<[*`~";
  std::string cell;
  for (char c : utf8::printable(text)) {
    if (kMarkup.find(c) != std::string_view::npos) cell += '\\';
    cell += c;
  }
  return cell;
}

}  // namespace greta
