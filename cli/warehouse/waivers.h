#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/warehouse/sql_query.h"

namespace greta {

/// A row of the canned query waived: pairs of a run that the gate leaves out.
struct AppliedWaiver {
  int64_t id = 0;
  std::string tensor;
  std::optional<int64_t> layer;  ///< none: every layer
  int64_t pairs = 0, divergent = 0;
  int64_t rows = 0;  ///< that differ from a baseline's: counted by the gate alone
  std::string until, reason, created_by;

  std::string json() const;
};

/// Whether a waiver is in force for the run, whatever it finds there.
bool has_waivers(QueryPool& statements, int64_t run_id);

/// Those that waive something of the run, in order of their ids. Costs nothing where there is none.
std::vector<AppliedWaiver> applied_waivers(QueryPool& statements, int64_t run_id);

}  // namespace greta
