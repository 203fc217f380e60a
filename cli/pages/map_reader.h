#pragma once
#include <cstddef>
#include <string>

#include "cli/pages/pair_map.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"

namespace greta {

/// Of how many cells a page tells all: of as many as leave it under 300 KB, which a run of 32
/// layers, 29 trace points and 3 prompts is by far; of 200 at least.
size_t detailed_cells(const PairMap& map);

/// Of how many cells of two runs a page gives the hashes, which are most of what it has of them.
size_t hashed_cells(const PairMap& map);

/// Prefill against decode, as views pair and trace say it, without what read_details adds. Throws
/// SQLite::Exception, as all of these.
PairMap read_map(QueryPool& statements, const Run& run);

/// Where the rows are written, and statistics of as many as detailed_cells() says: those of prompt
/// `first` before others, what is beyond rounding before what is within.
void read_details(QueryPool& statements, const Run& run, const std::string& first, PairMap& map);

/// Run a against run b, as view run_diff says it; where there are more cells than hashed_cells(),
/// those whose hashes are there have a MapDetail.
PairMap read_map(QueryPool& statements, const Run& a, const Run& b);

}  // namespace greta
