#pragma once
#include <vector>

#include "cli/pages/history_layout.h"
#include "cli/pages/html.h"
#include "cli/report/texts.h"

namespace greta {

/// What the cells of a history's matrices show, of those that occur.
Html matrices_legend(const History& history, const Wording& words);

/// A section for each family: its matrix of commits by mode, each cell a link where its worst run
/// has a page, and how far its lineages drift.
Html matrices_of(const History& history, const std::vector<HistoryFamily>& families,
                 const RunPages& pages, const Wording& words);

}  // namespace greta
