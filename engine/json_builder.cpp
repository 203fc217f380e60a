#include "engine/json_builder.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace greta {
namespace {

void append_number(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char text[32];
  out.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

void append_value(std::string& out, float value) {
  if (std::isfinite(value)) return append_number(out, static_cast<double>(value));
  out += std::signbit(value) ? "-" : "";
  out += std::isnan(value) ? "NaN" : "Infinity";
}

template <class T>
void append_array(std::string& out, std::span<const T> values, void (*append)(std::string&, T)) {
  out += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ',';
    append(out, values[i]);
  }
  out += ']';
}

}  // namespace

std::string json_quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void JsonBuilder::begin(std::string_view key) {
  if (text_.size() > 1) text_ += ',';
  const bool plain = std::all_of(key.begin(), key.end(), [](char c) {
    return c >= ' ' && c < '\x7f' && c != '"' && c != '\\';
  });
  if (plain) {
    text_ += '"';
    text_ += key;
    text_ += "\":";
  } else {
    text_ += json_quoted(key) + ":";
  }
}

JsonBuilder& JsonBuilder::add(std::string_view key, std::string_view text) {
  return raw(key, json_quoted(text));
}

JsonBuilder& JsonBuilder::add(std::string_view key, double value) {
  begin(key);
  append_number(text_, value);
  return *this;
}

JsonBuilder& JsonBuilder::add(std::string_view key, std::span<const double> values) {
  begin(key);
  append_array(text_, values, append_number);
  return *this;
}

JsonBuilder& JsonBuilder::add(std::string_view key, std::span<const float> values) {
  begin(key);
  append_array(text_, values, append_value);
  return *this;
}

JsonBuilder& JsonBuilder::raw(std::string_view key, std::string_view json) {
  begin(key);
  text_ += json;
  return *this;
}

std::string JsonBuilder::take() {
  text_ += '}';
  return std::exchange(text_, "{");
}

}  // namespace greta
