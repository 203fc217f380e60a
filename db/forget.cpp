#include "db/forget.h"

#include <sqlite3.h>

#include <span>

#include "common/process.h"
#include "common/stop_signal.h"
#include "db/database.h"
#include "db/run_records.h"
#include "db/schema.h"
#include "db/statements.h"
#include "db/transaction.h"

namespace greta {
namespace {

/// Tables that say what a source stated; whose rows go with a run; and those that a directory level
/// keeps.
constexpr const char* kOfSources[] = {
    "attribute", "run_metric", "report_claim", "report",       "report_pair",
    "log_event", "run_event",  "document_row", "ingest_error", "source_location"};
constexpr const char* kOfRuns[] = {"difference", "traced_position", "readout",    "plan",
                                   "report",     "report_pair",     "run_event",  "log_event",
                                   "ingest_run", "verdict",         "run_change", "pinned_baseline",
                                   "prompt"};
constexpr const char* kOfLevels[] = {"attribute", "run_metric", "report_claim", "lineage_member"};

void delete_rows(SQLite::Database& db, std::span<const char* const> tables,
                 const std::string& condition) {
  for (const char* table : tables)
    db.exec(std::string("DELETE FROM ") + table + " WHERE " + condition);
}

/// Deletes sources, whose ids a query gives, with all that they stated.
void delete_sources(SQLite::Database& db, const std::string& ids) {
  delete_rows(db, kOfSources, "source_id IN (" + ids + ")");
  db.exec("DELETE FROM source WHERE id IN (" + ids + ")");
}

/// Switches triggers and foreign keys of a connection off. The triggers of db/schema.sql would
/// delete verdicts row by row, and most columns that refer to a source or a prompt have no index
/// by which SQLite could tell without a pass over the table that no row does.
class WithoutConsequences {
 public:
  explicit WithoutConsequences(SQLite::Database& db) : db_(db) { set(0); }
  ~WithoutConsequences() { set(1); }
  WithoutConsequences(const WithoutConsequences&) = delete;
  WithoutConsequences& operator=(const WithoutConsequences&) = delete;

 private:
  void set(int on) {
    for (const int option : {SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_ENABLE_FKEY}) {
      sqlite3_db_config(db_.getHandle(), option, on, nullptr);
    }
  }

  SQLite::Database& db_;
};

/// True if the process of one of these rows (host, pid, process) may still run.
bool any_may_be_running(SQLite::Statement& ingests) {
  while (ingests.executeStep()) {
    if (may_be_running({ingests.getColumn(0).getString(), ingests.getColumn(1).getInt64(),
                        ingests.getColumn(2).getString()})) {
      return true;
    }
  }
  return false;
}

/// True if an ingest that has written to the run may go on.
bool any_ingest_may_write(Statements& sql, int64_t run_id) {
  return any_may_be_running(
      sql("SELECT g.host, g.pid, g.process FROM ingest_run i"
          " JOIN ingest g ON g.id = i.ingest_id WHERE i.run_id = ?",
          run_id));
}

constexpr const char* kDropTables =
    "DROP TABLE IF EXISTS temp.forgotten; DROP TABLE IF EXISTS temp.forgotten_source;"
    "DROP TABLE IF EXISTS temp.forgotten_part;";
constexpr const char* kCreateTables =
    "CREATE TEMP TABLE forgotten(id INTEGER PRIMARY KEY, name TEXT UNIQUE, stays INTEGER);"
    "CREATE TEMP TABLE forgotten_source(id INTEGER PRIMARY KEY);"
    "CREATE TEMP TABLE forgotten_part(of TEXT, id INTEGER, PRIMARY KEY (of, id)) WITHOUT ROWID";

void report(ForgetProgress progress, const char* what, int64_t done, int64_t all) {
  throw_if_stopped();
  if (progress != nullptr) progress(what, done, all);
}

/// Deletes rows of temp.forgotten's runs; returns how many.
int64_t delete_trace_rows(SQLite::Database& db, ForgetProgress progress) {
  std::vector<int64_t> ids;
  SQLite::Statement runs(db, "SELECT id FROM temp.forgotten ORDER BY id");
  while (runs.executeStep()) ids.push_back(runs.getColumn(0).getInt64());
  Statements sql(db);
  int64_t n = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    report(progress, "forgetting run", static_cast<int64_t>(i), static_cast<int64_t>(ids.size()));
    n += sql("DELETE FROM trace_row WHERE run_id = ?", ids[i]).exec();
    sql("DELETE FROM trace_repeat WHERE run_id = ?", ids[i]).exec();
  }
  return n;
}

void refuse_dangling_rows(SQLite::Database& db) {
  SQLite::Statement keys(db, "PRAGMA foreign_key_check");
  if (!keys.executeStep()) return;
  throw DatabaseError("a row of " + keys.getColumn(0).getString() +
                      " would refer to a missing row of " + keys.getColumn(2).getString() +
                      ": nothing was forgotten; `greta-db check` says what is wrong");
}

ForgetSummary forget(SQLite::Database& db, const std::vector<RunToForget>& runs,
                     ForgetProgress progress) {
  ForgetSummary summary;
  Statements sql(db);
  db.exec(kDropTables);
  db.exec(kCreateTables);
  for (const RunToForget& run : runs) {
    summary.runs += sql("INSERT OR IGNORE INTO temp.forgotten SELECT id, name, 0 FROM run"
                        " WHERE id = ? AND name = ?",
                        run.id, run.name)
                        .exec();
  }
  if (summary.runs == 0) return summary;
  report(progress, "looking at what goes", 0, 1);
  db.exec(sql_of_file("db/sql/forget_choose.sql"));
  summary.levels = db.execAndGet("SELECT count(*) FROM temp.forgotten").getInt64() - summary.runs;
  summary.sources = db.execAndGet("SELECT count(*) FROM temp.forgotten_source").getInt64();
  summary.rows = delete_trace_rows(db, progress);
  report(progress, "forgetting samples and sketches", 0, 1);
  // Somebody who reads lines may have learnt the id of a trace point and not written a row yet.
  if (any_may_be_running(sql("SELECT host, pid, process FROM ingest"))) {
    sql("DELETE FROM temp.forgotten_part WHERE of = 'tensor'").exec();
  }
  db.exec(
      "DELETE FROM difference_part WHERE difference_id IN ("
      "SELECT id FROM difference WHERE run_id IN (SELECT id FROM temp.forgotten))");
  delete_rows(db, kOfRuns, "run_id IN (SELECT id FROM temp.forgotten)");
  delete_rows(db, kOfLevels, "run_id IN (SELECT id FROM temp.forgotten WHERE NOT stays)");
  delete_sources(db, "SELECT id FROM temp.forgotten_source");
  db.exec(sql_of_file("db/sql/forget_rest.sql"));
  report(progress, "checking what is left", 0, 1);
  refuse_dangling_rows(db);
  return summary;
}

}  // namespace

