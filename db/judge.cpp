#include "db/judge.h"

#include <sqlite3.h>

#include <chrono>
#include <set>
#include <string>
#include <utility>

#include "common/stop_signal.h"
#include "db/definitions.h"
#include "db/schema.h"
#include "db/statements.h"
#include "db/transaction.h"

namespace greta {
namespace {

using Clock = std::chrono::steady_clock;

/// A commit costs as much as judging a small run, and other writers wait.
constexpr std::chrono::milliseconds kJudgingTurn{100};

/// Does each piece of work, in transactions of some kJudgingTurn, or in the caller's.
template <class Pieces, class Work>
void in_turns(SQLite::Database& db, const Pieces& pieces, const Work& work) {
  if (sqlite3_get_autocommit(db.getHandle()) == 0) {
    for (const auto& piece : pieces) {
      throw_if_stopped();
      work(piece);
    }
    return;
  }
  for (auto next = pieces.begin(); next != pieces.end();) {
    throw_if_stopped();
    in_transaction(db, [&] {
      const auto end = Clock::now() + kJudgingTurn;
      do work(*next);
      while (++next != pieces.end() && Clock::now() < end);
    });
  }
}

/// A run and the one that it is compared with.
using RunAndBaseline = std::pair<int64_t, int64_t>;

/// Pairs of a run and its baseline that run_change lacks, for runs of these lineages.
std::vector<RunAndBaseline> missing_changes(SQLite::Database& db,
                                            const std::set<std::string>& lineages) {
  SQLite::Statement query(db,
                          "SELECT m.run_id, l.baseline_id FROM lineage_member m"
                          " CROSS JOIN lineage l ON l.run_id = m.run_id"
                          " WHERE m.lineage = ? AND l.baseline_id IS NOT NULL AND NOT EXISTS ("
                          "  SELECT 1 FROM run_change c"
                          "  WHERE c.run_id = m.run_id AND c.baseline_id = l.baseline_id)");
  std::vector<RunAndBaseline> missing;
  for (const std::string& lineage : lineages) {
    query.bind(1, lineage);
    while (query.executeStep()) {
      missing.emplace_back(query.getColumn(0).getInt64(), query.getColumn(1).getInt64());
    }
    query.reset();
  }
  return missing;
}

void keep_changes(SQLite::Database& db, const std::vector<RunAndBaseline>& pairs) {
  if (pairs.empty()) return;
  SQLite::Statement keep(db, sql_of_file("db/sql/judge_change.sql"));
  in_turns(db, pairs, [&](const RunAndBaseline& pair) {
    keep.bind(1, pair.first);
    keep.bind(2, pair.second);
    keep.exec();
    keep.reset();
  });
}

}  // namespace

std::vector<int64_t> unjudged_runs(SQLite::Database& db) {
  SQLite::Statement query(db,
                          "SELECT id FROM run EXCEPT SELECT run_id FROM verdict"
                          " UNION SELECT run_id FROM verdict"
                          " WHERE level = 'gate' AND until < date('now') ORDER BY id");
  std::vector<int64_t> ids;
  while (query.executeStep()) ids.push_back(query.getColumn(0).getInt64());
  return ids;
}

void judge(SQLite::Database& db, std::span<const int64_t> runs) {
  if (runs.empty()) return;
  std::set<std::string> lineages;
  SQLite::Statement lineage(db, "SELECT lineage FROM lineage_member WHERE run_id = ?");
  for (const int64_t run_id : runs) {
    lineage.bind(1, run_id);
    if (lineage.executeStep()) lineages.insert(lineage.getColumn(0).getString());
    lineage.reset();
  }
  in_turns(db, runs, [&](int64_t run_id) { forget_verdict(db, run_id); });
  // Changes before verdicts: a process that dies in between leaves runs that are unjudged.
  keep_changes(db, missing_changes(db, lineages));
  SQLite::Statement keep(db, sql_of_file("db/sql/judge_run.sql"));
  in_turns(db, runs, [&](int64_t run_id) {
    keep.bind(1, run_id);
    keep.exec();
    keep.reset();
  });
}

void judge_rest(SQLite::Database& db) {
  judge(db, unjudged_runs(db));
  std::set<std::string> lineages;
  SQLite::Statement all(db, "SELECT DISTINCT lineage FROM lineage_member");
  while (all.executeStep()) lineages.insert(all.getColumn(0).getString());
  keep_changes(db, missing_changes(db, lineages));
}

void judge_change(SQLite::Database& db, int64_t run_id, int64_t baseline_id) {
  SQLite::Statement kept(db, "SELECT 1 FROM run_change WHERE run_id = ? AND baseline_id = ?");
  kept.bind(1, run_id);
  kept.bind(2, baseline_id);
  if (!kept.executeStep()) keep_changes(db, {{run_id, baseline_id}});
}

void hide_verdicts(SQLite::Database& db) {
  db.exec(
      "CREATE TEMP TABLE verdict AS SELECT * FROM main.verdict;"
      "CREATE TEMP TABLE run_change AS SELECT * FROM main.run_change;"
      "CREATE INDEX temp.verdict_of_run ON verdict(run_id, level, item);"
      "CREATE UNIQUE INDEX temp.change_of_run ON run_change(run_id, baseline_id, level)");
  write_views_down(db, "temp");
}

bool use_shipped_tolerances(SQLite::Database& db) {
  const std::string kept = "SELECT tensor_id, dtype, rel_l2 FROM main.tolerance",
                    shipped = "SELECT * FROM temp.tolerance";
  db.exec(
      "PRAGMA query_only = OFF; CREATE TEMP TABLE tolerance(tensor_id, dtype, rel_l2);"
      "CREATE INDEX temp.tolerance_of_tensor ON tolerance(tensor_id, dtype, rel_l2);"
      "INSERT INTO temp.tolerance(tensor_id, dtype, rel_l2) " +
      shipped_rows("tolerance"));
  const bool differ = db.execAndGet("SELECT EXISTS (" + kept + " EXCEPT " + shipped +
                                    ") OR EXISTS (" + shipped + " EXCEPT " + kept + ")")
                          .getInt() != 0;
  if (differ) hide_verdicts(db);
  return differ;
}

void forget_verdict(SQLite::Database& db, int64_t run_id) {
  for (const char* sql :
       {"DELETE FROM verdict WHERE run_id = ?", "DELETE FROM run_change WHERE run_id = ?",
        "DELETE FROM run_change WHERE baseline_id = ?"}) {
    SQLite::Statement forget(db, sql);
    forget.bind(1, run_id);
    forget.exec();
  }
}

}  // namespace greta
