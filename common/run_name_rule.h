#pragma once
#include <string_view>

namespace greta {

/// Whether a text can be a part of a run's name (a date, an experiment, a mode, a label): letters,
/// digits, '_', '-' and '.', not '.' at the front.
bool is_name_part(std::string_view text);

/// Whether it can be a run's name: such parts with '/' between them.
bool is_run_name(std::string_view text);

/// What is said of one that cannot.
inline constexpr std::string_view kNamePartRule =
    "use letters, digits, '_', '-' and '.', not '.' at the front";

}  // namespace greta
