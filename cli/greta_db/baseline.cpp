#include <string>

#include "cli/greta_db/commands.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "common/utc_time.h"
#include "common/utf8.h"
#include "db/database.h"
#include "db/judge.h"
#include "db/transaction.h"

namespace greta {
namespace {

std::string lineage_of(SQLite::Database& db, const Run& run) {
  Query query(db, "SELECT lineage, injected FROM lineage_member WHERE run_id = ?");
  query.bind(1, run.id);
  if (!query.step()) throw UsageError("run " + run.name + " has no lineage");
  if (query.integer(1) != 0) {
    throw UsageError("run " + run.name + " has a fault injected: no run is held against it");
  }
  return query.text(0);
}

void refuse_what_is_no_baseline(SQLite::Database& db, const Run& run) {
  Query query(db,
              "SELECT (SELECT s.incomplete_why FROM run_state s WHERE s.run_id = b.run_id)"
              " FROM baseline_candidate b WHERE b.run_id = ?");
  query.bind(1, run.id);
  const bool is_candidate = query.step();
  if (is_candidate && query.text(0).empty()) return;
  throw UsageError(
      "run " + run.name + " " +
      (is_candidate ? "is not whole (" + query.text(0) + ")" : "did not end well, or has no rows") +
      ": no run can be held against it");
}

int set_baseline(Options& options, const std::string& name) {
  SQLite::Database db = open_for_writing(options.database);
  const Run run = resolve_run(db, name, Naming::kRun);
  const std::string lineage = lineage_of(db, run);
  refuse_what_is_no_baseline(db, run);
  in_transaction(db, [&] {
    Query(db, "INSERT OR REPLACE INTO pinned_baseline(lineage, run_id, pinned_at) VALUES (?, ?, ?)")
        .bind(1, lineage)
        .bind(2, run.id)
        .bind(3, utc_now())
        .step();
  });
  judge_rest(db);
  options.out.write("runs of " + utf8::printable(lineage) + " are held against " +
                    utf8::printable(run.name) + "\n");
  return kExitDone;
}

int reset_baseline(Options& options, const std::string& name) {
  SQLite::Database db = open_for_writing(options.database);
  const std::string lineage = lineage_of(db, resolve_run(db, name, Naming::kRun));
  int64_t n = 0;
  in_transaction(db, [&] {
    Query(db, "DELETE FROM pinned_baseline WHERE lineage = ?").bind(1, lineage).step();
    n = db.execAndGet("SELECT changes()").getInt64();
  });
  judge_rest(db);
  options.out.write("runs of " + utf8::printable(lineage) + (n > 0 ? " are" : " were already") +
                    " held against the one before them\n");
  return kExitDone;
}

int list_baselines(Options& options, const std::string& name) {
  SQLite::Database db = open_for_reading(options.database);
  Query query(db, "SELECT run, date, commit_sha, baseline, pinned, injected, lineage FROM lineage" +
                      std::string(name.empty() ? "" : " WHERE run_id = ?") +
                      " ORDER BY lineage, commit_ord, date, run_id");
  if (!name.empty()) query.bind(1, resolve_run(db, name).id);
  print_query(query, options.out, options.format);
  return kExitDone;
}

}  // namespace

void add_baseline_command(CLI::App& app, Options& options) {
  CLI::App* command =
      app.add_subcommand("baseline", "Which run the others of its lineage are held against");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* help,
                       int (*run)(Options&, const std::string&)) {
    CLI::App* part = command->add_subcommand(name, help);
    return add_option(*part, "run RUN", add_action(*part, options, run), "A run by its exact name");
  };
  add("set", "Hold the runs of a run's lineage against it", set_baseline)->required();
  add("reset", "Hold them against the one before again", reset_baseline)->required();
  add("list", "Every run with its lineage and its baseline", list_baselines);
}

}  // namespace greta
