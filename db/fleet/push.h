#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "db/fleet/server.h"

// Sends judged runs to a warehouse.

namespace greta {

struct PushProgress {
  int64_t runs = 0, all_runs = 0;  ///< runs done with, and how many there are
  int64_t rows = 0;                ///< trace rows written
};

struct PushSummary {
  int64_t runs = 0;   ///< sent and published
  int64_t known = 0;  ///< there already, as they are
  int64_t rows = 0, differences = 0, records = 0;
  std::vector<std::pair<std::string, std::string>> renamed;  ///< name here, name there
  std::vector<std::string> refused;  ///< why runs were not sent, a line each
  bool judged_as_shipped = false;    ///< the file has other tolerances than greta ships
};

struct PushOptions {
  /// Also what is there as it is here, and where the warehouse's run has sources that this lacks.
  bool replace = false;
  std::function<void(const PushProgress&)> progress;
};

/// Sends runs of one state of a database that are judged, batch after batch. Tolerances of the file
/// stay there: where they are not those that greta ships, what is sent is judged by the latter
/// first. The last insert of a batch publishes it; what a push that ended early has sent is visible
/// to nobody. A run that is there as it is here is not sent again; one that has grown replaces what
/// was there. A run stays unsent while an ingest of it has not ended, or where the run there has
/// what this one lacks. Throws DatabaseError, clickhouse::Error, Stopped or SQLite::Exception; what
/// was published stays.
PushSummary push_runs(SQLite::Database& db, FleetServer& server, std::span<const int64_t> runs,
                      const PushOptions& options);

}  // namespace greta
