#pragma once
#include <string>
#include <vector>

#include "cli/show/judged_row.h"
#include "cli/show/texts.h"
#include "cli/warehouse/origin.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"

namespace greta {

/// The row of kVerdictColumns of a run. Throws SQLite::Exception, as what follows does.
RunQuery verdict_of(QueryPool& statements, int64_t run_id);

/// A run with its verdict, and what more is known of it. Borrows both.
struct JudgedRun {
  /// `asked`: which verdict is wanted.
  JudgedRun(QueryPool& pool, int64_t id, const RunVerdict& row, Gate asked = Gate::kVerdict)
      : statements(pool), run_id(id), verdict(row), gate(asked), head(row, asked) {}

  RunQuery breakdown() const;  ///< cause, and how often, strictly and beyond rounding
  RunQuery by_prompt() const;  ///< rows of first_fail, in the order of the prompts
  int64_t refuted() const;     ///< readouts that double arithmetic refutes
  /// Differences that the gate leaves out, and the verdict does not.
  std::vector<AppliedWaiver> waivers() const { return applied_waivers(statements, run_id); }
  Origin origin(const FailPlace& place, Gate of) const {
    return origin_at(statements, run_id, place, of);
  }

  QueryPool& statements;
  int64_t run_id;
  const RunVerdict& verdict;
  Gate gate;
  Headline head;
};

/// The object that scripts read: keys are added to it, never renamed or taken away.
std::string json_of(const JudgedRun& run);

/// NAME#2, NAME#3, ... of a run's name that are not shown with it.
std::vector<std::string> later_names(SQLite::Database& db, const Run& run,
                                     const std::vector<Run>& shown);
/// "NAME#2, NAME#3; --latest takes the newest", for a terminal; "" when there is none.
std::string later_text(const std::vector<std::string>& names, const Wording& words = kEnglishWords);

/// The run as a block of lines; `later` names later runs of its name.
void print_block(Output& out, const JudgedRun& run, const std::string& later);

}  // namespace greta
