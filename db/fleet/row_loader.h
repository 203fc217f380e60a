#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <vector>

#include "db/fleet/pushed_run.h"
#include "db/fleet/server.h"
#include "db/row_statement.h"

namespace greta {

/// Fetches trace rows, with sketches and samples, and exact differences. Members throw
/// clickhouse::Error where fewer come than were sent, or SQLite::Exception.
class RowLoader {
 public:
  RowLoader(FleetServer& server, SQLite::Database& db) : server_(server), db_(db) {}

  /// Those of some runs, where they are not here yet.
  void load(PushedRuns& runs, std::vector<PushedRun*> wanted);

 private:
  struct Inserts;

  void clear(const PushedRun& run);
  void fetch_rows(const PushedRuns& runs, const std::vector<Published>& asked);
  void fetch_differences(const PushedRuns& runs, const std::vector<Published>& asked);
  void note_positions(int64_t run_id);

  FleetServer& server_;
  SQLite::Database& db_;
  int64_t next_vector_ = 1;
};

}  // namespace greta
