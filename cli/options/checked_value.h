#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace greta {

/// Adds an option that takes a whole number from `least` to `most`; another word is refused in a
/// sentence that says so.
CLI::Option* add_number_option(CLI::App& command, const std::string& name,
                               std::optional<int64_t>& value, const std::string& help,
                               int64_t least = 0,
                               int64_t most = std::numeric_limits<int64_t>::max());

/// For CLI::Option::check: what is wrong with a date, or the year or month that one begins with; ""
/// when nothing is.
std::string wrong_date(const std::string& text);

}  // namespace greta
