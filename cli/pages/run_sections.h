#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include "cli/pages/html.h"
#include "cli/report/texts.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/verdict.h"

namespace greta {

/// What a run's page has below the map: how it spreads, K and V, logits, attributes, documents.
/// What has no rows has no section.
Html sections_of_run(SQLite::Database& db, const Run& run, const RunVerdict& verdict,
                     const Wording& words);

/// What sources state of two runs beside each other, or of one; what differs is marked.
Html attribute_table(SQLite::Database& db, const Run& a, const Run* b, const Wording& words);

}  // namespace greta
