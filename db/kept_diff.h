#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <span>

namespace greta {

/// Keeps how runs compare with their baselines (view run_baseline), so that what changed is read
/// and not worked out: of the runs given, and of those of their lineages whose baseline one of them
/// can be, where both sides were judged. In transactions of its own, so that other writers have
/// their turns. Throws SQLite::Exception or Stopped; what was kept by then stays.
void keep_diffs(SQLite::Database& db, std::span<const int64_t> runs);

/// The same of every run, for when other runs are the baselines: commits were read, or one pinned.
void keep_all_diffs(SQLite::Database& db);

}  // namespace greta
