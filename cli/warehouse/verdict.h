#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cli/warehouse/sql_query.h"
#include "common/exit_status.h"

namespace greta {

/// Columns of run_verdict that the commands show, as a select list. numeric_origin is not among
/// them: it doubles the time that preparing the statement takes.
inline constexpr std::string_view kVerdictColumns =
    "run, experiment, mode, commit_sha, date, evidence, verdict, numeric_verdict, coverage, pairs,"
    " pass, fail, missing, decode_only, incomparable, prompt, layer, tensor, token_id, pos_id,"
    " first_fail, root_cause, numeric_first_fail, numeric_prompt, numeric_layer, numeric_tensor,"
    " rounding, divergent, unmeasured, unmet, status, prefill_only, claimed, rejected, "
    "rejected_why,"
    " ingest_open";
inline constexpr std::string_view kVerdictColumnsWithOrigin =
    "run, experiment, mode, commit_sha, date, evidence, verdict, numeric_verdict, coverage, pairs,"
    " pass, fail, missing, decode_only, incomparable, prompt, layer, tensor, token_id, pos_id,"
    " first_fail, root_cause, numeric_first_fail, numeric_prompt, numeric_layer, numeric_tensor,"
    " numeric_origin, rounding, divergent, unmeasured, unmet, status, prefill_only, claimed, "
    "rejected,"
    " rejected_why, ingest_open";

/// The row of run_verdict that a query stands on, by column name. Borrowed until the next step.
class RunVerdict {
 public:
  explicit RunVerdict(const Query& row);

  const Cell& cell(std::string_view column) const;
  bool has(std::string_view column) const { return cell(column).type != Cell::Type::kNull; }
  std::string text(std::string_view column) const { return std::string(cell(column).text); }
  std::string show(std::string_view column) const { return display_text(cell(column)); }
  int64_t number(std::string_view column) const { return cell(column).integer; }
  const std::vector<Cell>& cells() const { return cells_; }

 private:
  std::vector<std::string> names_;
  std::vector<Cell> cells_;
};

/// Which verdict the exit status follows.
enum class Gate { kStrict, kNumeric };

/// Exit status of several: the worst, 1 before 3 before 0; no verdict at all is 3.
class ExitOfVerdicts {
 public:
  explicit ExitOfVerdicts(Gate gate) : gate_(gate) {}
  void add(const RunVerdict& run);
  int status() const;

 private:
  Gate gate_;
  bool pass_ = false, fail_ = false, none_ = false;
};

}  // namespace greta
