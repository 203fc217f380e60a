#include "db/forget.h"

#include <sqlite3.h>

#include <utility>

#include "common/process.h"
#include "common/stop_signal.h"
#include "db/database.h"
#include "db/statements.h"
#include "db/transaction.h"

namespace greta {
namespace {

/// Whatever is a run's own. None of them has a row of it left afterwards.
constexpr const char* kTablesOfRuns[] = {
    "ingest_run", "verdict",         "run_change", "difference",  "readout",   "plan",
    "trace_row",  "traced_position", "report",     "report_pair", "run_event", "log_event"};
/// What a source may also state of the runs below its own, and a directory level keeps.
constexpr const char* kTablesOfFacts[] = {"attribute", "run_metric", "report_claim"};
constexpr const char* kTablesOfSources[] = {
    "attribute", "run_metric", "report_claim", "report",       "report_pair",
    "log_event", "run_event",  "document_row", "ingest_error", "source_location"};

/// `run` names a column of names and `level` an expression.
std::string is_below(const std::string& run, const std::string& level) {
  return "(" + run + " > " + level + " || '/' AND " + run + " < " + level + " || '0')";
}

/// What rows refer to, and others may refer to as well: a table, and the column of trace_row.
constexpr std::pair<const char*, const char*> kPartsOfRows[] = {
    {"sample", "sample_id"}, {"sketch", "sketch_id"}, {"row_context", "context_id"}};

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

class Forgetting {
 public:
  Forgetting(SQLite::Database& db, ForgetProgress progress) : db_(db), progress_(progress) {}

  ForgetSummary run(const std::vector<RunToForget>& runs) {
    choose_runs(runs);
    if (summary_.runs == 0) return summary_;
    choose_sources();
    note_parts();
    mark_sources();
    delete_errors();
    delete_runs();
    delete_unused();
    delete_leftovers();
    refuse_dangling_rows();
    db_.exec(kDropTables);
    return summary_;
  }

 private:
  static constexpr const char* kDropTables =
      "DROP TABLE IF EXISTS temp.forgotten; DROP TABLE IF EXISTS temp.forgotten_source;"
      "DROP TABLE IF EXISTS temp.forgotten_part";

  void report(const char* what, size_t done, size_t all) {
    throw_if_stopped();
    if (progress_ != nullptr)
      progress_(what, static_cast<int64_t>(done), static_cast<int64_t>(all));
  }

  /// temp.forgotten: these runs, and levels that are left without one. `stays`: others are below.
  void choose_runs(const std::vector<RunToForget>& runs) {
    db_.exec(kDropTables);
    db_.exec(
        "CREATE TEMP TABLE forgotten(id INTEGER PRIMARY KEY, name TEXT UNIQUE, stays INTEGER);"
        "CREATE TEMP TABLE forgotten_source(id INTEGER PRIMARY KEY);"
        "CREATE TEMP TABLE forgotten_part(of TEXT, id INTEGER, PRIMARY KEY (of, id))"
        " WITHOUT ROWID");
    SQLite::Statement choose(db_,
                             "INSERT OR IGNORE INTO temp.forgotten SELECT id, name, 0 FROM run"
                             " WHERE id = ? AND name = ?");
    for (const RunToForget& one : runs) {
      choose.bind(1, one.id);
      choose.bind(2, one.name);
      summary_.runs += choose.exec();
      choose.reset();
    }
    const std::string has_forgotten =
        "EXISTS (SELECT 1 FROM temp.forgotten f WHERE " + is_below("f.name", "r.name") + ")";
    const std::string has_others = "EXISTS (SELECT 1 FROM run c WHERE " +
                                   is_below("c.name", "r.name") +
                                   " AND c.id NOT IN (SELECT id FROM temp.forgotten)";
    summary_.levels = db_.exec(
        "INSERT INTO temp.forgotten SELECT r.id, r.name, 0 FROM directory_level l"
        " JOIN run r ON r.id = l.run_id WHERE " +
        has_forgotten + " AND NOT " + has_others +
        " AND NOT EXISTS (SELECT 1 FROM directory_level d WHERE d.run_id = c.id)) ORDER BY r.id");
    db_.exec("UPDATE temp.forgotten AS r SET stays = " + has_others + ")");
    SQLite::Statement ids(db_, "SELECT id FROM temp.forgotten ORDER BY id");
    while (ids.executeStep()) ids_.push_back(ids.getColumn(0).getInt64());
  }

  /// Of a run that stays as a level, a source stays that only describes it.
  void choose_sources() {
    std::string has_evidence = "s.rows > 0";
    for (const char* table : {"report", "report_pair", "run_event", "log_event"}) {
      has_evidence +=
          std::string(" OR EXISTS (SELECT 1 FROM ") + table + " x WHERE x.source_id = s.id)";
    }
    has_evidence +=
        " OR EXISTS (SELECT 1 FROM readout x WHERE x.run_id = s.run_id AND x.source_id = s.id)";
    summary_.sources = db_.exec(
        "INSERT INTO temp.forgotten_source SELECT s.id FROM temp.forgotten f"
        " JOIN source s ON s.run_id = f.id WHERE NOT f.stays OR " +
        has_evidence);
  }

