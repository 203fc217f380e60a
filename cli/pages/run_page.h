#pragma once
#include <string>
#include <vector>

#include "cli/report/markdown.h"
#include "cli/report/texts.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"

namespace greta {

/// Writes the page of one run, or of several: a table of them and a section for each that fails,
/// up to eight. From the views alone. Throws SQLite::Exception and what `sink` throws.
void write_run_page(QueryPool& statements, const std::vector<Run>& runs, Language language,
                    const TextSink& sink);

}  // namespace greta
