#pragma once

#include <algorithm>
#include <string_view>

namespace greta {

/// Error text for a name that is refused.
inline constexpr std::string_view kNamePartRule =
    "use letters, digits, '_', '-' and '.', not '.' at the front";

/// True if a text can be a part of a run's name (a date, an experiment, a mode, a label), as
/// kNamePartRule says.
inline bool is_name_part(std::string_view text) {
  constexpr std::string_view kCharacters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  return !text.empty() && text.front() != '.' &&
         text.find_first_not_of(kCharacters) == std::string_view::npos;
}

/// True if it can be a run's name: such parts with '/' between them.
inline bool is_run_name(std::string_view text) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('/', begin), text.size());
    if (!is_name_part(text.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

}  // namespace greta
