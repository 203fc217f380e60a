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
  RunVerdict verdict;
  Headline head;
};

using JudgedRows = std::vector<std::unique_ptr<JudgedRow>>;

JudgedRows judged_rows(QueryPool& statements, const std::vector<Run>& runs);

/// Headline::remark of a run of that mode, in the language of the report: "beyond rounding",
/// "(rounding only; bitwise equal: no, as expected in as_designed)".
std::string remark_text(const std::string& remark, const std::string& mode, const Wording& words);

/// The same behind the verdict, as that is shown: "**FAIL** beyond rounding".
std::string headline_text(const std::string& verdict, const std::string& remark,
                          const std::string& mode, const Wording& words);

/// "2 FAIL, 3 PASS", of how many there are of each.
std::string counts_text(const std::map<std::string, size_t>& numbers);
std::string counts_text(const JudgedRows& rows);

}  // namespace greta