  /// temp.forgotten_part: ids of what the rows refer to. Trace points that greta knows stay.
  void note_parts() {
    report("looking at what goes", 0, 1);
    const auto note = [this](const std::string& of, const std::string& column,
                             const std::string& condition) {
      db_.exec("INSERT OR IGNORE INTO temp.forgotten_part SELECT '" + of + "', " + column +
               " FROM temp.forgotten f CROSS JOIN trace_row t ON t.run_id = f.id WHERE " +
               condition);
    };
    for (const auto& [table, column] : kPartsOfRows) {
      note(table, column, std::string(column) + " IS NOT NULL");
    }
    note("tensor", "tensor_id", "tensor_id IN (SELECT id FROM tensor WHERE stage = 'unknown')");
  }

  /// Sources that stay and lose what they state of these runs.
  void mark_sources() {
    for (const char* table : {"run_metric", "report_claim"}) {
      SQLite::Statement mark(
          db_, std::string("UPDATE source SET sha256 = ? || sha256 WHERE instr(sha256, ?) <> 1"
                           " AND id NOT IN (SELECT id FROM temp.forgotten_source)"
                           " AND id IN (SELECT x.source_id FROM temp.forgotten f JOIN ") +
                   table + " x ON x.run_id = f.id WHERE NOT f.stays)");
      mark.bind(1, kForgottenInPart);
      mark.bind(2, kForgottenInPart);
      mark.exec();
    }
  }

  /// Those of no source that speak of these runs alone, and of archives that nothing is left of.
  void delete_errors() {
    db_.exec(
        "DELETE FROM ingest_error WHERE source_id IS NULL AND about IS NOT NULL"
        " AND EXISTS (SELECT 1 FROM temp.forgotten f WHERE NOT f.stays AND (f.name = about OR " +
        is_below("about", "f.name") + " OR " + is_below("f.name", "about") +
        ")) AND NOT EXISTS (SELECT 1 FROM run r WHERE (r.name = about OR " +
        is_below("r.name", "about") +
        ") AND r.id NOT IN (SELECT id FROM temp.forgotten WHERE NOT stays))");
    db_.exec(
        "DELETE FROM ingest_error WHERE source_id IS NULL AND about IS NULL"
        " AND substr(file, 1, instr(file || '!', '!') - 1) IN ("
        " SELECT substr(l.path, 1, instr(l.path, '!') - 1) FROM source_location l"
        " WHERE instr(l.path, '!') > 0"
        " GROUP BY 1 HAVING min(l.source_id IN (SELECT id FROM temp.forgotten_source)))");
  }

  void delete_runs() {
    SQLite::Statement rows(db_, "DELETE FROM trace_row WHERE run_id = ?");
    SQLite::Statement repeats(db_, "DELETE FROM trace_repeat WHERE run_id = ?");
    for (size_t i = 0; i < ids_.size(); ++i) {
      report("forgetting run", i, ids_.size());
      for (SQLite::Statement* statement : {&rows, &repeats}) {
        statement->bind(1, ids_[i]);
        const int64_t n = statement->exec();
        if (statement == &rows) summary_.rows += n;
        statement->reset();
      }
    }
    const auto drop = [this](const std::string& table, const std::string& condition) {
      db_.exec("DELETE FROM " + table + " WHERE " + condition);
    };
    drop("difference_part",
         "difference_id IN (SELECT id FROM difference WHERE run_id IN (SELECT id FROM"
         " temp.forgotten))");
    for (const char* table : kTablesOfRuns)
      drop(table, "run_id IN (SELECT id FROM temp.forgotten)");
    for (const char* table : kTablesOfFacts)
      drop(table, "run_id IN (SELECT id FROM temp.forgotten WHERE NOT stays)");
    for (const char* table : kTablesOfSources)
      drop(table, "source_id IN (SELECT id FROM temp.forgotten_source)");
    drop("run_change", "baseline_id IN (SELECT id FROM temp.forgotten)");
    drop("pinned_baseline", "run_id IN (SELECT id FROM temp.forgotten)");
    drop("waiver", "run IN (SELECT name FROM temp.forgotten WHERE NOT stays)");
    drop("lineage_member", "run_id IN (SELECT id FROM temp.forgotten WHERE NOT stays)");
    drop("source", "id IN (SELECT id FROM temp.forgotten_source)");
    drop("prompt", "run_id IN (SELECT id FROM temp.forgotten)");
    drop("run", "id IN (SELECT id FROM temp.forgotten WHERE NOT stays)");
    db_.exec(
        "UPDATE run SET status = 'unknown', started_at = NULL, finished_at = NULL"
        " WHERE id IN (SELECT id FROM temp.forgotten)");
    db_.exec(
        "REPLACE INTO lineage_member SELECT l.* FROM run_lineage l"
        " WHERE l.run_id IN (SELECT id FROM temp.forgotten)");
  }

