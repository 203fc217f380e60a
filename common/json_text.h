#pragma once
#include <charconv>
#include <concepts>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// JSON as it is written: text, member by member, in order. It is read with nlohmann-json, or with
/// simdjson where there is much of it.
namespace greta {

/// Appends `text` as a JSON string; what utf8::is_shown denies is escaped, joiners too, for nothing
/// is lost by it, and every byte that is not UTF-8 becomes U+FFFD.
void append_json(std::string& to, std::string_view text);

/// Appends a number in the fewest digits that read back as the same double; what JSON has no number
/// for is null.
void append_json(std::string& to, double value);

inline void append_json(std::string& to, std::same_as<bool> auto value) {
  to += value ? "true" : "false";
}

template <std::integral T>
requires(!std::same_as<T, bool> && !std::same_as<T, char>) void append_json(std::string& to,
                                                                            T value) {
  char digits[24];
  to.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

void append_json(std::string& to, std::span<const double> values);

/// Values as doubles, and NaN, -NaN, Infinity, -Infinity as many readers take them.
void append_json(std::string& to, std::span<const float> values);

/// `value` as JSON: what append_json appends.
template <class T>
std::string as_json(const T& value) {
  std::string text;
  append_json(text, value);
  return text;
}

/// A JSON object as one line of text.
class JsonObject {
 public:
  /// A value that some append_json takes.
  template <class T>
  JsonObject& add(std::string_view key, const T& value) {
    begin(key);
    append_json(text_, value);
    return *this;
  }
  /// Nothing when there is no value.
  template <class T>
  JsonObject& add(std::string_view key, const std::optional<T>& value) {
    return value ? add(key, *value) : *this;
  }
  /// A value that is JSON already: another object, an array.
  JsonObject& raw(std::string_view key, std::string_view json);

  std::string str() const { return text_ + "}"; }

  /// The object; the builder is empty again.
  std::string take() { return std::exchange(text_, "{") + "}"; }

 private:
  void begin(std::string_view key);
  std::string text_ = "{";
};

/// [a,b,c] of values that are JSON already.
std::string json_array(const std::vector<std::string>& values);

}  // namespace greta
