#pragma once
#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>

#include "cli/output.h"

namespace greta {

/// A command line that cannot be carried out; what() says what to do instead. Exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Exit status of the program.
enum Exit : int {
  kExitDone = 0,       ///< PASS or done
  kExitFail = 1,       ///< FAIL; ingest: some input quarantined
  kExitError = 2,      ///< usage, I/O or a damaged file
  kExitNoVerdict = 3,  ///< NO_EVIDENCE, INCOMPLETE, INCOMPARABLE
};

/// Which verdict the exit status follows.
enum class Gate { kStrict, kNumeric };

/// What every command shares.
struct Options {
  std::string database;  ///< --db, else $GRETA_DB, else greta.db
  Format format = Format::kTable;
  Output out;                   ///< standard output
  std::function<int()> action;  ///< set by the command that was named; returns the exit status
};

/// Adds --db, --format and --version to the program.
void add_common_options(CLI::App& app, Options& options);

/// Adds --run NAME; what it means is resolve_runs'.
CLI::Option* add_run_option(CLI::App& command, std::string& run);

/// Adds --gate strict|numeric.
void add_gate_option(CLI::App& command, Gate& gate);

/// Whether the environment asks for output without colour (https://no-color.org).
bool no_color();

}  // namespace greta
