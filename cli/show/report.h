#pragma once
#include <string>
#include <vector>

#include "cli/show/block.h"
#include "cli/show/judged_row.h"

namespace greta {

// Reports and pages of runs, from the views alone: a verdict is what run_verdict says, and what no
// row says is "not recorded". Functions throw SQLite::Exception and what `sink` throws.

/// The experiment that a run belongs to.
std::string experiment_of(QueryPool& statements, const Run& run);

/// A report that fits a screen: of one run its verdict, where it fails, why, since when, and the
/// command that tells more; of several how many have which verdict, those that fail one by one, the
/// rest in a table.
Blocks brief_report(QueryPool& statements, const std::vector<Run>& runs, const Wording& words);

/// The short report of one run, without its name and verdict.
Blocks brief_of_run(QueryPool& statements, const JudgedRow& row, const Wording& words);

/// The final report of runs of one experiment.
Blocks final_report(QueryPool& statements, const std::vector<Run>& runs, const Wording& words);

/// Writes one line per comparison of a run: PROMPT TOKEN_ID POS_ID LAYER TENSOR FIRST_FAIL
/// ROOT_CAUSE, tab-separated, LF, NULL empty, control characters spelled out; ingest reads it as a
/// report table. An INCOMPARABLE pair says so as its FIRST_FAIL, because an empty one is a
/// match; decode-only rows are no comparisons and are left out.
void write_analysis_table(QueryPool& statements, const Run& run, const TextSink& sink);

/// The page of one run, or of several: a table of them and a section for each that fails, up to
/// eight. `history`: address of the page of their history, which it links to; "" none.
void write_run_page(QueryPool& statements, const std::vector<Run>& runs, Language language,
                    const TextSink& sink, const std::string& history = "");

/// The summary of two runs before their map.
struct ComparisonSummary {
  std::string verdict;  ///< that leads
  FailKind kind = FailKind::kNone;
  std::string remark;       ///< as Headline::remark
  std::vector<Line> lines;  ///< one sentence each, in the page's language
  FailPlace first = {};     ///< the first difference, by the verdict that leads; no tensor: none
  std::string phase = {};   ///< of that
};

/// Writes the page of two runs: what differs row by row, and what is stated of them.
void write_compare_page(QueryPool& statements, const Run& a, const Run& b,
                        const ComparisonSummary& summary, Language language, const TextSink& sink);

}  // namespace greta
