#include "cli/show/history.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/greta_db/commands.h"
#include "cli/output/files.h"
#include "cli/show/report.h"
#include "cli/warehouse/asked_database.h"
#include "cli/warehouse/known_value.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"
#include "common/completion.h"
#include "common/utf8.h"

namespace greta {
namespace {

/// Pages of runs that --with-runs writes, unless told otherwise.
constexpr size_t kMostRunPages = 20;

struct HistoryArguments {
  std::string experiment, mode, since, with_runs;
  Language language = Language::kEnglish;
  size_t most_runs = kMostRunPages;
  Gate gate = Gate::kVerdict;
  bool matrix = false, force = false;
};

Where where_of(const HistoryArguments& arguments) {
  Where where;
  where.add_if(arguments.experiment, "experiment = ?");
  where.add_if(arguments.mode, "mode = ?");
  where.add_if(arguments.since, "date >= ?");
  return where;
}

Question question_of(const HistoryArguments& arguments) {
  Question question;
  question.filter.experiment = arguments.experiment;
  question.filter.mode = arguments.mode;
  question.filter.since = arguments.since;
  question.compared = true;
  return question;
}

/// "PASS", "PASS CHANGED", "FAIL BROKEN": the verdict, and what changed.
std::string matrix_cell(const RunVerdict& run, Gate gate) {
  std::string text(run.at(gate));
  if (run.has("change") && run.text("change") != "SAME") text += " " + run.text("change");
  return text;
}

/// Commits down, lineages across: by experiment, mode and dtype, in full where that is not enough.
void print_matrix(Options& options, Gate gate, Query& rows) {
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
    cell.text = matrix_cell(run, gate);
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

/// history.html in a folder, and beside it the pages of the runs that there is most to see of.
void write_folder(Options& options, QueryPool& statements, const History& history,
                  const HistoryArguments& arguments) {
  const Language language = arguments.language;
  const std::filesystem::path folder = arguments.with_runs;
  std::filesystem::create_directories(folder);
  std::vector<Run> runs = runs_worth_a_page(history);
  const size_t all = runs.size();
  runs.resize(std::min(all, arguments.most_runs));
  std::set<std::string> taken{"history"};
  RunPages pages;
  for (const Run& run : runs) {
    pages[run.id] =
        unique_name(taken, report_stem(experiment_of(statements, run), run.name, false)) + ".html";
  }
  const std::filesystem::path page = folder / "history.html";
  std::vector<std::pair<std::filesystem::path, FileContent>> files;
  for (const Run& run : runs) {
    files.emplace_back(folder / pages[run.id], [&statements, run, language](const TextSink& sink) {
      write_run_page(statements, {run}, language, sink, "history.html");
    });
  }
  files.emplace_back(
      page, [&](const TextSink& sink) { write_history_page(history, pages, language, sink); });
  write_files("--with-runs", options.database, arguments.force, files);
  options.out.write("wrote " + utf8::printable(page.string()) + " and the pages of " +
                    std::to_string(runs.size()) + (runs.size() == 1 ? " run" : " runs"));
  if (runs.size() < all) {
    options.out.write("; " + std::to_string(all - runs.size()) +
                      " have none, where there is less to see: --most-runs " + std::to_string(all) +
                      " writes all");
  }
  options.out.write("\n");
}

int history_page(Options& options, const HistoryArguments& arguments) {
  if (arguments.matrix) throw UsageError("--matrix is a table; a page has a matrix of its own");
  if (arguments.gate != Gate::kVerdict) throw UsageError("--gate is not for --format html");
  Question question = question_of(arguments);
  question.rows = !arguments.with_runs.empty();
  question.drift = !question.rows;
  AskedDatabase asked(options.database, question);
  SQLite::Database& db = asked.db();
  db.exec("BEGIN");  // one state of the database for all queries
  check_filters(db, arguments);
  const History history = read_history(db, where_of(arguments));
  if (arguments.with_runs.empty()) {
    write_history_page(history, {}, arguments.language,
                       [&](std::string_view text) { options.out.write(text); });
  } else {
    QueryPool statements(db);
    write_folder(options, statements, history, arguments);
  }
  return kExitDone;
}

int history(Options& options, const HistoryArguments& arguments) {
  if (options.format == Format::kHtml) return history_page(options, arguments);
  if (!arguments.with_runs.empty()) throw UsageError("--with-runs is for --format html");
  AskedDatabase asked(options.database, question_of(arguments));
  SQLite::Database& db = asked.db();
  db.exec("BEGIN");  // one state of the database: what is kept stays so until it is read
  check_filters(db, arguments);
  const Where where = where_of(arguments);
  if (arguments.matrix || options.for_readers()) {
    Query query(db,
                "SELECT " + std::string(kVerdictColumns) +
                    ", change, lineage, dtype FROM (SELECT v.*, CASE WHEN m.injected THEN"
                    " 'injected' ELSE (SELECT c.change FROM change c WHERE c.run_id = v.run_id)"
                    " END AS change, m.lineage AS lineage, r.dtype AS dtype, o.ord AS ord"
                    " FROM run_order o JOIN run_verdict v ON v.run_id = o.run_id"
                    " JOIN run r ON r.id = v.run_id JOIN lineage_member m ON m.run_id = v.run_id)" +
                    where.sql() + std::string(kHistoryOrder));
    where.bind(query);
    if (arguments.matrix) {
      print_matrix(options, arguments.gate, query);
      return kExitDone;
    }
    print_headlines(query, options.out, options.format, arguments.gate,
                    {"date", "commit_sha", "mode", "run"}, {"change", "evidence", "pairs"});
    return kExitDone;
  }
  Query query(db, "SELECT " + std::string(kHistoryColumns) + " FROM " + history_rows() +
                      where.sql() + std::string(kHistoryOrder));
  where.bind(query);
  print_query(query, options.out, options.format);
  return kExitDone;
}

int regressions(Options& options, const HistoryArguments& arguments) {
  Question question = question_of(arguments);
  question.changed_rows = true;
  AskedDatabase asked(options.database, question);
  SQLite::Database& db = asked.db();
  db.exec("BEGIN");  // as history() does
  check_filters(db, arguments);
  Where where;
  where.add_if(arguments.experiment,
               "(SELECT r.experiment FROM run r WHERE r.id = first_bad_id) = ?");
  where.add_if(arguments.mode, "(SELECT r.mode FROM run r WHERE r.id = first_bad_id) = ?");
  where.add_if(arguments.since, "first_bad_date >= ?");
  Query query(db, "SELECT " + std::string(kRegressionColumns) + " FROM regression" + where.sql() +
                      " ORDER BY first_bad_date, first_bad");
  where.bind(query);
  print_query(query, options.out, options.format);
  return kExitDone;
}

void add_filters(CLI::App& command, HistoryArguments& arguments) {
  add_option(command, "--experiment NAME", arguments.experiment, "Only this experiment")
      ->check(offers_rows(kListExperiments));
  add_option(command, "--mode MODE", arguments.mode, "Only this mode")
      ->check(offers_rows(kListModes));
  add_option(command, "--since DATE", arguments.since,
             "Only runs of this date (YYYY-MM-DD) or later")
      ->check(wrong_date);
}

}  // namespace

void add_history_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "history", "How verdicts, and what is computed, moved across dates, commits and modes");
  HistoryArguments& a = add_action(*command, options, history, Takes::kFleetAndPage);
  add_filters(*command, a);
  command->add_flag("--matrix", a.matrix,
                    "Commits down, modes across: the verdict of each and what changed");
  add_gate_option(*command, a.gate);
  add_language_option(*command, a.language, "Language of --format html: en (default) or es");
  CLI::Option* with_runs =
      add_option(*command, "--with-runs DIR", a.with_runs,
                 "With --format html: write DIR/history.html, and beside it pages of runs,"
                 " which it links to")
          ->check([](const std::string& text) { return text.empty() ? "give a directory" : ""; });
  add_option(*command, "--most-runs N", a.most_runs,
             "Pages of runs at most (default 20): where it turned for the worse, then what"
             " fails, each the newest first")
      ->needs(with_runs);
  command->add_flag("--force", a.force, "Replace files that exist")->needs(with_runs);
}

void add_regressions_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "regressions", "Where runs turned for the worse: first bad run, last good one, and the fix");
  add_filters(*command, add_action(*command, options, regressions, Takes::kFleet));
}

}  // namespace greta
