#pragma once
#include "cli/report/failure.h"
#include "cli/report/section.h"

namespace greta {

/// Writes the analysis table of a run as sections of its report; `failure` is null when nothing
/// failed. Throws SQLite::Exception.
void write_table_sections(const RunSection& run, const FirstFailure* failure);

/// Writes one line per comparison of a run: PROMPT TOKEN_ID POS_ID LAYER TENSOR FIRST_FAIL
/// ROOT_CAUSE, tab-separated, LF, NULL empty, control characters spelled out; ingest reads it as a
/// report table. An INCOMPARABLE pair says so as its FIRST_FAIL, because an empty one is a
/// match; decode-only rows are no comparisons and are left out.
void write_analysis_table(QueryPool& statements, const Run& run, const TextSink& sink);

}  // namespace greta