std::optional<std::string> run_being_written(SQLite::Database& db,
                                             const std::vector<RunToForget>& runs) {
  Statements sql(db);
  for (const RunToForget& run : runs) {
    if (sql.find_id("SELECT id FROM run WHERE id = ? AND status = 'running'", run.id) ||
        any_ingest_may_write(sql, run.id)) {
      return run.name;
    }
  }
  return std::nullopt;
}

ForgetSummary forget_runs(SQLite::Database& db, const std::vector<RunToForget>& runs,
                          ForgetProgress progress, WrittenRuns written) {
  const WithoutConsequences without(db);
  return in_transaction(db, [&] {
    if (written == WrittenRuns::kRefuse) {
      if (const auto run = run_being_written(db, runs)) {
        throw DatabaseError("run " + *run +
                            " has not ended, so something may still write to it; if that was "
                            "killed, add --running");
      }
    }
    return forget(db, runs, progress);
  });
}

std::optional<RunToForget> left_behind_run(SQLite::Database& db, const std::string& name) {
  Statements sql(db);
  const auto id =
      sql.find_id("SELECT id FROM run WHERE name = ? AND status IN ('failed', 'running')", name);
  if (!id || any_ingest_may_write(sql, *id)) return std::nullopt;
  if (sql.find_id("SELECT id FROM run WHERE id = ? AND status = 'running'", *id)) {
    const std::optional<Process> writer = process_of_run(db, *id);
    if (!writer || may_be_running(*writer)) return std::nullopt;
  }
  return RunToForget{*id, name};
}

void forget_left_behind(SQLite::Database& db, const RunToForget& run) {
  const WithoutConsequences without(db);
  forget(db, {run}, nullptr);
}

bool forget_marked_source(SQLite::Database& db, int64_t run_id, const std::string& leg,
                          const std::string& prompt, const std::string& sha256) {
  Statements sql(db);
  const auto id = sql.find_id(
      "SELECT id FROM source WHERE run_id = ? AND leg = ? AND prompt = ? AND sha256 = ?", run_id,
      leg, prompt, std::string(kForgottenInPart) + sha256);
  if (!id) return false;
  delete_sources(db, std::to_string(*id));
  return true;
}

void give_back_space(SQLite::Database& db) { db.exec("VACUUM"); }

}  // namespace greta
