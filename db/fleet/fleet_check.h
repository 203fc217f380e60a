#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "db/fleet/published.h"

// Checks that a warehouse holds what was judged.

namespace greta {

/// A run that is judged otherwise than it was: a row of either verdict that the other lacks.
struct FleetDifference {
  std::string run;
  std::string pushed, judged;  ///< "" none
};

struct FleetCheckSummary {
  int64_t runs = 0, rows = 0, judged = 0;
  std::vector<FleetDifference> differences;  ///< one per run at most
};

/// Has the servers hash all rows of these runs, verdicts among them, and compares the sums with
/// those of the push. Then fetches one run in `sample`, a random choice, at least one, and judges
/// it again. `progress` is called with the number of runs that are done. Throws as FleetFile does:
/// other rows than were sent are an error.
FleetCheckSummary check_fleet(FleetServer& server, const std::vector<Published>& runs,
                              int64_t sample, const std::function<void(int64_t)>& progress = {});

/// Rows of a warehouse that belong to no published push, or to one that another replaced, and were
/// sent more than `hours` ago by the server's clock.
struct SweptRows {
  std::vector<uint64_t> pushes;
  uint64_t rows = 0, differences = 0, records = 0;
};

/// Finds them and, with `remove`, deletes them; returns when they are gone.
SweptRows sweep_fleet(FleetServer& server, int64_t hours, bool remove);

}  // namespace greta
