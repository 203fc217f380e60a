#pragma once

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

// Lists that options take as one text.

namespace greta {

/// Parts of a text between commas and blanks.
std::vector<std::string> split_words(std::string_view text);

/// A word as a whole number, which the message calls `what`. Throws std::invalid_argument.
template <class Number>
Number parse_number(const std::string& word, const char* what) {
  Number value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) {
    throw std::invalid_argument(std::string(what) + " '" + word + "' is not a whole number");
  }
  return value;
}

}  // namespace greta
