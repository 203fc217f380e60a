#pragma once
#include <CLI/CLI.hpp>

#include "cli/output/row_printer.h"

namespace greta {

/// Adds --format; `pages`: html is among its words.
CLI::Option* add_format_option(CLI::App& app, Format& format, bool pages = false);

}  // namespace greta
