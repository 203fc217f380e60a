#pragma once
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/warehouse/sql_query.h"
#include "common/exit_status.h"

// The verdict of a run as programs show it: row, headline, exit status.

namespace greta {

/// Columns of run_verdict that the commands show, as a select list.
inline constexpr std::string_view kVerdictColumns =
    "run, experiment, mode, commit_sha, date, evidence, verdict, gate, strict_verdict,"
    " numeric_verdict, coverage, pairs, pass, fail, missing, decode_only, incomparable, first_fail,"
    " root_cause, prompt, layer, tensor, token_id, pos_id, details, strict_first_fail,"
    " strict_prompt, strict_layer, strict_tensor, strict_token_id, strict_pos_id,"
    " numeric_first_fail, numeric_prompt, numeric_layer, numeric_tensor, numeric_pos_id,"
    " numeric_origin, rounding, divergent, unmeasured, unmet, status, prefill_only, claimed,"
    " rejected, rejected_why, ingest_open, nonfinite, unjudged_texts,"
    " (SELECT c.root_cause FROM cause c WHERE c.name = strict_first_fail) AS strict_root_cause,"
    " (SELECT c.root_cause FROM cause c WHERE c.name = numeric_first_fail) AS numeric_root_cause";

/// Those of a run. Throws SQLite::Exception.
RunQuery verdict_query(QueryPool& statements, int64_t run_id);

/// One of a run's verdicts: the one to act on, which is one of the other two.
enum class Gate { kVerdict, kStrict, kNumeric };

/// "verdict", "strict", "numeric".
std::string_view gate_name(Gate gate);

/// Where a run or a prompt of it first fails, by one of its verdicts.
struct FailPlace {
  std::string cause;  ///< "" when it does not fail
  std::string root_cause, prompt, tensor;
  std::optional<int64_t> layer, pos;

  bool operator==(const FailPlace&) const = default;
};

/// "at layer 3, attn_out, prompt p0, pos 37": as much of it as is known, for a terminal.
std::string place_text(const FailPlace& place);
/// "ATTN_OUT_DRIFT at layer 3, ...".
std::string fail_text(const FailPlace& place);

/// A copy of the row that a query stands on, by column name: of run_verdict, where nothing else is
/// said.
class RunVerdict {
 public:
  explicit RunVerdict(const Query& row);
  RunVerdict(RunVerdict&&) = default;

  const Cell& cell(std::string_view column) const;
  bool has(std::string_view column) const { return cell(column).type != Cell::Type::kNull; }
  std::string text(std::string_view column) const { return std::string(cell(column).text); }
  std::string show(std::string_view column) const { return display_text(cell(column)); }
  int64_t number(std::string_view column) const { return cell(column).integer; }
  const std::vector<Cell>& cells() const { return cells_; }
  const std::vector<std::string>& names() const { return names_; }

  std::string_view at(Gate gate) const;  ///< PASS, FAIL, ...
  /// The first pair that fails by this verdict. A row without a partner comes first, whatever the
  /// verdict.
  FailPlace first_fail(Gate gate) const;

 private:
  std::vector<std::string> names_;
  std::vector<Cell> cells_;
  std::deque<std::string> texts_;  ///< of cells_
};

/// "PASS; 2 texts beside it were not judged: engine.log, notes.md": what is said of a run of that
/// row, and the texts that nobody has read.
std::string with_unjudged_texts(const std::string& said, const RunVerdict& row);

/// "PASS (rounding only; bitwise equal: no, as expected in as_designed)": a verdict whose run or
/// comparison is not bitwise equal, and passes. `mode`: of the run; "" unknown.
std::string rounding_text(const std::string& mode);

/// Headline::remark of a verdict that passes where rows are not bitwise equal.
inline constexpr const char* kWithinRounding = "within rounding";

/// The first line about a run.
struct Headline {
  /// `asked`: which verdict is wanted.
  explicit Headline(const RunVerdict& run, Gate asked = Gate::kVerdict);

  Gate gate;            ///< kStrict, kNumeric: which of the two the verdict is
  std::string verdict;  ///< PASS, FAIL, ...
  std::string remark;   ///< kWithinRounding, "beyond rounding", "though within rounding"; ""
  FailPlace fail;       ///< where it first fails

  std::string other;     ///< the verdict of the other gate
  FailPlace other_fail;  ///< where that one first fails
  std::string excuse;    ///< why that is no alarm: "rounding, as expected in as_designed"; ""
  std::string mode;      ///< of the run; "" unknown

  Gate other_gate() const { return gate == Gate::kStrict ? Gate::kNumeric : Gate::kStrict; }
  /// True if the other verdict says something else, or names another place.
  bool disputed() const { return other != verdict || other_fail != fail; }
  /// "FAIL beyond rounding"; of one within it see rounding_text().
  std::string text() const;
  /// The same, and "PASS (rounding only)".
  std::string brief() const;
};

/// Prints a table for readers, a row per run: columns of the verdicts that `runs` finds around what
/// leads. kTable or kMarkdown.
void print_headlines(Query& runs, Output& out, Format format, Gate gate,
                     const std::vector<std::string>& before, const std::vector<std::string>& after);

/// Rows for programs: all columns of the verdicts, and Headline::text() behind them.
class VerdictRows {
 public:
  VerdictRows(Output& out, Format format, std::vector<std::string> columns);
  void row(const RunVerdict& run, const Headline& head);
  void finish() { printer_.finish(); }

 private:
  RowPrinter printer_;
};

/// Exit status of several: the worst, 1 before 3 before 0; of no run 3.
class ExitOfVerdicts {
 public:
  void add(std::string_view verdict);
  int status() const { return worst_.value_or(kExitNoVerdict); }

 private:
  std::optional<int> worst_;
};

}  // namespace greta
