#pragma once
#include "cli/pages/html.h"
#include "cli/report/judged_row.h"
#include "cli/report/texts.h"

namespace greta {

/// What a run's page has below the map: how it spreads, K and V, logits, attributes, documents.
/// What has no rows has no section.
Html sections_of_run(QueryPool& statements, const JudgedRow& row, const Wording& words);

/// What sources state of two runs beside each other, or of one; what differs is marked.
Html attribute_table(QueryPool& statements, const Run& a, const Run* b, const Wording& words);

}  // namespace greta
