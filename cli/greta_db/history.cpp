#include <memory>
#include <string>

#include "cli/greta_db/commands.h"
#include "cli/options/checked_value.h"
#include "cli/warehouse/known_value.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"
#include "common/completion.h"
#include "db/database.h"

namespace greta {
namespace {

struct HistoryArguments {
  std::string experiment, mode, since;
};

int history(Options& options, const HistoryArguments& arguments) {
  SQLite::Database db = open_for_reading(options.database);
  check_known(db, NameOf::kExperiment, arguments.experiment);
  check_known(db, NameOf::kMode, arguments.mode);
  Query unjudged(db, "SELECT 1 FROM unjudged_run LIMIT 1");
  const std::string kept = unjudged.step() ? "" : "kept_";  // the twin works nothing out
  unjudged.reset();
  Where where;
  where.add_if(arguments.experiment, "experiment = ?");
  where.add_if(arguments.mode, "mode = ?");
  where.add_if(arguments.since, "date >= ?");
  if (options.format == Format::kTable || options.format == Format::kMarkdown) {
    Query query(db, "SELECT " + std::string(kVerdictColumns) + " FROM " + kept + "run_verdict" +
                        where.sql() + " ORDER BY date, experiment, run");
    where.bind(query);
    HeadlineTable table(options.out, options.format, {"date", "commit_sha", "mode", "run"},
                        {"evidence", "pairs"});
    while (query.step()) table.row(RunVerdict(query));
    table.finish();
    return kExitDone;
  }
  Query query(
      db,
      "SELECT experiment, mode, date, commit_sha, run, verdict, numeric_verdict, first_fail,"
      " layer, tensor, prompt, evidence, pairs FROM " +
          kept + "history" + where.sql());
  where.bind(query);
  print_query(query, options.out, options.format);
  return kExitDone;
}

}  // namespace

void add_history_command(CLI::App& app, Options& options) {
  CLI::App* command =
      app.add_subcommand("history", "How verdicts moved across dates, commits and modes");
  auto arguments = std::make_shared<HistoryArguments>();
  command->add_option("--experiment", arguments->experiment, "Only this experiment")
      ->check(offers_answer(kListExperiments))
      ->option_text("NAME");
  command->add_option("--mode", arguments->mode, "Only this mode")
      ->check(offers_answer(kListModes))
      ->option_text("MODE");
  command->add_option("--since", arguments->since, "Only runs of this date (YYYY-MM-DD) or later")
      ->check(wrong_date)
      ->option_text("DATE");
  command->callback([&options, arguments] {
    options.action = [&options, arguments] { return history(options, *arguments); };
  });
}

}  // namespace greta
