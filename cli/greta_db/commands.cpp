#include "cli/greta_db/commands.h"

#include <memory>

#include "common/completion.h"

namespace greta {
namespace {

void add_completion_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "completion", "Prints the completion script of a shell, run names included");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember(completed_shells()))
      ->option_text("SHELL");
  command->callback([&app, &options, shell] {
    options.action = [&app, &options, shell] {
      options.out.write(completion_script(app, *shell));
      return static_cast<int>(kExitDone);
    };
  });
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
      "3 no verdict (NO_EVIDENCE, INCOMPLETE, INCOMPARABLE, UNJUDGED). See greta-db(1).");
  app.require_subcommand(1);
  app.fallthrough();
  add_common_options(app, options);
  for (const auto add : {add_ingest_command,      add_runs_command,      add_firstfail_command,
                         add_watch_command,       add_pairs_command,     add_trace_command,
                         add_query_command,       add_compare_command,   add_history_command,
                         add_regressions_command, add_gate_command,      add_waive_command,
                         add_baseline_command,    add_commits_command,   add_bisect_command,
                         add_tolerance_command,   add_names_command,     add_report_command,
                         add_open_command,        add_schema_command,    add_merge_command,
                         add_push_command,        add_pull_command,      add_fleet_command,
                         add_forget_command,      add_prune_command,     add_check_command,
                         add_upgrade_command,     add_completion_command})
    add(app, options);
}

}  // namespace greta
