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

std::string remark_text(const Headline& head, const Wording& words) {
  const ReportText* remark = find_report_text("remark." + head.remark);
  return remark ? words.line(*remark) : "";
}

std::string headline_text(const std::string& verdict, const Headline& head, const Wording& words) {
  const std::string remark = remark_text(head, words);
  return remark.empty() ? verdict : verdict + " " + remark;
}

std::string counts_text(const JudgedRows& rows) {
  std::map<std::string, int> numbers;
  for (const auto& row : rows) ++numbers[row->head.text()];
  std::string text;
  for (const auto& [verdict, n] : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(n) + " " + verdict;
  }
  return text;
}

}  // namespace greta
