#pragma once
#include "cli/pages/history_layout.h"
#include "cli/pages/html.h"
#include "cli/report/texts.h"

namespace greta {

/// A small chart for each trace point of a lineage that drifts, one scale for all of them: the
/// worst distance over its tolerance, commit by commit as in the matrix, and where the lineage
/// turned for the worse. Nothing where nothing differs.
Html drift_charts(const History& history, const HistoryLineage& lineage,
                  const std::vector<HistoryColumn>& columns, const Wording& words);

/// "4b2f0c1d9e3a", "2026-01-04", "12 commits": what a column is called.
std::string column_name(const HistoryColumn& column, const Wording& words);

}  // namespace greta
