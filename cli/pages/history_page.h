#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <string>

#include "cli/pages/history_reader.h"
#include "cli/report/markdown.h"
#include "cli/report/texts.h"
#include "cli/warehouse/run_name.h"

namespace greta {

/// Writes the page of a history: a matrix of commits and modes for each lineage, how far each trace
/// point drifts, where it turned for the worse, and every run. Throws what `sink` throws.
void write_history_page(const History& history, const RunPages& pages, Language language,
                        const TextSink& sink);

/// The runs of a history by how much there is to see: where it turned for the worse, what fails,
/// what has no verdict, the rest; of each the newest first.
std::vector<Run> runs_worth_a_page(const History& history);

}  // namespace greta
