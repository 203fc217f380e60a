#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/greta_db/commands.h"
#include "cli/options/checked_value.h"
#include "cli/warehouse/kept.h"
#include "cli/warehouse/known_value.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"
#include "common/completion.h"
#include "db/database.h"

namespace greta {
namespace {

struct HistoryArguments {
  std::string experiment, mode, since;
  bool matrix = false;
};

Where where_of(const HistoryArguments& arguments) {
  Where where;
  where.add_if(arguments.experiment, "experiment = ?");
  where.add_if(arguments.mode, "mode = ?");
  where.add_if(arguments.since, "date >= ?");
  return where;
}

/// "PASS", "PASS CHANGED", "FAIL BROKEN": the verdict that leads, and what changed.
std::string matrix_cell(const RunVerdict& run) {
  const Headline head(run);
  std::string text = head.verdict;
  if (run.has("change") && run.text("change") != "SAME") text += " " + run.text("change");
  return text;
}

/// Commits down, lineages across: by experiment, mode and dtype, in full where that is not enough.
void print_matrix(Options& options, Query& rows) {
  struct CellText {
    std::string text;
    int runs = 0;
  };
  std::vector<std::string> columns, commits;
  std::map<std::string, std::string> names;  // of columns, by lineage
  std::map<std::string, int> times;          // that a name stands
  std::map<std::pair<std::string, std::string>, CellText> cells;
  const auto is_new = [](std::vector<std::string>& list, const std::string& name) {
    if (std::find(list.begin(), list.end(), name) != list.end()) return false;
    list.push_back(name);
    return true;
  };
  while (rows.step()) {
    const RunVerdict run(rows);
    const std::string lineage = run.text("lineage");
    if (is_new(columns, lineage)) {
      std::string& name = names[lineage];
      name = run.text("experiment");
      for (const char* part : {"mode", "dtype"}) {
        if (run.has(part)) name += " " + run.text(part);
      }
      ++times[name];
    }
    const std::string commit = run.has("commit_sha") ? run.text("commit_sha") : run.text("date");
    is_new(commits, commit);
    CellText& cell = cells[{commit, lineage}];
    cell.text = matrix_cell(run);
    ++cell.runs;
  }
  std::vector<std::string> header{"commit"};
  for (const std::string& lineage : columns) {
    const std::string& name = names[lineage];
    header.push_back(times[name] == 1 ? name : lineage);
  }
  RowPrinter printer(options.out, options.format, header);
  const bool shorten = options.format == Format::kTable || options.format == Format::kMarkdown;
  for (const std::string& commit : commits) {
    const std::string name = shorten && commit.size() == 40 ? commit.substr(0, 12) : commit;
    std::vector<Cell> row{Cell(name)};
    for (const std::string& column : columns) {
      const auto found = cells.find({commit, column});
      if (found == cells.end()) {
        row.emplace_back();
        continue;
      }
      CellText& cell = found->second;
      if (cell.runs > 1) cell.text += " (last of " + std::to_string(cell.runs) + ")";
      row.emplace_back(cell.text);
    }
    printer.row(row);
  }
  printer.finish();
}

void check_filters(SQLite::Database& db, const HistoryArguments& arguments) {
  check_known(db, NameOf::kExperiment, arguments.experiment);
  check_known(db, NameOf::kMode, arguments.mode);
}

int history(Options& options, const HistoryArguments& arguments) {
  SQLite::Database db = open_for_reading(options.database);
  check_filters(db, arguments);
  Statements statements(db);
  const std::string kept = kept_views_of_lineage(statements, "");
  const Where where = where_of(arguments);
  const bool for_readers = options.format == Format::kTable || options.format == Format::kMarkdown;
  if (arguments.matrix || for_readers) {
    Query query(db, "SELECT " + std::string(kVerdictColumns) +
                        ", change, lineage, dtype FROM (SELECT v.*, CASE WHEN h.injected THEN"
                        " 'injected' ELSE c.change END AS change, h.lineage AS lineage,"
                        " h.dtype AS dtype, h.started_at AS started_at FROM " +
                        kept + "run_verdict v JOIN " + kept +
                        "history h ON h.run_id = v.run_id LEFT JOIN " + kept +
                        "change c ON c.run_id = v.run_id)" + where.sql() +
                        " ORDER BY date, started_at, experiment, length(run), run");
    where.bind(query);
    if (arguments.matrix) {
      print_matrix(options, query);
      return kExitDone;
    }
    HeadlineTable table(options.out, options.format, {"date", "commit_sha", "mode", "run"},
                        {"change", "evidence", "pairs"});
    while (query.step()) table.row(RunVerdict(query));
    table.finish();
    return kExitDone;
  }
  Query query(
      db,
      "SELECT experiment, mode, date, commit_sha, run, verdict, numeric_verdict, first_fail,"
      " layer, tensor, prompt, numeric_first_fail, numeric_layer, numeric_tensor, change,"
      " baseline, changed_layer, changed_tensor, why_not, injected, started_at, dtype,"
      " lineage, evidence, pairs, rounding, divergent, nonfinite FROM (SELECT h.*, c.change AS "
      "change,"
      " c.baseline AS baseline, c.layer AS changed_layer, c.tensor AS changed_tensor,"
      " c.why_not AS why_not FROM " +
          kept + "history h LEFT JOIN " + kept + "change c ON c.run_id = h.run_id)" + where.sql() +
          " ORDER BY date, started_at, experiment, length(run), run");
  where.bind(query);
  print_query(query, options.out, options.format);
  return kExitDone;
}

int regressions(Options& options, const HistoryArguments& arguments) {
  SQLite::Database db = open_for_reading(options.database);
  check_filters(db, arguments);
  Where where;
  where.add_if(arguments.experiment,
               "(SELECT r.experiment FROM run r WHERE r.id = first_bad_id) = ?");
  where.add_if(arguments.mode, "(SELECT r.mode FROM run r WHERE r.id = first_bad_id) = ?");
  where.add_if(arguments.since, "first_bad_date >= ?");
  Statements statements(db);
  Query query(db,
              "SELECT change, gate, first_bad, first_bad_commit, first_bad_date, last_good,"
              " last_good_commit, layer, tensor, first_fail, fixed_run, fixed_commit, fixed_date,"
              " lineage FROM " +
                  kept_views_of_lineage(statements, "") + "regression" + where.sql() +
                  " ORDER BY first_bad_date, first_bad");
  where.bind(query);
  print_query(query, options.out, options.format);
  return kExitDone;
}

void add_filters(CLI::App& command, HistoryArguments& arguments) {
  command.add_option("--experiment", arguments.experiment, "Only this experiment")
      ->check(offers_answer(kListExperiments))
      ->option_text("NAME");
  command.add_option("--mode", arguments.mode, "Only this mode")
      ->check(offers_answer(kListModes))
      ->option_text("MODE");
  command.add_option("--since", arguments.since, "Only runs of this date (YYYY-MM-DD) or later")
      ->check(wrong_date)
      ->option_text("DATE");
}

}  // namespace

void add_history_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "history", "How verdicts, and what is computed, moved across dates, commits and modes");
  auto arguments = std::make_shared<HistoryArguments>();
  add_filters(*command, *arguments);
  command->add_flag("--matrix", arguments->matrix,
                    "Commits down, modes across: the verdict of each and what changed");
  command->callback([&options, arguments] {
    options.action = [&options, arguments] { return history(options, *arguments); };
  });
}

void add_regressions_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "regressions", "Where runs turned for the worse: first bad run, last good one, and the fix");
  auto arguments = std::make_shared<HistoryArguments>();
  add_filters(*command, *arguments);
  command->callback([&options, arguments] {
    options.action = [&options, arguments] { return regressions(options, *arguments); };
  });
}

}  // namespace greta
