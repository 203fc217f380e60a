#include "cli/output/json_text.h"

#include <charconv>
#include <cmath>

namespace greta {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

}  // namespace

void append_json_string(std::string& to, std::string_view text) {
  to += '"';
  for (char c : valid_utf8(text)) {
    switch (c) {
      case '"':
        to += "\\\"";
        break;
      case '\\':
        to += "\\\\";
        break;
      case '\b':
        to += "\\b";
        break;
      case '\f':
        to += "\\f";
        break;
      case '\n':
        to += "\\n";
        break;
      case '\r':
        to += "\\r";
        break;
      case '\t':
        to += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
          to += "\\u00";
          to += kHexDigits[c >> 4];
          to += kHexDigits[c & 15];
        } else {
          to += c;
        }
    }
  }
  to += '"';
}

void append_json(std::string& to, const Cell& cell) {
  switch (cell.type) {
    case Cell::Type::kNull:
      to += "null";
      break;
    case Cell::Type::kInteger:
      to += std::to_string(cell.integer);
      break;
    case Cell::Type::kReal:
      if (std::isinf(cell.real)) {
        to += cell.real < 0 ? "-1e999" : "1e999";
      } else {
        to += std::isnan(cell.real) ? "null" : shortest_real(cell.real);
      }
      break;
    case Cell::Type::kText:
      append_json_string(to, cell.text);
      break;
    case Cell::Type::kBlob:
      to += '"';
      for (unsigned char c : cell.text) {
        to += kHexDigits[c >> 4];
        to += kHexDigits[c & 15];
      }
      to += '"';
      break;
  }
}

void JsonObject::key(std::string_view name) {
  if (!members_.empty()) members_ += ',';
  append_json_string(members_, name);
  members_ += ':';
}

JsonObject& JsonObject::add(std::string_view name, const Cell& value) {
  key(name);
  append_json(members_, value);
  return *this;
}

JsonObject& JsonObject::add_bool(std::string_view name, bool value) {
  return raw(name, value ? "true" : "false");
}

JsonObject& JsonObject::raw(std::string_view name, std::string_view json) {
  key(name);
  members_ += json;
  return *this;
}

std::string json_array(const std::vector<std::string>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); i++) {
    if (i) text += ',';
    text += values[i];
  }
  return text + "]";
}

}  // namespace greta
