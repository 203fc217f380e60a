#include "cli/report/judged_row.h"

#include <map>
#include <stdexcept>

namespace greta {
namespace {

RunVerdict verdict_of(QueryPool& statements, const Run& run) {
  RunQuery query(statements, run.id,
                 "SELECT " + std::string(kVerdictColumns) + " FROM run_verdict WHERE run_id = ?");
  if (!query.step()) throw std::logic_error("no verdict of run " + run.name);
  return RunVerdict(query);
}

}  // namespace

JudgedRow::JudgedRow(QueryPool& statements, const Run& of)
    : run(of), verdict(verdict_of(statements, of)), head(verdict) {}

JudgedRows judged_rows(QueryPool& statements, const std::vector<Run>& runs) {
  JudgedRows rows;
  for (const Run& run : runs) rows.push_back(std::make_unique<JudgedRow>(statements, run));
  return rows;
}

std::string remark_text(const std::string& remark, const std::string& mode, const Wording& words) {
  const ReportText* text = find_report_text("remark." + remark);
  const ReportText* of_mode = find_report_text("remark." + remark + ".mode");
  if (of_mode && !mode.empty()) return words.line(*of_mode, {mode});
  return text ? words.line(*text) : remark;
}

std::string headline_text(const std::string& verdict, const std::string& remark,
                          const std::string& mode, const Wording& words) {
  return remark.empty() ? verdict : verdict + " " + remark_text(remark, mode, words);
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

}  // namespace greta
