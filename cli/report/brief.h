#pragma once
#include <vector>

#include "cli/report/judged_row.h"
#include "cli/report/markdown.h"
#include "cli/report/texts.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"

namespace greta {

/// Writes what fits a screen, as Markdown: of one run its verdict, where it fails, why, since when,
/// and the command that tells more; of several how many have which verdict, those that fail one by
/// one, the rest in a table. From the views alone. Throws SQLite::Exception and what `sink` throws.
void write_brief_report(QueryPool& statements, const std::vector<Run>& runs, Language language,
                        const TextSink& sink);

/// Of one run of which the verdict is known.
void write_brief(QueryPool& statements, const JudgedRow& row, Language language,
                 const TextSink& sink);

}  // namespace greta
