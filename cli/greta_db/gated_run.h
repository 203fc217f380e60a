#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/greta_db/judged_run.h"
#include "cli/show/block.h"
#include "cli/show/judged_row.h"
#include "cli/show/texts.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"

namespace greta {

/// A row of the view gate_case, by the gate that counts: a prompt and layer of a run.
struct GateCase {
  std::string prompt, status, cause, message, tensor;
  int64_t layer = 0, waived = 0;
};

/// One run and what the gate says of it: the row of the view `gate`, by column name.
class GatedRun {
 public:
  /// Compared with `baseline`, which is kept (judge_change()); without one, with the run's own.
  /// `gate`: which verdict the answer follows. `needs_baseline`: without one there is no PASS.
  /// Throws SQLite::Exception.
  GatedRun(QueryPool& statements, const Run& run, std::optional<int64_t> baseline, Gate gate,
           bool needs_baseline);
  GatedRun(const GatedRun&) = delete;
  GatedRun& operator=(const GatedRun&) = delete;

  const RunVerdict& row() const { return *row_; }
  int64_t run_id() const { return run_id_; }
  const std::string& name() const { return name_; }

  Gate gate() const { return gate_; }  ///< strict or numeric: whose verdict the answer follows
  Gate other_gate() const { return gate_ == Gate::kStrict ? Gate::kNumeric : Gate::kStrict; }
  std::string answer() const { return answer(gate_); }
  std::string answer(Gate gate) const;
  std::string own(Gate gate) const;  ///< the run's own verdict, waived differences left out
  /// Pairs, and rows held against the baseline, that are waived and would fail that gate.
  int64_t waived_pairs(Gate gate) const {
    return row_->number(gate == Gate::kStrict ? "waived" : "waived_divergent");
  }
  int64_t waived_rows(Gate gate) const {
    return row_->number(gate == Gate::kStrict ? "waived_rows" : "waived_changed_rows");
  }
  /// True if what changed since the baseline fails, waived differences left out.
  bool change_fails() const;
  bool has_baseline() const { return row_->has("baseline"); }
  bool lacks_baseline() const { return needs_baseline_ && !has_baseline(); }
  /// The first failure of the own verdict by the gate: rows without a partner before all.
  FailPlace fail() const { return row_->first_fail(gate_); }
  bool fails() const { return own(gate_) == "FAIL"; }

  // Texts are as they are: a printer escapes them.

  /// "CHANGED since 2026-02-06/ci/as_designed: 3 rows beyond rounding, first at ..."; that nothing
  /// is compared where there is no baseline.
  std::string change_text(const Wording& words) const;
  FailPlace changed_place() const;
  /// "FAIL: ATTN_OUT_DRIFT at ...; strict FAIL".
  std::string own_text(const Wording& words) const;
  /// "1017 compared; 2034 rows with the baseline's": without what is waived.
  std::string pairs_text(const Wording& words) const;
  bool passes_by_rounding() const {
    return answer() == "PASS" && gate_ == Gate::kNumeric && own(Gate::kStrict) == "FAIL";
  }
  /// The answer; with rounding_text() where that is what it passes by.
  std::string headline() const;
  /// Why there is no PASS though nothing fails; "" when there is one.
  std::string no_verdict_text(const Wording& words) const;

  /// "attn_out of dtype f32 0.5, shipped 0.01": tolerances that are not those that greta ships, of
  /// trace points that the run has.
  std::vector<std::string> tolerances(const Wording& words) const;
  /// NAME#2, NAME#3, ... of this name that are not gated with it.
  const std::vector<std::string>& later() const { return later_; }
  void set_later(std::vector<std::string> names) { later_ = std::move(names); }
  const std::vector<AppliedWaiver>& waivers() const { return waivers_; }
  /// In forward order; asked for once.
  const std::vector<GateCase>& cases();
  /// Findings about a place, the most telling first. Empty unless it is the first of its prompt
  /// that fails, waived differences included.
  std::vector<PairFinding> findings(const FailPlace& place);

  /// The object of `firstfail --format json`, with the member "gate".
  std::string json();

 private:
  void count_waived_rows(int64_t baseline);

  QueryPool& statements_;
  int64_t run_id_;
  std::string name_;
  bool needs_baseline_;
  std::optional<RunVerdict> row_;
  Gate gate_ = Gate::kNumeric;
  std::vector<AppliedWaiver> waivers_;
  std::vector<std::string> later_;
  std::optional<std::vector<GateCase>> cases_;
  std::optional<std::vector<PairFinding>> findings_;  // of all prompts
};

using GatedRuns = std::vector<std::unique_ptr<GatedRun>>;

/// The command that tells more of a run, or of what changed where that alone fails; a reader may
/// copy it.
std::string more_command(const std::string& database, const GatedRun& run);

/// The beginnings of every text of gate_junit and GateShow::markdown.
inline constexpr const char* kJunitStart =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"greta-db gate\"";
inline constexpr const char* kMarkdownStart = "### greta gate: ";

/// The answer of the gate to a reader. `status` is the exit status.
class GateShow {
 public:
  GateShow(const std::string& database, GatedRuns& runs, int status, Language language);

  void print(Output& out);  ///< for a terminal
  std::string markdown();   ///< at most 40 lines
  /// A page for a browser; `json` is what --json writes.
  std::string page(const std::string& json);

  /// What is said of a run before its facts.
  Line headline(const GatedRun& run, FailKind kind = FailKind::kNone) const;
  enum class Amount { kAll, kSome };
  FactList facts(GatedRun& run, Amount amount) const;

 private:
  Line sentence() const;
  ShownTable table() const;
  Blocks section(GatedRun& run) const;
  Blocks cases(GatedRun& run) const;
  bool has_section(const GatedRun& run, size_t shown) const;
  std::string answer() const;

  const std::string& database_;
  std::vector<GatedRun*> runs_;  // as they were asked for
  std::vector<GatedRun*> worst_first_;
  int status_;
  Wording words_;
};

/// A JUnit report, as Jenkins, GitLab and GitHub's actions take it: a suite per run, with a case
/// for its verdict, one for what changed since its baseline, and one per prompt and layer (view
/// gate_case). A FAIL is a failure, no verdict an error, and what is waived or not compared is
/// skipped.
std::string gate_junit(const std::string& database, const GateShow& show, GatedRuns& runs);

/// "PASS", "FAIL", "no verdict": of an exit status.
std::string answer_of_status(int status);

}  // namespace greta
