#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <span>
#include <vector>

// Judges runs: keeps the rows of the views verdict_now and diff_now in tables, and deletes them.

namespace greta {

/// Runs without rows in the table `verdict`, and runs whose waivers have run out since. Throws
/// SQLite::Exception.
std::vector<int64_t> unjudged_runs(SQLite::Database& db);

/// Judges runs, also those that have a verdict. Keeps what the view verdict_now says of them, and
/// what the view diff_now says of the runs of their lineages whose comparison with their baseline
/// is missing. Uses the caller's transaction, or short ones of its own, so that other writers have
/// their turns. Throws SQLite::Exception or Stopped. Runs that are not done by then are unjudged.
void judge(SQLite::Database& db, std::span<const int64_t> runs);

/// Judges unjudged runs, and compares every run with its baseline where that is missing. To be
/// called after a change of which runs are compared. Throws as judge() does.
void judge_rest(SQLite::Database& db);

/// Compares a run with another one as its baseline, unless that is kept already. Uses a transaction
/// of its own. Throws SQLite::Exception.
void judge_change(SQLite::Database& db, int64_t run_id, int64_t baseline_id);

/// Hides the file's verdicts, changes and views behind temporary ones of this connection, which
/// begin as copies. Throws SQLite::Exception.
void hide_verdicts(SQLite::Database& db);

/// Hides the file's tolerances behind a temporary table of those that greta ships. True where these
/// differ: then verdicts are hidden, too, and runs are to be judged again.
bool use_shipped_tolerances(SQLite::Database& db);

/// Deletes the verdict of a run, its changes, and those of runs whose baseline it is. To be called
/// in the transaction that changes what the verdict was made from. Throws SQLite::Exception.
void forget_verdict(SQLite::Database& db, int64_t run_id);

}  // namespace greta
