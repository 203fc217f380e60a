#include "cli/warehouse/verdict.h"

#include <algorithm>
#include <stdexcept>

#include "common/utf8.h"

namespace greta {
namespace {

/// Cause of a row that has no partner: it fails both verdicts, before all values.
constexpr std::string_view kMissing = "TRACE_OFFSET";

constexpr size_t index(Gate gate) { return static_cast<size_t>(gate); }

Gate leading_gate(const RunVerdict& run) {
  if (run.cell("mode").text == "batch_invariant") return Gate::kStrict;
  const bool undecided = run.number("unmeasured") > 0 && run.at(Gate::kNumeric) != "FAIL";
  return undecided ? Gate::kStrict : Gate::kNumeric;
}

std::optional<int64_t> id_of(const Cell& cell) {
  if (cell.type == Cell::Type::kNull) return std::nullopt;
  return cell.integer;
}

}  // namespace

std::string_view gate_name(Gate gate) { return gate == Gate::kStrict ? "strict" : "numeric"; }

std::string place_text(const FailPlace& place) {
  std::string text;
  auto add = [&text](const std::string& part) { text += (text.empty() ? "at " : ", ") + part; };
  if (place.layer) add("layer " + std::to_string(*place.layer));
  if (!place.tensor.empty()) add(utf8::printable(place.tensor));
  if (!place.prompt.empty()) add("prompt " + utf8::printable(place.prompt));
  if (place.pos) add("pos " + std::to_string(*place.pos));
  return text;
}

std::string fail_text(const FailPlace& place) {
  const std::string where = place_text(place);
  return utf8::printable(place.cause) + (where.empty() ? "" : " " + where);
}

RunVerdict::RunVerdict(const Query& row) : names_(row.column_names()) {
  for (int i = 0; i < row.columns(); i++) cells_.push_back(row.cell(i));
}

void RunVerdict::own() {
  for (Cell& cell : cells_) cell.text = texts_.emplace_back(cell.text);
}

const Cell& RunVerdict::cell(std::string_view column) const {
  auto found = std::find(names_.begin(), names_.end(), column);
  if (found == names_.end()) throw std::logic_error("no column " + std::string(column));
  return cells_[static_cast<size_t>(found - names_.begin())];
}

std::string_view RunVerdict::at(Gate gate) const {
  return cell(gate == Gate::kNumeric ? "numeric_verdict" : "verdict").text;
}

FailPlace RunVerdict::first_fail(Gate gate) const {
  const std::string of = gate == Gate::kNumeric ? "numeric_" : "";
  return {.cause = text(of + "first_fail"),
          .root_cause = text(of + "root_cause"),
          .prompt = text(of + "prompt"),
          .tensor = text(of + "tensor"),
          .layer = id_of(cell(of + "layer")),
          .pos = id_of(cell(of + "pos_id"))};
}

const FailPlace& leading_fail(Gate gate, const FailPlace& strict, const FailPlace& numeric) {
  return gate == Gate::kStrict || strict.cause == kMissing ? strict : numeric;
}

Headline::Headline(const RunVerdict& run) : gate(leading_gate(run)) {
  const FailPlace strict = run.first_fail(Gate::kStrict), numeric = run.first_fail(Gate::kNumeric);
  verdict = run.at(gate);
  other = run.at(other_gate());
  fail = leading_fail(gate, strict, numeric);
  other_fail = leading_fail(other_gate(), strict, numeric);
  const bool only_rounding = other == "FAIL" && verdict == "PASS";
  if (gate == Gate::kNumeric) {
    if (only_rounding) remark = "within rounding";
    const bool behind_rounding = verdict == "FAIL" && fail != strict && run.number("rounding") > 0;
    if (behind_rounding) remark = "beyond rounding";
    const bool is_rounding = other_fail != fail && run.number("unmeasured") == 0;
    const std::string mode = run.text("mode");
    if (is_rounding) {
      expectation = mode.empty() ? "which is rounding"
                                 : "as expected of " + utf8::printable(mode) + ": rounding";
    }
  } else if (verdict == "FAIL" && other == "PASS") {
    remark = "though within rounding";
  }
}

HeadlineTable::HeadlineTable(Output& out, Format format, std::vector<std::string> before,
                             std::vector<std::string> after)
    : before_(std::move(before)), after_(std::move(after)), printer_(out, format, columns()) {}

std::vector<std::string> HeadlineTable::columns() const {
  std::vector<std::string> names = before_;
  names.insert(names.end(),
               {"verdict", "strict", "first_fail", "layer", "tensor", "prompt", "pos"});
  names.insert(names.end(), after_.begin(), after_.end());
  return names;
}

void HeadlineTable::row(const RunVerdict& run) {
  const Headline head(run);
  const FailPlace& fail = head.fail;
  const std::string verdict = head.text();
  std::vector<Cell> cells;
  for (const std::string& name : before_) cells.push_back(run.cell(name));
  cells.insert(cells.end(),
               {Cell(verdict), run.cell("verdict"), or_null(fail.cause), or_null(fail.layer),
                or_null(fail.tensor), or_null(fail.prompt), or_null(fail.pos)});
  for (const std::string& name : after_) cells.push_back(run.cell(name));
  printer_.row(cells);
}

void ExitOfVerdicts::add(const RunVerdict& run) {
  for (Gate gate : {Gate::kStrict, Gate::kNumeric}) {
    const int status = exit_of_verdict(run.at(gate));
    Seen& seen = seen_[index(gate)];
    (status == kExitDone ? seen.pass : status == kExitFail ? seen.fail : seen.none) = true;
  }
}

int ExitOfVerdicts::status(Gate gate) const {
  const Seen& seen = seen_[index(gate)];
  if (seen.fail) return kExitFail;
  return seen.pass && !seen.none ? kExitDone : kExitNoVerdict;
}

std::string ExitOfVerdicts::words() const {
  const Gate other = gate_ == Gate::kStrict ? Gate::kNumeric : Gate::kStrict;
  if (status(gate_) == status(other)) return "";
  return "exit status " + std::to_string(status(gate_)) + " follows the " +
         std::string(gate_name(gate_)) + " verdict; --gate " + std::string(gate_name(other)) +
         " gives " + std::to_string(status(other));
}

}  // namespace greta
