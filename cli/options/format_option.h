#pragma once
#include <CLI/CLI.hpp>

#include "cli/output/row_printer.h"

namespace greta {

/// Adds --format.
CLI::Option* add_format_option(CLI::App& app, Format& format);

}  // namespace greta
