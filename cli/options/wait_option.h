#pragma once
#include <CLI/CLI.hpp>

namespace greta {

/// Adds --wait DURATION, which sets the patience of LockWait::usual().
CLI::Option* add_wait_option(CLI::App& app);

}  // namespace greta
