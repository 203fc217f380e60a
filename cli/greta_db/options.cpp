#include "cli/greta_db/options.h"

#include <sqlite3.h>

#include "common/environment.h"

namespace greta {

void add_common_options(CLI::App& app, Options& options) {
  options.database = environment_variable("GRETA_DB");
  if (options.database.empty()) options.database = "greta.db";
  add_option(app, "--db FILE", options.database,
             "Database file, or for some commands clickhouse://USER@HOST:PORT/DATABASE"
             " (default: $GRETA_DB, else greta.db)");
  add_format_option(app, options.format, true);
  auto csv_safe = std::make_shared<bool>(false);
  app.add_flag("--csv-safe", *csv_safe,
               "With --format csv: ' before texts that a spreadsheet may take for a formula");
  app.final_callback([&options, csv_safe] {
    if (options.format == Format::kHtml && options.action && !options.has_page) {
      throw CLI::ValidationError("--format", "html is for report, compare, history and gate");
    }
    if (!*csv_safe) return;
    if (options.format != Format::kCsv) {
      throw CLI::ValidationError("--csv-safe", "is for --format csv");
    }
    options.format = Format::kCsvSafe;
  });
  add_wait_option(app);
  app.set_version_flag(
      "--version",
      std::string("greta-db ") + GRETA_VERSION + " (SQLite " + sqlite3_libversion() + ")",
      "Print the versions of greta-db and SQLite");
}

namespace {

const char* run_help(Naming naming) {
  return naming == Naming::kRun ? "A run's exact name"
                                : "A run's name or an experiment (all of its runs), else a unique "
                                  "part of a run's name";
}

CLI::Option* described_as_run(CLI::App& command, CLI::Option* run, Repeats& repeats) {
  command.add_flag_callback(
      "--latest", [&repeats] { repeats = Repeats::kLatest; },
      "Of runs NAME, NAME#2, NAME#3, ... only the newest, which has the highest number");
  return run
      ->check([](const std::string& name) {
        return name.empty() ? "give a run, an experiment or part of a run" : "";
      })
      ->check(offers_rows(kListRuns));
}

}  // namespace

CLI::Option* add_run_option(CLI::App& command, std::string& run, Repeats& repeats, Naming naming) {
  return described_as_run(command, command.add_option("--run", run, run_help(naming)), repeats)
      ->option_text("NAME");
}

CLI::Option* add_run_option(CLI::App& command, std::vector<std::string>& runs, Repeats& repeats,
                            Naming naming) {
  return described_as_run(command, command.add_option("--run", runs, run_help(naming)), repeats)
      ->option_text("NAME...");
}

CLI::Option* add_experiment_option(CLI::App& command, std::string& experiment, CLI::Option* run) {
  return add_option(command, "--experiment NAME", experiment,
                    "In place of --run: all runs of this experiment")
      ->excludes(run)
      ->check(offers_rows(kListExperiments));
}

void add_gate_option(CLI::App& command, Gate& gate) {
  add_choice_option<Gate>(command, "--gate GATE", gate,
                          {{"strict", Gate::kStrict}, {"numeric", Gate::kNumeric}},
                          "Go by the strict or the numeric verdict, not by the one to act on");
}

CLI::Option* add_language_option(CLI::App& command, Language& language, const std::string& help,
                                 bool both) {
  Choices<Language> choices{{"en", Language::kEnglish}, {"es", Language::kSpanish}};
  if (both) choices.emplace_back("both", Language::kBoth);
  return add_choice_option<Language>(command, "--lang LANG", language, choices, help);
}

}  // namespace greta
