#pragma once
#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cli/output/row_printer.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/verdict.h"
#include "common/exit_status.h"

namespace greta {

/// What every command shares.
struct Options {
  std::string database;  ///< --db, else $GRETA_DB, else greta.db; a file, or clickhouse://...
  Format format = Format::kTable;
  Output out;                   ///< standard output
  bool has_page = false;        ///< the command that was named takes --format html
  bool asks_fleet = false;      ///< the command that was named takes clickhouse:// as --db
  std::function<int()> action;  ///< set by the command that was named; returns the exit status
};

/// For offers_rows(): SQL that lists names.
inline constexpr const char* kListRuns = "SELECT name FROM run";
inline constexpr const char* kListExperiments = "SELECT DISTINCT experiment FROM run";
inline constexpr const char* kListModes = "SELECT DISTINCT mode FROM run WHERE mode IS NOT NULL";

/// Adds --db, --format, --csv-safe, --wait and --version to the program.
void add_common_options(CLI::App& app, Options& options);

/// Adds --run NAME and --latest; what they mean is resolve_runs'. Returns --run.
CLI::Option* add_run_option(CLI::App& command, std::string& run, Repeats& repeats);

/// The same where several may be given: --run A B, or --run A --run B.
CLI::Option* add_run_option(CLI::App& command, std::vector<std::string>& runs, Repeats& repeats);

/// Adds --gate strict|numeric, which is Gate::kVerdict without it.
void add_gate_option(CLI::App& command, Gate& gate);

}  // namespace greta
