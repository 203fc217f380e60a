#include "db/judge.h"

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/stop_signal.h"
#include "db/schema.h"
#include "db/statements.h"
#include "db/transaction.h"

namespace greta {
namespace {

using Clock = std::chrono::steady_clock;

/// A commit costs as much as judging a small run, and other writers wait.
constexpr std::chrono::milliseconds kJudgingTurn{100};

/// Does each piece of work, in transactions of some kJudgingTurn.
template <class Pieces, class Work>
void in_turns(SQLite::Database& db, const Pieces& pieces, const Work& work) {
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

/// What is not kept of runs and their baselines. `members`: a condition on run_baseline l, with one
/// parameter if it has one.
std::vector<RunAndBaseline> missing_changes(SQLite::Database& db, const char* members,
                                            std::optional<int64_t> parameter) {
  SQLite::Statement query(
      db, std::string("SELECT l.run_id, l.baseline_id FROM run_baseline l WHERE ") + members +
              " AND l.baseline_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM run_change c WHERE"
              " c.run_id = l.run_id AND c.baseline_id = l.baseline_id)");
  if (parameter) query.bind(1, *parameter);
  std::vector<RunAndBaseline> missing;
  while (query.executeStep()) {
    missing.emplace_back(query.getColumn(0).getInt64(), query.getColumn(1).getInt64());
  }
  return missing;
}

void keep_changes(SQLite::Database& db, const std::vector<RunAndBaseline>& pairs) {
  if (pairs.empty()) return;
  SQLite::Statement keep(db, sql_of_file("db/judge_change.sql"));
  in_turns(db, pairs, [&](const RunAndBaseline& pair) {
    keep.bind(1, pair.first);
    keep.bind(2, pair.second);
    keep.exec();
    keep.reset();
  });
}

}  // namespace

std::vector<int64_t> unjudged_runs(SQLite::Database& db) {
  SQLite::Statement query(db, "SELECT run_id FROM unjudged");
  std::vector<int64_t> ids;
  while (query.executeStep()) ids.push_back(query.getColumn(0).getInt64());
  return ids;
}

void judge(SQLite::Database& db, std::span<const int64_t> runs) {
  if (runs.empty()) return;
  SQLite::Statement keep(db, sql_of_file("db/judge_run.sql"));
  in_turns(db, runs, [&](int64_t run_id) {
    forget_verdict(db, run_id);
    keep.bind(1, run_id);
    keep.exec();
    keep.reset();
  });
  std::set<std::string> lineages;
  SQLite::Statement lineage(db, "SELECT lineage FROM lineage_member WHERE run_id = ?");
  for (const int64_t run_id : runs) {
    lineage.bind(1, run_id);
    if (lineage.executeStep()) lineages.insert(lineage.getColumn(0).getString());
    lineage.reset();
  }
  SQLite::Statement members(db, "SELECT run_id FROM lineage_member WHERE lineage = ?");
  std::vector<RunAndBaseline> missing;
  for (const std::string& name : lineages) {
    members.bind(1, name);
    while (members.executeStep()) {
      const int64_t run_id = members.getColumn(0).getInt64();
      const auto more = missing_changes(db, "l.run_id = ?", run_id);
      missing.insert(missing.end(), more.begin(), more.end());
    }
    members.reset();
  }
  keep_changes(db, missing);
}

void judge_rest(SQLite::Database& db) {
  judge(db, unjudged_runs(db));
  keep_changes(db, missing_changes(db, "true", {}));
}

void judge_change(SQLite::Database& db, int64_t run_id, int64_t baseline_id) {
  SQLite::Statement kept(db, "SELECT 1 FROM run_change WHERE run_id = ? AND baseline_id = ?");
  kept.bind(1, run_id);
  kept.bind(2, baseline_id);
  if (!kept.executeStep()) keep_changes(db, {{run_id, baseline_id}});
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
