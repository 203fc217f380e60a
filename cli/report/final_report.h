#pragma once
#include <string>
#include <vector>

#include "cli/report/markdown.h"
#include "cli/report/texts.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"

namespace greta {

/// The experiment that a run belongs to. Throws SQLite::Exception.
std::string experiment_of(QueryPool& statements, const Run& run);

/// Writes the final report of runs of one experiment as Markdown, from the views alone: a
/// verdict is what run_verdict says, and what no row says is "not recorded". What runs are called
/// cannot break the document. Throws SQLite::Exception and what `sink` throws.
void write_final_report(QueryPool& statements, const std::vector<Run>& runs, Language language,
                        const TextSink& sink);

}  // namespace greta
