#pragma once
#include <array>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/warehouse/sql_query.h"
#include "common/exit_status.h"

namespace greta {

/// Columns of run_verdict that the commands show, as a select list. numeric_origin is not among
/// them: it takes longer to prepare than all of them (cli/warehouse/origin.h).
inline constexpr std::string_view kVerdictColumns =
    "run, experiment, mode, commit_sha, date, evidence, verdict, numeric_verdict, coverage, pairs,"
    " pass, fail, missing, decode_only, incomparable, prompt, layer, tensor, token_id, pos_id,"
    " first_fail, root_cause, numeric_first_fail, numeric_prompt, numeric_layer, numeric_tensor,"
    " rounding, divergent, unmeasured, unmet, status, prefill_only, claimed, rejected,"
    " rejected_why, ingest_open, nonfinite, numeric_pos_id,"
    " (SELECT c.root_cause FROM cause c WHERE c.name = numeric_first_fail) AS numeric_root_cause";

/// One of the two verdicts of a run; as --gate, that which the exit status follows.
enum class Gate { kStrict, kNumeric };

/// "strict", "numeric".
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

/// The row of run_verdict that a query stands on, by column name. Borrowed until the next step,
/// unless own() is called.
class RunVerdict {
 public:
  explicit RunVerdict(const Query& row);

  /// Takes copies of the texts. The object is not to be copied afterwards.
  void own();

  const Cell& cell(std::string_view column) const;
  bool has(std::string_view column) const { return cell(column).type != Cell::Type::kNull; }
  std::string text(std::string_view column) const { return std::string(cell(column).text); }
  std::string show(std::string_view column) const { return display_text(cell(column)); }
  int64_t number(std::string_view column) const { return cell(column).integer; }
  const std::vector<Cell>& cells() const { return cells_; }
  const std::vector<std::string>& names() const { return names_; }

  std::string_view at(Gate gate) const;   ///< PASS, FAIL, ... of that gate
  FailPlace first_fail(Gate gate) const;  ///< of run_verdict's columns of that gate

 private:
  std::vector<std::string> names_;
  std::vector<Cell> cells_;
  std::deque<std::string> texts_;  ///< of cells_, when they are owned
};

/// What a run is told by first. The numeric verdict, for prefill and decode sum in another order
/// and differ by rounding in a healthy engine, unless the run's mode promises equal bits
/// (batch_invariant), or rounding cannot be told from a bug because nothing measures the
/// difference.
struct Headline {
  explicit Headline(const RunVerdict& run);

  Gate gate;            ///< whose verdict leads
  std::string verdict;  ///< of that gate
  std::string remark;   ///< "within rounding", "beyond rounding", ...; ""
  FailPlace fail;       ///< where that verdict first fails; rows without a partner before all

  std::string other;        ///< the verdict of the other gate
  FailPlace other_fail;     ///< where that one first fails
  std::string expectation;  ///< why the other one is no alarm: "as expected of as_designed"; ""

  Gate other_gate() const { return gate == Gate::kStrict ? Gate::kNumeric : Gate::kStrict; }
  /// Whether the other verdict says something else, or of another place.
  bool disputed() const { return other != verdict || other_fail != fail; }
  std::string text() const { return remark.empty() ? verdict : verdict + " " + remark; }
};

/// The place that leads for a prompt, or a run, of which both are known.
const FailPlace& leading_fail(Gate gate, const FailPlace& strict, const FailPlace& numeric);

/// A table for readers: columns of run_verdict around what leads, one row per run.
class HeadlineTable {
 public:
  /// `before` and `after` name columns of the verdicts that row() is given. kTable or kMarkdown.
  HeadlineTable(Output& out, Format format, std::vector<std::string> before,
                std::vector<std::string> after);
  void row(const RunVerdict& run);
  void finish() { printer_.finish(); }

 private:
  std::vector<std::string> columns() const;

  std::vector<std::string> before_, after_;
  RowPrinter printer_;
};

/// Exit status of several: the worst, 1 before 3 before 0; no verdict at all is 3.
class ExitOfVerdicts {
 public:
  explicit ExitOfVerdicts(Gate gate) : gate_(gate) {}
  void add(const RunVerdict& run);
  int status() const { return status(gate_); }

  /// Which verdict decides the status where the other one would give another; else "".
  std::string words() const;

 private:
  struct Seen {
    bool pass = false, fail = false, none = false;
  };
  int status(Gate gate) const;

  Gate gate_;
  std::array<Seen, 2> seen_ = {};
};

}  // namespace greta
