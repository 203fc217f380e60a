#include "cli/report/judged_row.h"

#include <map>
#include <stdexcept>

#include "cli/warehouse/kept.h"

namespace greta {
namespace {

RunVerdict verdict_of(QueryPool& statements, const Run& run, const std::string& kept) {
  RunQuery query(
      statements, run.id,
      "SELECT " + std::string(kVerdictColumns) + " FROM " + kept + "run_verdict WHERE run_id = ?");
  if (!query.step()) throw std::logic_error("no verdict of run " + run.name);
  RunVerdict verdict(query);
  verdict.own();
  return verdict;
}

}  // namespace

JudgedRow::JudgedRow(QueryPool& statements, const Run& of)
    : run(of),
      kept(kept_views(statements, {of})),
      verdict(verdict_of(statements, of, kept)),
      head(verdict) {}

JudgedRows judged_rows(QueryPool& statements, const std::vector<Run>& runs) {
  JudgedRows rows;
  for (const Run& run : runs) rows.push_back(std::make_unique<JudgedRow>(statements, run));
  return rows;
}

std::string remark_text(const std::string& remark, const Wording& words) {
  const ReportText* text = find_report_text("remark." + remark);
  return text ? words.line(*text) : remark;
}

std::string headline_text(const std::string& verdict, const Headline& head, const Wording& words) {
  const std::string remark = remark_text(head.remark, words);
  return remark.empty() ? verdict : verdict + " " + remark;
}

std::string counts_text(const std::map<std::string, size_t>& numbers) {
  std::string text;
  for (const auto& [verdict, n] : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(n) + " " + verdict;
  }
  return text;
}

std::string counts_text(const JudgedRows& rows, const Wording& words) {
  std::map<std::string, size_t> numbers;
  for (const auto& row : rows) ++numbers[headline_text(row->head.verdict, row->head, words)];
  return counts_text(numbers);
}

}  // namespace greta
