#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/report/markdown.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"

namespace greta {

/// A run, its row of run_verdict and what it is told by first.
struct JudgedRow {
  /// Throws SQLite::Exception, and std::logic_error of what is no run that is judged.
  JudgedRow(QueryPool& statements, const Run& run);
  JudgedRow(const JudgedRow&) = delete;
  JudgedRow& operator=(const JudgedRow&) = delete;

  Run run;
  std::string kept;  ///< what its views of verdicts are called by: kept_views
  RunVerdict verdict;
  Headline head;
};

using JudgedRows = std::vector<std::unique_ptr<JudgedRow>>;

JudgedRows judged_rows(QueryPool& statements, const std::vector<Run>& runs);

/// "beyond rounding", in the language of the report, of Headline::remark.
std::string remark_text(const std::string& remark, const Wording& words);

/// "**FAIL** beyond rounding" of the verdict as it is shown, "**FAIL**".
std::string headline_text(const std::string& verdict, const Headline& head, const Wording& words);

/// "2 FAIL beyond rounding, 3 PASS", of how many there are of each.
std::string counts_text(const std::map<std::string, size_t>& numbers);
std::string counts_text(const JudgedRows& rows, const Wording& words);

}  // namespace greta
