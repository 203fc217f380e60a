#pragma once
#include <CLI/CLI.hpp>

#include "cli/greta_db/options.h"
#include "common/completion.h"

/// Each add_ function adds one subcommand to `app`, from the file of its name or the one named
/// here. Parsing sets options.action; run_greta_db runs it afterwards and exits with what it
/// returns. Actions write to options.out and throw UsageError, DatabaseError or SQLite::Exception.
namespace greta {

void add_ingest_command(CLI::App& app, Options& options);
void add_runs_command(CLI::App& app, Options& options);
void add_firstfail_command(CLI::App& app, Options& options);
void add_watch_command(CLI::App& app, Options& options);
void add_pairs_command(CLI::App& app, Options& options);  ///< in rows.cpp
void add_trace_command(CLI::App& app, Options& options);  ///< in rows.cpp
void add_query_command(CLI::App& app, Options& options);
void add_compare_command(CLI::App& app, Options& options);
void add_history_command(CLI::App& app, Options& options);
void add_regressions_command(CLI::App& app, Options& options);  ///< in history.cpp
void add_gate_command(CLI::App& app, Options& options);
void add_waive_command(CLI::App& app, Options& options);
void add_baseline_command(CLI::App& app, Options& options);
void add_commits_command(CLI::App& app, Options& options);
void add_bisect_command(CLI::App& app, Options& options);
void add_tolerance_command(CLI::App& app, Options& options);
void add_names_command(CLI::App& app, Options& options);
void add_report_command(CLI::App& app, Options& options);
void add_open_command(CLI::App& app, Options& options);  ///< in report.cpp
void add_schema_command(CLI::App& app, Options& options);
void add_merge_command(CLI::App& app, Options& options);  ///< in exchange.cpp
void add_push_command(CLI::App& app, Options& options);   ///< in exchange.cpp
void add_pull_command(CLI::App& app, Options& options);   ///< in exchange.cpp
void add_fleet_command(CLI::App& app, Options& options);  ///< in exchange.cpp
void add_forget_command(CLI::App& app, Options& options);
void add_prune_command(CLI::App& app, Options& options);  ///< in forget.cpp
void add_check_command(CLI::App& app, Options& options);
void add_upgrade_command(CLI::App& app, Options& options);  ///< in check.cpp

/// The prose of the manual, by command.
const std::vector<ManualText>& greta_db_manual();

/// The options of the program itself (--db, --format, --version) and every command.
void add_commands(CLI::App& app, Options& options);

}  // namespace greta
