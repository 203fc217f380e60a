#include "cli/warehouse/verdict.h"

#include <algorithm>
#include <stdexcept>

#include "common/utf8.h"

namespace greta {
namespace {

/// Cause of a row that has no partner: it fails both verdicts, before all values.
constexpr std::string_view kMissing = "TRACE_OFFSET";

/// Prefix of the columns of a verdict.
std::string prefix(Gate gate) {
  return gate == Gate::kVerdict ? "" : std::string(gate_name(gate)) + "_";
}

}  // namespace

RunQuery verdict_query(QueryPool& statements, int64_t run_id) {
  return RunQuery(statements, run_id,
                  "SELECT " + std::string(kVerdictColumns) + " FROM run_verdict WHERE run_id = ?");
}

std::string_view gate_name(Gate gate) {
  return gate == Gate::kStrict ? "strict" : gate == Gate::kNumeric ? "numeric" : "verdict";
}

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
  for (int i = 0; i < row.columns(); i++) {
    Cell& cell = cells_.emplace_back(row.cell(i));
    cell.text = texts_.emplace_back(cell.text);
  }
}

const Cell& RunVerdict::cell(std::string_view column) const {
  auto found = std::find(names_.begin(), names_.end(), column);
  if (found == names_.end()) throw std::logic_error("no column " + std::string(column));
  return cells_[static_cast<size_t>(found - names_.begin())];
}

std::string_view RunVerdict::at(Gate gate) const { return cell(prefix(gate) + "verdict").text; }

FailPlace RunVerdict::first_fail(Gate gate) const {
  if (gate == Gate::kNumeric && text("strict_first_fail") == kMissing) gate = Gate::kStrict;
  const std::string of = prefix(gate);
  return {.cause = text(of + "first_fail"),
          .root_cause = text(of + "root_cause"),
          .prompt = text(of + "prompt"),
          .tensor = text(of + "tensor"),
          .layer = cell(of + "layer").id(),
          .pos = cell(of + "pos_id").id()};
}

std::string with_unjudged_texts(const std::string& said, const RunVerdict& row) {
  return row.has("unjudged_texts") ? said + "; " + row.show("unjudged_texts") : said;
}

std::string rounding_text(const std::string& mode) {
  return "PASS (rounding only; bitwise equal: no" +
         (mode.empty() ? "" : ", as expected in " + utf8::printable(mode)) + ")";
}

Headline::Headline(const RunVerdict& run, Gate asked)
    : gate(asked != Gate::kVerdict         ? asked
           : run.text("gate") == "numeric" ? Gate::kNumeric
                                           : Gate::kStrict),
      verdict(run.at(asked)),
      fail(run.first_fail(asked)),
      other(run.at(other_gate())),
      other_fail(run.first_fail(other_gate())),
      mode(run.text("mode")) {
  if (gate == Gate::kStrict) {
    if (verdict == "FAIL" && other == "PASS") remark = "though within rounding";
    return;
  }
  if (other == "FAIL" && verdict == "PASS") remark = kWithinRounding;
  if (verdict == "FAIL" && fail != other_fail && run.number("rounding") > 0)
    remark = "beyond rounding";
  if (fail != other_fail && run.number("unmeasured") == 0)
    excuse = "rounding" + (mode.empty() ? "" : ", as expected in " + utf8::printable(mode));
}

std::string Headline::text() const {
  if (remark == kWithinRounding) return rounding_text(mode);
  return remark.empty() ? verdict : verdict + " " + remark;
}

std::string Headline::brief() const {
  return remark == kWithinRounding ? "PASS (rounding only)" : text();
}

void print_headlines(Query& runs, Output& out, Format format, Gate gate,
                     const std::vector<std::string>& before,
                     const std::vector<std::string>& after) {
  std::vector<std::string> names = before;
  names.insert(names.end(), {"verdict", "first_fail", "layer", "tensor", "prompt", "pos"});
  names.insert(names.end(), after.begin(), after.end());
  RowPrinter printer(out, format, names);
  while (runs.step()) {
    const RunVerdict run(runs);
    const Headline head(run, gate);
    const FailPlace& fail = head.fail;
    const std::string verdict = head.text();
    std::vector<Cell> cells;
    for (const std::string& name : before) cells.push_back(run.cell(name));
    cells.insert(cells.end(), {Cell(verdict), or_null(fail.cause), or_null(fail.layer),
                               or_null(fail.tensor), or_null(fail.prompt), or_null(fail.pos)});
    for (const std::string& name : after) cells.push_back(run.cell(name));
    printer.row(cells);
  }
  printer.finish();
}

VerdictRows::VerdictRows(Output& out, Format format, std::vector<std::string> columns)
    : printer_(out, format, [&] {
        columns.emplace_back("headline");
        return columns;
      }()) {}

void VerdictRows::row(const RunVerdict& run, const Headline& head) {
  const std::string text = head.text();
  std::vector<Cell> cells = run.cells();
  cells.emplace_back(text);
  printer_.row(cells);
}

void ExitOfVerdicts::add(std::string_view verdict) {
  const int status = exit_of_verdict(verdict);
  if (!worst_ || (*worst_ != kExitFail && status != kExitDone)) worst_ = status;
}

}  // namespace greta
