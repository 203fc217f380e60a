#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cli/warehouse/origin.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"
#include "cli/warehouse/waivers.h"

namespace greta {

/// The statements of a verdict. Filters are on run ids, so that they reach what is kept and the
/// keys. What costs most of a single verdict is preparing them: each is prepared when first needed,
/// and where all is kept they ask the twins of the views, which work nothing out. Throws
/// SQLite::Exception.
class VerdictQueries {
 public:
  VerdictQueries(SQLite::Database& db, bool kept);

  Query verdict;  ///< one row of kVerdictColumns
  Origins origins;

  Query& breakdown(int64_t run_id);  ///< cause, and how often, strictly and beyond rounding
  int64_t refuted(int64_t run_id);   ///< readouts that double arithmetic refutes
  Query& by_prompt(int64_t run_id);  ///< rows of first_fail, in the order of the prompts
  /// prompt, layer, tensor, finding, evidence, meaning of the first pair beyond rounding
  Query& diagnosis(int64_t run_id);
  /// Differences that the gate leaves out, and the verdict does not.
  std::vector<AppliedWaiver> waivers(int64_t run_id) { return applied_waivers(db_, run_id); }

 private:
  Query& bound(std::unique_ptr<Query>& query, const std::string& sql, int64_t run_id);

  SQLite::Database& db_;
  std::string kept_;
  std::unique_ptr<Query> breakdown_, by_prompt_, diagnosis_, refuted_;
};

/// What is known of one run: its verdict, and the statements that say more. Borrows both.
struct JudgedRun {
  JudgedRun(const RunVerdict& run_verdict, int64_t id, VerdictQueries& statements)
      : verdict(run_verdict), run_id(id), queries(statements), head(run_verdict) {}

  bool fails() const { return verdict.has("first_fail"); }
  Query& breakdown() const { return queries.breakdown(run_id); }
  Query& by_prompt() const { return queries.by_prompt(run_id); }
  /// Of runs that have values beyond rounding.
  Query& diagnosis() const { return queries.diagnosis(run_id); }
  Origin origin(const FailPlace& place, Gate gate) const {
    return queries.origins.at(run_id, place, gate);
  }

  const RunVerdict& verdict;
  int64_t run_id;
  VerdictQueries& queries;
  Headline head;
};

/// The first fail that by_prompt stands on, by that verdict.
FailPlace prompt_fail(const Query& by_prompt, Gate gate);

/// The object that scripts read: keys are added to it, never renamed or taken away.
std::string json_of(const JudgedRun& run);

/// The run as a block of lines; `later` names later runs of its name.
void print_block(Output& out, const JudgedRun& run, const std::string& later);

}  // namespace greta
