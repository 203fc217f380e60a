#include "db/kept_diff.h"

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/stop_signal.h"
#include "db/schema.h"
#include "db/statements.h"
#include "db/transaction.h"

namespace greta {
namespace {

using Clock = std::chrono::steady_clock;

/// Other writers wait.
constexpr std::chrono::milliseconds kComparingTurn{100};

class DiffKeeper {
 public:
  explicit DiffKeeper(SQLite::Database& db) : db_(db), sql_(db) {}

  /// The run, and those of its lineage that may be held against it and of which nothing is kept.
  std::vector<int64_t> runs_to_compare(int64_t run_id) {
    SQLite::Statement& members = sql_(
        "SELECT o.run_id FROM lineage_member m JOIN run r ON r.id = m.run_id"
        " JOIN lineage_member o ON o.lineage = m.lineage JOIN run s ON s.id = o.run_id"
        " WHERE m.run_id = ? AND NOT o.injected AND (o.run_id = m.run_id OR s.seed IS r.seed"
        "   AND NOT EXISTS (SELECT 1 FROM kept_diff k WHERE k.run_b_id = o.run_id))"
        " AND EXISTS (SELECT 1 FROM kept_tally t WHERE t.run_id = o.run_id)",
        run_id);
    std::vector<int64_t> ids;
    while (members.executeStep()) ids.push_back(members.getColumn(0).getInt64());
    members.reset();
    return ids;
  }

  /// Inside a transaction.
  void keep(int64_t run_id) {
    const auto baseline = sql_.find_id(
        "SELECT t.run_id FROM run_baseline b CROSS JOIN kept_tally t ON t.run_id = b.baseline_id"
        " WHERE b.run_id = ? LIMIT 1",
        run_id);
    if (!baseline) return;
    const auto kept = sql_.find_id("SELECT 1 FROM kept_diff WHERE run_a_id = ? AND run_b_id = ?",
                                   *baseline, run_id);
    if (kept) return;
    // Most runs are as the one before: what works out a difference takes twenty times as long to
    // prepare as to see that there is none.
    SQLite::Statement& same = sql_(
        "INSERT INTO kept_diff(run_a_id, run_b_id, pairs, compared, match, rounding, divergent,"
        " unknown, nonfinite, incomparable, alike, only_a, only_b)"
        " SELECT run_a_id, run_b_id, count, count, count, 0, 0, 0, 0, 0, 0, 0, 0"
        " FROM same_pair WHERE run_a_id = ? AND run_b_id = ? AND count > 0",
        *baseline, run_id);
    if (same.exec() > 0) return;
    if (!compare_) {
      compare_.emplace(db_, "INSERT INTO kept_diff SELECT " + columns_of(db_, "kept_diff") +
                                " FROM diff_part WHERE run_a_id = ? AND run_b_id = ?");
    }
    compare_->bind(1, *baseline);
    compare_->bind(2, run_id);
    compare_->exec();
    compare_->reset();
  }

 private:
  SQLite::Database& db_;
  Statements sql_;
  std::optional<SQLite::Statement> compare_;
};

/// In turns.
void keep_each(SQLite::Database& db, DiffKeeper& keeper, const std::set<int64_t>& runs) {
  for (auto next = runs.begin(); next != runs.end();) {
    throw_if_stopped();
    in_transaction(db, [&] {
      const auto end = Clock::now() + kComparingTurn;
      do keeper.keep(*next);
      while (++next != runs.end() && Clock::now() < end);
    });
  }
}

}  // namespace

void keep_diffs(SQLite::Database& db, std::span<const int64_t> runs) {
  if (runs.empty()) return;
  DiffKeeper keeper(db);
  std::set<int64_t> wanted;
  for (const int64_t run_id : runs) {
    if (wanted.count(run_id) > 0) continue;  // its lineage was looked through
    for (const int64_t id : keeper.runs_to_compare(run_id)) wanted.insert(id);
  }
  keep_each(db, keeper, wanted);
}

void keep_all_diffs(SQLite::Database& db) {
  std::set<int64_t> wanted;
  {
    SQLite::Statement runs(db,
                           "SELECT m.run_id FROM lineage_member m WHERE NOT m.injected"
                           " AND EXISTS (SELECT 1 FROM kept_tally t WHERE t.run_id = m.run_id)");
    while (runs.executeStep()) wanted.insert(runs.getColumn(0).getInt64());
  }
  DiffKeeper keeper(db);
  keep_each(db, keeper, wanted);
}

}  // namespace greta
