#include "cli/show/judged_row.h"

#include <stdexcept>

namespace greta {
namespace {

RunVerdict run_verdict_of(QueryPool& statements, const Run& run) {
  RunQuery query(statements, run.id,
                 "SELECT " + std::string(kVerdictColumns) + " FROM run_verdict WHERE run_id = ?");
  if (!query.step()) throw std::logic_error("no verdict of run " + run.name);
  return RunVerdict(query);
}

}  // namespace

JudgedRow::JudgedRow(QueryPool& statements, const Run& of)
    : run(of), verdict(run_verdict_of(statements, of)), head(verdict) {}

JudgedRows judged_rows(QueryPool& statements, const std::vector<Run>& runs) {
  JudgedRows rows;
  for (const Run& run : runs) rows.push_back(std::make_unique<JudgedRow>(statements, run));
  return rows;
}

std::string remark_text(const std::string& remark, const std::string& mode, const Wording& words) {
  const ReportText* text = find_report_text("remark." + remark);
  const ReportText* of_mode = find_report_text("remark." + remark + ".mode");
  if (of_mode && !mode.empty()) return words.line({*of_mode, {mode}}).text();
  return text ? words.line(*text).text() : remark;
}

Line headline_of(const std::string& verdict, const std::string& remark, const std::string& mode,
                 const Wording& words) {
  Line line = verdict_word(verdict, "");
  if (!remark.empty()) line += " " + remark_text(remark, mode, words);
  return line;
}

FailKind fail_kind(std::string_view verdict, std::string_view cause, Gate gate,
                   std::string_view other) {
  if (verdict != "FAIL") return FailKind::kNone;
  if (cause == "TRACE_OFFSET") return FailKind::kUnpaired;
  // nothing measures the difference: the numeric verdict is open, and the strict one leads
  const bool open = gate == Gate::kStrict && other != "PASS" && other != "FAIL";
  return open ? FailKind::kUnmeasured : FailKind::kValues;
}

FailKind fail_kind(const Headline& head) {
  return fail_kind(head.verdict, head.fail.cause, head.gate, head.other);
}

Line verdict_badge(const std::string& verdict, FailKind kind, const Wording& words) {
  switch (kind) {
    case FailKind::kValues:
      return verdict_word(verdict, "bad values");
    case FailKind::kUnmeasured:
      return verdict_word(verdict, "bad unmeasured") + " " + soft(words("fail.unmeasured"));
    case FailKind::kUnpaired:
      return verdict_word(verdict, "bad unpaired") + " " + soft(words("fail.unpaired"));
    case FailKind::kNone:
      break;
  }
  return verdict_word(verdict, verdict == "PASS" ? "good" : verdict == "FAIL" ? "bad" : "open");
}

Line verdict_badge(const Headline& head, const Wording& words) {
  Line line = verdict_badge(head.verdict, fail_kind(head), words);
  if (!head.remark.empty()) line += " " + soft(remark_text(head.remark, head.mode, words));
  return line;
}

std::string counts_text(const std::map<std::string, size_t>& numbers) {
  std::string text;
  for (const auto& [verdict, n] : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(n) + " " + verdict;
  }
  return text;
}

std::string counts_text(const JudgedRows& rows) {
  std::map<std::string, size_t> numbers;
  for (const auto& row : rows) ++numbers[row->head.verdict];
  return counts_text(numbers);
}

std::string layer_name(const std::optional<int64_t>& layer, const Wording& words) {
  if (!layer) return words("not_recorded");
  return *layer < 0 ? words("page.head") : std::to_string(*layer);
}

std::string fail_place(const FailPlace& place, const Wording& words) {
  if (place.tensor.empty()) return words("gate.nowhere");
  return words("gate.place", {place.tensor, layer_name(place.layer, words), place.prompt});
}

}  // namespace greta
