#include "cli/greta_db/commands.h"

namespace greta {

void add_commands(CLI::App& app, Options& options) {
  app.name("greta-db");
  app.description(
      "Where do prefill and decode part ways? Ingests traces of LLM inference engines into SQLite\n"
      "and asks its views for verdicts.");
  app.footer(
      "Exit status: 0 PASS or done, 1 FAIL (ingest: some input quarantined), 2 usage or I/O "
      "error,\n"
      "3 no verdict (NO_EVIDENCE, INCOMPLETE, INCOMPARABLE, UNJUDGED). See greta-db(1).");
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
  add_completion_command(app, options);
}

}  // namespace greta
