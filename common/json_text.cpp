#include "common/json_text.h"

#include <cmath>

#include "common/hex.h"
#include "common/utf8.h"

namespace greta {
namespace {

bool is_plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\';
}

/// \uXXXX, of a character beyond U+FFFF two of them.
void append_code(std::string& to, char32_t code) {
  if (code >= 0x10000) {
    append_code(to, 0xd800 + ((code - 0x10000) >> 10));
    code = 0xdc00 + ((code - 0x10000) & 0x3ff);
  }
  to += "\\u";
  append_hex_number(to, code, 2);
}

/// Of a character that stands for something else in JSON, or is not shown.
void append_escaped(std::string& to, char32_t code) {
  constexpr std::string_view kNames = "\"\"\\\\\bb\ff\nn\rr\tt";
  for (size_t i = 0; i < kNames.size(); i += 2) {
    if (code != static_cast<unsigned char>(kNames[i])) continue;
    to += '\\';
    to += kNames[i + 1];
    return;
  }
  append_code(to, code);
}

void append_value(std::string& to, double value) { append_json(to, value); }

void append_value(std::string& to, float value) {
  if (std::isfinite(value)) return append_json(to, static_cast<double>(value));
  to += std::signbit(value) ? "-" : "";
  to += std::isnan(value) ? "NaN" : "Infinity";
}

template <class T>
void append_array(std::string& to, std::span<const T> values) {
  to += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) to += ',';
    append_value(to, values[i]);
  }
  to += ']';
}

}  // namespace

void append_json(std::string& to, std::string_view text) {
  to += '"';
  while (!text.empty()) {
    size_t plain = 0;
    while (plain < text.size() && is_plain(text[plain])) ++plain;
    to += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const utf8::Head next = utf8::head(text);
    const size_t length = next.is_character() ? next.bytes : 1;
    if (!next.is_character()) {
      to += utf8::kReplacement;
    } else if (length == 1 || !utf8::is_shown(next.code)) {
      append_escaped(to, next.code);
    } else {
      to += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  to += '"';
}

void append_json(std::string& to, double value) {
  if (!std::isfinite(value)) {
    to += "null";
    return;
  }
  char digits[32];
  to.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

void append_json(std::string& to, std::span<const double> values) { append_array(to, values); }

void append_json(std::string& to, std::span<const float> values) { append_array(to, values); }

void JsonObject::begin(std::string_view key) {
  if (text_.size() > 1) text_ += ',';
  append_json(text_, key);
  text_ += ':';
}

JsonObject& JsonObject::raw(std::string_view key, std::string_view json) {
  begin(key);
  text_ += json;
  return *this;
}

std::string json_array(const std::vector<std::string>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ',';
    text += values[i];
  }
  return text + "]";
}

}  // namespace greta
