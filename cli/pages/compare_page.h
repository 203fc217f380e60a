#pragma once
#include <string>
#include <vector>

#include "cli/pages/page.h"
#include "cli/report/markdown.h"
#include "cli/report/texts.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"

namespace greta {

/// What is told of two runs before their map.
struct ComparisonSummary {
  std::string verdict;  ///< that leads
  FailKind kind = FailKind::kNone;
  std::string remark;              ///< as Headline::remark
  std::vector<std::string> lines;  ///< one sentence each, in the page's language
};

/// Writes the page of two runs: what differs row by row, and what is stated of them. Throws
/// SQLite::Exception and what `sink` throws.
void write_compare_page(QueryPool& statements, const Run& a, const Run& b,
                        const ComparisonSummary& summary, Language language, const TextSink& sink);

}  // namespace greta
