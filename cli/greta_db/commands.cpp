#include "cli/greta_db/commands.h"

#include "db/database.h"

namespace greta {
namespace {

/// For completion: a file that cannot be asked offers nothing.
std::vector<std::string> first_column(const std::string& database, const std::string& sql) {
  std::vector<std::string> names;
  try {
    SQLite::Database db = open_unchanged(database);
    SQLite::Statement rows(db, sql);
    while (rows.executeStep()) names.push_back(rows.getColumn(0).getString());
  } catch (const std::exception&) {
    names.clear();
  }
  return names;
}

}  // namespace

void add_commands(CLI::App& app, Options& options) {
  app.name("greta-db");
  app.description(
      "Where do prefill and decode part ways? Ingests traces of LLM inference engines into SQLite\n"
      "and asks its views for verdicts.");
  app.footer(
      "Exit status: 0 PASS or done, 1 FAIL (ingest: some input quarantined), 2 usage or I/O "
      "error,\n"
      "3 no verdict (NO_EVIDENCE, INCOMPLETE, INCOMPARABLE, UNJUDGED). All of it: `greta-db manual "
      "| man -l -`");
  app.require_subcommand(1);
  app.fallthrough();
  add_common_options(app, options);
  add_ingest_command(app, options);
  add_runs_command(app, options);
  add_firstfail_command(app, options);
  add_watch_command(app, options);
  add_pairs_command(app, options);
  add_trace_command(app, options);
  add_query_command(app, options);
  add_compare_command(app, options);
  add_history_command(app, options);
  add_regressions_command(app, options);
  add_gate_command(app, options);
  add_waive_command(app, options);
  add_baseline_command(app, options);
  add_commits_command(app, options);
  add_bisect_command(app, options);
  add_tolerance_command(app, options);
  add_names_command(app, options);
  add_report_command(app, options);
  add_open_command(app, options);
  add_schema_command(app, options);
  add_merge_command(app, options);
  add_push_command(app, options);
  add_pull_command(app, options);
  add_fleet_command(app, options);
  add_forget_command(app, options);
  add_prune_command(app, options);
  add_check_command(app, options);
  add_upgrade_command(app, options);
  add_self_description(
      app, greta_db_manual(),
      [&options](std::function<std::string()> text) {
        options.action = [&options, text] {
          options.out.write(text());
          return static_cast<int>(kExitDone);
        };
      },
      [&options](const std::string& database, const std::string& sql) {
        return first_column(database.empty() ? options.database : database, sql);
      });
}

}  // namespace greta
