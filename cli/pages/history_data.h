#pragma once
#include <string>
#include <vector>

#include "cli/pages/history_layout.h"
#include "cli/report/texts.h"

namespace greta {

/// The data of a history's page: "runs", "regressions" and "drift" as {"columns", "rows"} of the
/// views, runs from number `first_listed` on, which counts as 0; "heads": the verdict that leads of
/// each; "families": cells by lineage and column, each 0 or how many runs it has and the numbers of
/// those, the worst first; "pages": files by run.
std::string json_of_history(const History& history, const std::vector<HistoryFamily>& families,
                            const RunPages& pages, size_t first_listed, const Wording& words);

}  // namespace greta
