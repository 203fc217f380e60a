#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/report_texts.h"
#include "cli/run_name.h"

namespace greta {

/// Takes a text piece by piece.
using TextSink = std::function<void(std::string_view)>;

/// Writes the final report of runs of one experiment as Markdown, from the views alone: a
/// verdict is what run_verdict says, and what no row says is "not recorded". What runs are called
/// cannot break the document. Throws SQLite::Exception and what `sink` throws.
void write_final_report(SQLite::Database& db, const std::vector<Run>& runs, Language language,
                        const TextSink& sink);

/// Writes one line per comparison of a run: PROMPT TOKEN_ID POS_ID LAYER TENSOR FIRST_FAIL
/// ROOT_CAUSE, tab-separated, LF, NULL empty, control characters spelled out; ingest reads it as a
/// report table. An INCOMPARABLE pair says so as its FIRST_FAIL, because an empty one is a
/// match; decode-only rows are no comparisons and are left out.
void write_analysis_table(SQLite::Database& db, const Run& run, const TextSink& sink);

/// count of total in percent, two decimals: what is not all is never 100.00 %, what is not nothing
/// never 0.00 %. "-" of nothing.
std::string percent_text(int64_t count, int64_t total);

/// Name of report files without their ending: the experiment in capitals, and where that is not
/// enough (`alone` is false) the rest of the run's name. Only A-Z a-z 0-9 _ . -, no leading dot
/// or dash.
std::string report_stem(std::string_view experiment, std::string_view run, bool alone);

}  // namespace greta