  bool has_part(const std::string& of) {
    return db_.execAndGet("SELECT EXISTS (SELECT 1 FROM temp.forgotten_part WHERE of = '" + of +
                          "')")
               .getInt() != 0;
  }

  /// Each table takes a pass over the rows that stay.
  void delete_unused() {
    report("forgetting samples and sketches", 0, 1);
    for (const auto& [table, column] : kPartsOfRows) {
      if (!has_part(table)) continue;
      db_.exec(std::string("DELETE FROM ") + table +
               " WHERE id IN (SELECT id FROM temp.forgotten_part WHERE of = '" + table +
               "' EXCEPT SELECT " + column + " FROM trace_row)");
    }
    // Somebody who reads lines may have learnt the id of a trace point and not written a row yet.
    SQLite::Statement ingests(db_, "SELECT host, pid, process FROM ingest");
    if (has_part("tensor") && !any_may_be_running(ingests)) delete_tensors();
  }

  /// Trace points that only these runs brought, so that others may bring as many.
  void delete_tensors() {
    const std::string of_name = " x JOIN tensor_name k ON k.id = x.name_id";
    for (const std::string& used :
         {std::string("tensor_id FROM trace_row"), std::string("tensor_id FROM plan"),
          std::string("tensor_id FROM difference"), std::string("tensor_id FROM noise_floor"),
          std::string("tensor_id FROM tolerance"), std::string("to_id FROM edge"),
          std::string("from_id FROM edge"), std::string("switch_on FROM tensor"),
          "k.tensor_id FROM readout" + of_name, "k.tensor_id FROM report_pair" + of_name}) {
      db_.exec("DELETE FROM temp.forgotten_part WHERE of = 'tensor' AND id IN (SELECT " + used +
               ")");
    }
    const std::string unused = " IN (SELECT id FROM temp.forgotten_part WHERE of = 'tensor')";
    db_.exec("DELETE FROM tensor_name WHERE tensor_id" + unused);
    db_.exec("DELETE FROM tensor WHERE id" + unused);
  }

  void delete_leftovers() {
    db_.exec(
        "DELETE FROM meta WHERE key GLOB 'unsettled/*'"
        " AND substr(key, 11) NOT IN (SELECT experiment FROM run);"
        "DELETE FROM meta WHERE key GLOB 'writer/*'"
        " AND substr(key, 8) NOT IN (SELECT CAST(id AS TEXT) FROM run)");
  }

  void refuse_dangling_rows() {
    report("checking what is left", 0, 1);
    SQLite::Statement keys(db_, "PRAGMA foreign_key_check");
    if (!keys.executeStep()) return;
    throw DatabaseError("a row of " + keys.getColumn(0).getString() +
                        " would refer to a missing row of " + keys.getColumn(2).getString() +
                        ": nothing was forgotten; `greta-db check` says what is wrong");
  }

  SQLite::Database& db_;
  ForgetProgress progress_;
  ForgetSummary summary_;
  std::vector<int64_t> ids_;  // of temp.forgotten
};

}  // namespace

std::optional<std::string> run_being_written(SQLite::Database& db,
                                             const std::vector<RunToForget>& runs) {
  SQLite::Statement running(db, "SELECT 1 FROM run WHERE id = ? AND status = 'running'");
  SQLite::Statement ingests(db,
                            "SELECT g.host, g.pid, g.process FROM ingest_run i"
                            " JOIN ingest g ON g.id = i.ingest_id WHERE i.run_id = ?");
  for (const RunToForget& run : runs) {
    running.bind(1, run.id);
    bool is_written = running.executeStep();
    running.reset();
    ingests.bind(1, run.id);
    is_written = is_written || any_may_be_running(ingests);
    ingests.reset();
    if (is_written) return run.name;
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
    return Forgetting(db, progress).run(runs);
  });
}

bool forget_marked_source(SQLite::Database& db, int64_t run_id, const std::string& leg,
                          const std::string& prompt, const std::string& sha256) {
  Statements sql(db);
  const auto id = sql.find_id(
      "SELECT id FROM source WHERE run_id = ? AND leg = ? AND prompt = ? AND sha256 = ?", run_id,
      leg, prompt, std::string(kForgottenInPart) + sha256);
  if (!id) return false;
  for (const char* table : kTablesOfSources) {
    SQLite::Statement drop(db, std::string("DELETE FROM ") + table + " WHERE source_id = ?");
    drop.bind(1, *id);
    drop.exec();
  }
  sql("DELETE FROM source WHERE id = ?", *id).exec();
  return true;
}

void give_back_space(SQLite::Database& db) { db.exec("VACUUM"); }

}  // namespace greta
