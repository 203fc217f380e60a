#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "db/fleet/published.h"

namespace greta {

/// A run whose verdict is another there than SQLite gave it: a row of either that the other lacks.
struct FleetDifference {
  std::string run;
  std::string pushed, worked_out;  ///< "" none
};

struct FleetCheckSummary {
  int64_t runs = 0, rows = 0;
  std::vector<FleetDifference> differences;  ///< one per run at most
};

/// Has the shards work the verdicts of these runs out, and holds them, every count and first fail
/// of every prompt included, against those that were pushed. `progress` is told how many are done.
/// Throws as FleetFile does: rows that are not there are an error.
FleetCheckSummary check_fleet(FleetServer& server, const std::vector<Published>& runs,
                              const std::function<void(int64_t)>& progress = {});

/// What of a warehouse belongs to no published push, or to one that another took the place of, and
/// was sent more than `hours` ago by the server's clock.
struct SweptRows {
  std::vector<uint64_t> pushes;
  uint64_t rows = 0, differences = 0, records = 0;
};

/// Finds it and, with `remove`, deletes it; returns when it is gone.
SweptRows sweep_fleet(FleetServer& server, int64_t hours, bool remove);

}  // namespace greta
