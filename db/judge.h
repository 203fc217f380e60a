#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <span>
#include <vector>

namespace greta {

/// Runs that nobody has judged since what their verdicts are made of changed: those without rows in
/// the table `verdict`, and those whose waivers have run out. Throws SQLite::Exception.
std::vector<int64_t> unjudged_runs(SQLite::Database& db);

/// Judges runs, whatever is kept of them: their verdicts are worked out by the view verdict_now and
/// kept, and so is what changed since their baselines, of them and of the runs of their lineages
/// that one of them is a baseline of. In transactions of its own, so that other writers have their
/// turns. Throws SQLite::Exception or Stopped; what was kept by then stays.
void judge(SQLite::Database& db, std::span<const int64_t> runs);

/// Judges what is not judged, and compares every run with its baseline where that is not kept: for
/// whoever changes which runs are compared. Throws as judge() does.
void judge_rest(SQLite::Database& db);

/// Compares a run with another one as its baseline, and keeps that, in a transaction of its own.
void judge_change(SQLite::Database& db, int64_t run_id, int64_t baseline_id);

/// Deletes what is kept of a run's verdict, and of how it compares with others: for whoever changes
/// what these are made of, inside its transaction.
void forget_verdict(SQLite::Database& db, int64_t run_id);

}  // namespace greta
