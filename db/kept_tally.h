#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <vector>

namespace greta {

/// Runs of up to this many trace rows are judged when they are written; larger ones when asked for.
inline constexpr int64_t kJudgeRows = 100'000;

/// Works out the tally and the verdict of runs and keeps them, so that they are read: the kept rows
/// are those of the views `tally` and `verdict_part`. The statement costs more to prepare than a
/// small run to judge: one of these serves many. All calls happen inside a transaction that the
/// caller owns. Throws SQLite::Exception.
class TallyKeeper {
 public:
  explicit TallyKeeper(SQLite::Database& db);
  /// No-op when the tally is kept already.
  void keep(int64_t run_id);

 private:
  SQLite::Statement keep_, verdict_;
};

/// TallyKeeper for one run.
void keep_tally(SQLite::Database& db, int64_t run_id);

/// Deletes what is kept of a run: for whoever changes what its verdict is made of.
void forget_tally(SQLite::Database& db, int64_t run_id);

/// Ids of runs whose tally is not kept, that have ended or never said that they began, with at most
/// max_rows trace rows.
std::vector<int64_t> runs_without_tally(SQLite::Database& db, int64_t max_rows = kJudgeRows);

}  // namespace greta
