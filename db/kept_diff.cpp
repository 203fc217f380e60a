#include "db/kept_diff.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "common/stop_signal.h"
#include "db/schema.h"
#include "db/statements.h"
#include "db/transaction.h"
#include "db/with_views.h"

namespace greta {
namespace {

using Clock = std::chrono::steady_clock;

/// Other writers wait.
constexpr std::chrono::milliseconds kComparingTurn{100};

/// What orders the runs of a lineage: date, start, and the name, of which #10 is after #2.
using Time = std::tuple<std::string, std::string, int64_t, std::string>;

/// Of several runs of a lineage.
struct Earliest {
  Time time;
  std::optional<int64_t> ord;  ///< of their commits, where they are known
};

class DiffKeeper {
 public:
  explicit DiffKeeper(SQLite::Database& db) : db_(db), sql_(db) {}

  /// The runs, and those of their lineages that one of them can be the baseline of: later ones, by
  /// time or by commits; all where one of them is pinned.
  std::set<int64_t> runs_to_compare(std::span<const int64_t> runs) {
    std::map<std::string, Earliest> lineages;
    for (const int64_t run_id : runs) {
      SQLite::Statement& member = sql_(
          "SELECT m.lineage, m.date, m.started_at, m.run,"
          " (SELECT c.ord FROM run r JOIN commit_node c ON c.sha >= r.commit_sha"
          "  AND c.sha < r.commit_sha || 'g' WHERE r.id = m.run_id LIMIT 1),"
          " EXISTS (SELECT 1 FROM pinned_baseline p WHERE p.run_id = m.run_id), length(m.run)"
          " FROM lineage_member m WHERE m.run_id = ?",
          run_id);
      if (!member.executeStep()) continue;
      const Time time{member.getColumn(1), member.getColumn(2), member.getColumn(6).getInt64(),
                      member.getColumn(3)};
      const auto [known, is_new] = lineages.try_emplace(member.getColumn(0));
      Earliest& earliest = known->second;
      if (is_new || time < earliest.time) earliest.time = time;
      if (member.getColumn(5).getInt() != 0) earliest.time = {};
      if (!member.getColumn(4).isNull()) {
        earliest.ord = std::min(earliest.ord.value_or(INT64_MAX), member.getColumn(4).getInt64());
      }
      member.reset();
    }
    std::set<int64_t> wanted;
    for (const auto& [lineage, earliest] : lineages) {
      const auto& [date, started_at, length, run] = earliest.time;
      SQLite::Statement& members = sql_(
          "SELECT o.run_id FROM lineage_member o WHERE o.lineage = ?1 AND NOT o.injected"
          " AND (o.date, o.started_at, length(o.run), o.run) >= (?2, ?3, ?4, ?5)"
          " AND EXISTS (SELECT 1 FROM kept_tally t WHERE t.run_id = o.run_id)",
          lineage, date, started_at, length, run);
      while (members.executeStep()) wanted.insert(members.getColumn(0).getInt64());
      members.reset();
      if (!earliest.ord) continue;
      SQLite::Statement& descendants = sql_(
          "SELECT o.run_id FROM lineage_member o CROSS JOIN run r ON r.id = o.run_id"
          " CROSS JOIN commit_node c ON c.sha >= r.commit_sha AND c.sha < r.commit_sha || 'g'"
          " WHERE o.lineage = ?1 AND NOT o.injected AND c.ord > ?2"
          " AND EXISTS (SELECT 1 FROM kept_tally t WHERE t.run_id = o.run_id)",
          lineage, *earliest.ord);
      while (descendants.executeStep()) wanted.insert(descendants.getColumn(0).getInt64());
      descendants.reset();
    }
    return wanted;
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
      compare_.emplace(db_,
                       with_views("INSERT INTO kept_diff SELECT " + columns_of(db_, "kept_diff") +
                                  " FROM diff_part WHERE run_a_id = ? AND run_b_id = ?"));
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
  keep_each(db, keeper, keeper.runs_to_compare(runs));
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
