#pragma once
#include <CLI/CLI.hpp>
#include <optional>

#include "common/exit_status.h"

namespace greta {

/// Of a command line that could not be parsed because it names no command of the program: says
/// which word it has in its place, and the nearest ones. Nothing when that is not what is wrong.
std::optional<UsageError> unknown_command(const CLI::App& app);

}  // namespace greta
