#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <functional>
#include <map>
#include <span>

#include "db/kept_tally.h"

namespace greta {

/// Judges runs: their tallies and verdicts are kept, unless they are already, and so is how they
/// compare with their baselines. In transactions of
/// its own, so that other writers have their turns. Up to `threads` threads work tallies out, each
/// on a connection of its own to db's file, while this one holds the write lock: what they read is
/// what the transaction began with, so nothing that is kept is out of date. One thread does it
/// where SQLite is configured for one. Throws SQLite::Exception, Stopped or ThreadError; what was
/// kept by then stays.
void judge(SQLite::Database& db, std::span<const int64_t> runs, int threads);

/// Judges one run, in a transaction of its own, as keep_tally does: its prompts on up to `threads`
/// threads, where there is enough of it. Throws SQLite::Exception.
void judge_run(SQLite::Database& db, int64_t run_id, int threads);

/// Tallies of a run's prompts, by prompt, that somebody else works out. Both are called in the
/// transaction that keeps them.
struct EarlyTallies {
  std::function<std::map<int64_t, TallyRows>()> known;  ///< those that are there and still true
  /// Some of these, or all: they are not among those.
  std::function<std::map<int64_t, TallyRows>(std::span<const int64_t> prompts)> work_out;
};

/// The same with these. Nothing is done where more than max_rows trace rows are left to judge.
void judge_run(SQLite::Database& db, int64_t run_id, int threads, int64_t max_rows,
               const EarlyTallies& early);

/// Whether further connections on other threads can work tallies out.
bool can_judge_beside(const SQLite::Database& db);

}  // namespace greta
