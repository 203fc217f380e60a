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
  for (const auto add :
       {add_ingest_command,   add_runs_command,        add_firstfail_command, add_watch_command,
        add_pairs_command,    add_trace_command,       add_query_command,     add_compare_command,
        add_history_command,  add_regressions_command, add_gate_command,      add_waive_command,
        add_baseline_command, add_commits_command,     add_bisect_command,    add_tolerance_command,
        add_names_command,    add_report_command,      add_open_command,      add_schema_command,
        add_merge_command,    add_push_command,        add_pull_command,      add_fleet_command,
        add_forget_command,   add_prune_command,       add_check_command,     add_upgrade_command})
    add(app, options);
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
