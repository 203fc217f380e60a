
#include "cli/greta_db/canned.h"
#include "cli/greta_db/commands.h"
#include "cli/warehouse/asked_database.h"
#include "cli/warehouse/known_value.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"
#include "common/completion.h"

namespace greta {
namespace {

struct RunsArguments {
  std::string run, experiment, mode, date, commit, verdict;
  Repeats repeats = Repeats::kAll;
  Gate gate = Gate::kVerdict;
  bool attributes = false;
};

/// Columns for programs, after kVerdictColumns.
constexpr std::string_view kMoreRunColumns =
    "family, variant, dtype, seed, synthetic, hash_algo, started_at, finished_at, injected,"
    " (SELECT count(*) FROM prompt p WHERE p.run_id = v.run_id) AS prompts,"
    " (SELECT count(*) FROM source s WHERE s.run_id = v.run_id) AS sources,"
    " (SELECT ifnull(sum(s.rows - s.duplicates), 0) FROM source s WHERE s.run_id = v.run_id)"
    " AS trace_rows";

/// Runs that meet the filters, in order of date.
void list_runs(Options& options, SQLite::Database& db, const RunsArguments& arguments) {
  Where where;
  if (!arguments.run.empty() || arguments.repeats == Repeats::kLatest) {
    std::string ids;
    for (const Run& run : resolve_runs_or_all(db, arguments.run, arguments.repeats)) {
      ids += (ids.empty() ? "" : ",") + std::to_string(run.id);
    }
    where.add("r.id IN (SELECT value FROM json_each(?))", "[" + ids + "]");
  }
  where.add_if(arguments.experiment, "r.experiment = ?");
  where.add_if(arguments.mode, "r.mode = ?");
  where.add_if(arguments.date, "instr(r.date, ?) = 1");
  where.add_if(arguments.commit, "instr(r.commit_sha, ?) = 1");
  where.add_if(arguments.verdict, arguments.gate == Gate::kStrict    ? "v.strict_verdict = ?"
                                  : arguments.gate == Gate::kNumeric ? "v.numeric_verdict = ?"
                                                                     : "v.verdict = ?");
  const bool for_readers = options.for_readers();
  Query query(
      db, "SELECT " + std::string(kVerdictColumns) + ", " +
              std::string(for_readers ? "dtype, CASE WHEN injected THEN 'injected' END AS injected"
                                      : kMoreRunColumns) +
              " FROM (SELECT v.*, r.family, r.variant, r.dtype, r.seed, r.synthetic,"
              " r.hash_algo, r.started_at, r.finished_at, m.injected FROM run_verdict v"
              " JOIN run r ON r.id = v.run_id JOIN lineage_member m ON m.run_id = v.run_id" +
              where.sql() + ") v ORDER BY date, experiment, run_id");
  where.bind(query);
  if (!for_readers) {
    VerdictRows rows(options.out, options.format, query.column_names());
    while (query.step()) {
      const RunVerdict run(query);
      rows.row(run, Headline(run, arguments.gate));
    }
    return rows.finish();
  }
  print_headlines(query, options.out, options.format, arguments.gate,
                  {"run", "date", "commit_sha", "mode", "dtype"},
                  {"injected", "evidence", "pairs", "pass", "fail", "missing"});
}

/// What every source says about the runs, and which value won.
void list_attributes(Options& options, SQLite::Database& db, const RunsArguments& arguments) {
  Query query(db, canned_query("run_attribute").sql);
  RowPrinter printer(options.out, options.format, query.column_names());
  for (const Run& run : resolve_runs_or_all(db, arguments.run, arguments.repeats)) {
    query.bind(1, run.name);
    print_rows(query, printer);
    query.reset();
  }
  printer.finish();
}

int runs(Options& options, const RunsArguments& arguments) {
  Question question;
  if (!arguments.run.empty()) question.runs = {arguments.run};
  question.filter.experiment = arguments.experiment;
  question.filter.mode = arguments.mode;
  question.filter.date = arguments.date;
  question.filter.commit = arguments.commit;
  AskedDatabase asked(options.database, question);
  SQLite::Database& db = asked.db();
  check_known(db, NameOf::kExperiment, arguments.experiment);
  check_known(db, NameOf::kMode, arguments.mode);
  if (arguments.attributes) {
    list_attributes(options, db, arguments);
  } else {
    list_runs(options, db, arguments);
  }
  return kExitDone;
}

}  // namespace

void add_runs_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand("runs", "Runs with their verdicts, in order of date");
  RunsArguments& a = add_action(*command, options, runs, Takes::kFleet);
  add_run_option(*command, a.run, a.repeats);
  add_option(*command, "--experiment NAME", a.experiment, "Only this experiment")
      ->check(offers_rows(kListExperiments));
  add_option(*command, "--mode MODE", a.mode, "Only this mode: as_designed, kv_aligned, ...")
      ->check(offers_rows(kListModes));
  add_option(*command, "--date DATE", a.date, "Only this date, or the year or month it begins with")
      ->check(wrong_date);
  add_option(*command, "--commit SHA", a.commit, "Only this commit, or what it begins with");
  add_option(*command, "--verdict VERDICT", a.verdict,
             "Only this verdict: PASS, FAIL, NO_EVIDENCE, ...")
      ->check(
          CLI::IsMember({"PASS", "FAIL", "INCOMPLETE", "NO_EVIDENCE", "INCOMPARABLE", "UNJUDGED"}));
  add_gate_option(*command, a.gate);
  CLI::Option* attributes = command->add_flag(
      "--attributes", a.attributes,
      "Instead, what every source says about the runs (--run), which value won, conflicts");
  for (const char* filter : {"--experiment", "--mode", "--date", "--commit", "--verdict"}) {
    attributes->excludes(command->get_option(filter));
  }
}

}  // namespace greta
