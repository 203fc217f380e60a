#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <map>
#include <vector>

#include "db/fleet/pushed_run.h"
#include "db/fleet/server.h"
#include "db/kept_tally.h"
#include "db/statements.h"

namespace greta {

/// Puts the tallies that the shards work out, by queries/clickhouse, in the place of those that
/// were pushed; the ladder from a tally to a verdict is SQLite's. Members throw clickhouse::Error
/// where a shard has fewer rows than were sent, or SQLite::Exception.
class ShardJudge {
 public:
  ShardJudge(FleetServer& server, SQLite::Database& db, const PushedRuns& runs)
      : server_(server), runs_(runs), db_(db), statements_(db) {}

  void judge(std::vector<const PushedRun*> wanted);

 private:
  using Batch = std::vector<const PushedRun*>;
  using Tallies = std::map<uint64_t, TallyRows>;  ///< by push
  struct Written {
    std::map<uint64_t, uint64_t> rows;  ///< that no document alone states, by push
    bool crowded = false;               ///< somewhere several stand at one place
  };

  void judge_batch(const Batch& batch);
  Written count_rows(const std::vector<Published>& asked);
  void ask_tallies(const Rules& rules, const std::vector<Published>& asked, bool crowded,
                   Tallies& tallies);
  void ask_unmet(const std::vector<Published>& asked, Tallies& tallies);
  void ask_untraced(const std::vector<Published>& asked, Tallies& tallies);
  void add_tally(Tallies& tallies, clickhouse::RowReader& row) const;
  void add_facts(const PushedRun& run, TallyRows& tally, uint64_t written);
  /// Whether the statement gives a row of a run of the batch.
  bool any_has(const Batch& batch, const char* sql);

  FleetServer& server_;
  const PushedRuns& runs_;
  SQLite::Database& db_;
  Statements statements_;
};

}  // namespace greta
