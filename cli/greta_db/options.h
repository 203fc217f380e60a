#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "cli/options/shared_options.h"
#include "cli/show/texts.h"
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

  /// True for the formats that have only what people read.
  bool for_readers() const { return format == Format::kTable || format == Format::kMarkdown; }
};

/// What a command takes beside a file and rows.
enum class Takes { kFile, kFleet, kPage, kFleetAndPage };

/// Makes `run` the action of a command. Returns the arguments that it gets, which the command's
/// options fill; they last as long as the command.
template <typename Arguments>
std::remove_const_t<Arguments>& add_action(CLI::App& command, Options& options,
                                           int (*run)(Options&, Arguments&),
                                           Takes takes = Takes::kFile) {
  auto arguments = std::make_shared<std::remove_const_t<Arguments>>();
  command.callback([&options, arguments, run, takes] {
    options.has_page = takes == Takes::kPage || takes == Takes::kFleetAndPage;
    options.asks_fleet = takes == Takes::kFleet || takes == Takes::kFleetAndPage;
    options.action = [&options, arguments, run] { return run(options, *arguments); };
  });
  return *arguments;
}

/// For offers_rows(): SQL that lists names.
inline constexpr const char* kListRuns = "SELECT name FROM run";
inline constexpr const char* kListExperiments = "SELECT DISTINCT experiment FROM run";
inline constexpr const char* kListModes = "SELECT DISTINCT mode FROM run WHERE mode IS NOT NULL";

/// Adds --db, --format, --csv-safe, --wait and --version to the program.
void add_common_options(CLI::App& app, Options& options);

/// Adds --run NAME and --latest; what they mean is resolve_runs'. Returns --run.
CLI::Option* add_run_option(CLI::App& command, std::string& run, Repeats& repeats,
                            Naming naming = Naming::kAny);

/// The same where several may be given: --run A B, or --run A --run B.
CLI::Option* add_run_option(CLI::App& command, std::vector<std::string>& runs, Repeats& repeats,
                            Naming naming = Naming::kAny);

/// Adds --experiment NAME, all runs of an experiment, in place of --run.
CLI::Option* add_experiment_option(CLI::App& command, std::string& experiment, CLI::Option* run);

/// Adds --gate strict|numeric, which is Gate::kVerdict without it.
void add_gate_option(CLI::App& command, Gate& gate);

/// Adds --lang en|es; with `both`, of a document, that too.
CLI::Option* add_language_option(CLI::App& command, Language& language, const std::string& help,
                                 bool both = false);

}  // namespace greta
