#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace greta {

/// A JSON object as one line of text, built member by member, in order. Numbers are written in the
/// fewest digits that read back as the same double; what JSON has no number for becomes null.
class JsonBuilder {
 public:
  JsonBuilder& add(std::string_view key, std::string_view text);
  JsonBuilder& add(std::string_view key, const char* text) {
    return add(key, std::string_view(text));
  }
  JsonBuilder& add(std::string_view key, std::same_as<bool> auto value) {
    return raw(key, value ? "true" : "false");
  }
  JsonBuilder& add(std::string_view key, double value);
  template <std::integral T>
  requires(!std::same_as<T, bool>) JsonBuilder& add(std::string_view key, T value) {
    char text[24];
    return raw(key, {text, std::to_chars(text, text + sizeof text, value).ptr});
  }
  /// Nothing when there is no value.
  template <class T>
  JsonBuilder& add(std::string_view key, const std::optional<T>& value) {
    return value ? add(key, *value) : *this;
  }
  JsonBuilder& add(std::string_view key, std::span<const double> values);
  /// As doubles, and NaN, -NaN, Infinity, -Infinity as many readers take them.
  JsonBuilder& add(std::string_view key, std::span<const float> values);
  JsonBuilder& raw(std::string_view key, std::string_view json);

  /// The object; the builder is empty again.
  std::string take();

 private:
  void begin(std::string_view key);
  std::string text_ = "{";
};

/// `text` between quotes; bytes that are not UTF-8 become U+FFFD.
std::string json_quoted(std::string_view text);

}  // namespace greta
