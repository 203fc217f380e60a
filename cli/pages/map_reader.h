#pragma once
#include <algorithm>
#include <cstddef>
#include <string>

#include "cli/pages/pair_map.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"

namespace greta {

/// Of how many cells a page tells all: of as many as leave it under 300 KB where it has up to
/// 2,100, as a run of 32 layers, 29 trace points and 3 prompts has; of 200 at least.
constexpr size_t detailed_cells(size_t cells) {
  constexpr size_t kBytes = 200'000, kBytesOfCell = 75, kBytesOfDetail = 230;
  const size_t room = kBytes - std::min(kBytes, cells * kBytesOfCell);
  return std::min(cells, std::max(size_t{200}, room / kBytesOfDetail));
}

/// Prefill against decode, as views pair and trace say it, without what read_details adds. Throws
/// SQLite::Exception, as all of these.
PairMap read_map(QueryPool& statements, const Run& run);

/// Where the rows are written, and statistics of detailed_cells() cells: those of prompt
/// `first` before others, what is beyond rounding before what is within.
void read_details(QueryPool& statements, const Run& run, const std::string& first, PairMap& map);

/// Run a against run b, as view run_diff says it.
PairMap read_map(QueryPool& statements, const Run& a, const Run& b);

}  // namespace greta
