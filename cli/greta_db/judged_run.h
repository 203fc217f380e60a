#pragma once
#include <string>
#include <utility>
#include <vector>

#include "cli/report/texts.h"
#include "cli/warehouse/origin.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"
#include "cli/warehouse/waivers.h"

namespace greta {

/// What is asked for a verdict. Filters are on run ids, so that they reach what is kept and the
/// keys; where all is kept, the twins of the views are asked, which work nothing out. Throws
/// SQLite::Exception.
class VerdictQueries {
 public:
  /// `kept`: what the views are called by (kept_views).
  VerdictQueries(QueryPool& of, std::string kept) : statements(of), kept_(std::move(kept)) {}

  RunQuery verdict(int64_t run_id);    ///< one row of kVerdictColumns
  RunQuery breakdown(int64_t run_id);  ///< cause, and how often, strictly and beyond rounding
  int64_t refuted(int64_t run_id);     ///< readouts that double arithmetic refutes
  RunQuery by_prompt(int64_t run_id);  ///< rows of first_fail, in the order of the prompts
  /// prompt, layer, tensor, finding, evidence, meaning of the first pair beyond rounding: of every
  /// prompt, or of one
  RunQuery diagnosis(int64_t run_id);
  RunQuery diagnosis(int64_t run_id, const std::string& prompt);
  /// Differences that the gate leaves out, and the verdict does not.
  std::vector<AppliedWaiver> waivers(int64_t run_id) { return applied_waivers(statements, run_id); }

  QueryPool& statements;

 private:
  std::string diagnosis_of(const std::string& condition) const;

  std::string kept_;
};

/// What is known of one run: its verdict, and the statements that say more. Borrows both.
struct JudgedRun {
  JudgedRun(const RunVerdict& run_verdict, int64_t id, VerdictQueries& statements)
      : verdict(run_verdict), run_id(id), queries(statements), head(run_verdict) {}

  bool fails() const { return verdict.has("first_fail"); }
  /// Whether the view diagnosis can say something of it: a pair is beyond rounding, or its rows
  /// were to be equal. Preparing the question takes a fifth of what a failing run takes.
  bool is_described() const {
    return verdict.has("numeric_first_fail") ||
           (head.gate == Gate::kStrict && verdict.text("mode") == "batch_invariant");
  }
  RunQuery breakdown() const { return queries.breakdown(run_id); }
  RunQuery by_prompt() const { return queries.by_prompt(run_id); }
  /// Of runs that have values beyond rounding.
  RunQuery diagnosis() const { return queries.diagnosis(run_id); }
  RunQuery diagnosis(const std::string& prompt) const { return queries.diagnosis(run_id, prompt); }
  Origin origin(const FailPlace& place, Gate gate) const {
    return origin_at(queries.statements, run_id, place, gate);
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

/// NAME#2, NAME#3, ... of a run's name that are not shown with it.
std::vector<std::string> later_names(SQLite::Database& db, const Run& run,
                                     const std::vector<Run>& shown);
/// "NAME#2, NAME#3; --latest takes the newest", for a terminal; "" when there is none.
std::string later_text(const std::vector<std::string>& names, const Wording& words = kEnglishWords);

/// The run as a block of lines; `later` names later runs of its name.
void print_block(Output& out, const JudgedRun& run, const std::string& later);

}  // namespace greta
