#pragma once
#include <string>
#include <vector>

#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"

namespace greta {

// What views are called by: "kept_" where nothing of them has to be worked out, else "". The twins
// kept_VIEW work nothing out, and are there at once. Throw SQLite::Exception.

/// Views that say how these runs come out.
std::string kept_views(QueryPool& statements, const std::vector<Run>& runs);

/// Views that say how all runs come out.
std::string kept_views(QueryPool& statements);

/// Views that say what changed: of the runs of a lineage or, where that is "", of all.
std::string kept_views_of_lineage(QueryPool& statements, const std::string& lineage);

/// Whether the verdict of the run is kept.
bool is_judged(QueryPool& statements, int64_t run_id);

}  // namespace greta
