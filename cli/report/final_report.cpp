#include "cli/report/final_report.h"

#include <map>
#include <set>
#include <string>

#include "cli/report/run.h"
#include "cli/report/section.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"

namespace greta {
namespace {

using std::to_string;

/// The runs to compare: those named or, of one alone, the runs of its experiment on its date.
std::vector<Run> runs_beside(QueryPool& statements, const std::vector<Run>& runs) {
  if (runs.size() > 1) return runs;
  std::vector<Run> beside;
  RunQuery query(
      statements, runs.front().id,
      "SELECT r.id, r.name FROM run r JOIN run x ON x.experiment = r.experiment AND x.date IS "
      "r.date"
      " WHERE x.id = ? AND NOT EXISTS (SELECT 1 FROM directory_level l WHERE l.run_id = r.id)"
      " ORDER BY r.mode, r.id");
  while (query.step()) beside.push_back({query.integer(0), query.text(1)});
  return beside;
}

/// How many rows of kv_alignment are of which status, and which interpretation, in words.
struct KvSummary {
  KvSummary(QueryPool& statements, int64_t run_id) {
    RunQuery query(statements, run_id,
                   "SELECT status, interpretation, count(*) FROM kv_alignment WHERE run_id = ?"
                   " GROUP BY 1, 2");
    while (query.step()) {
      statuses[query.text(0)] += query.integer(2);
      interpretations[query.text(1)] += query.integer(2);
    }
  }

  static std::string text(const std::map<std::string, int64_t>& counts, const Wording& words) {
    std::string text;
    for (const auto& [name, n] : counts) {
      text += (text.empty() ? "" : ", ") + to_string(n) + " " + name;
    }
    return text.empty() ? words("not_recorded") : text;
  }

  std::map<std::string, int64_t> statuses, interpretations;
};

std::string first_failure(const FailPlace& fail, const Wording& words) {
  if (fail.cause.empty()) return "-";
  std::string text = escaped(fail.cause) + " (" + words("layer") + " " +
                     (fail.layer ? to_string(*fail.layer) : "-") + ", " + escaped(fail.tensor) +
                     ", " + escaped(fail.prompt);
  if (fail.pos) text += ", " + words("position") + " " + to_string(*fail.pos);
  return text + ")";
}

/// Table of runs; by mode when there are several modes. Nothing for one run of one mode. Returns
/// whether there are several modes.
bool write_runs(QueryPool& statements, const std::vector<Run>& runs, const Wording& words,
                MarkdownWriter& out) {
  const JudgedRows rows = judged_rows(statements, runs_beside(statements, runs));
  std::set<std::string> modes;
  for (const auto& row : rows) modes.insert(row->verdict.text("mode"));
  modes.erase("");
  const bool compares_modes = modes.size() > 1;
  if (!compares_modes && runs.size() == 1) return false;
  std::multimap<std::string, std::vector<std::string>> by_mode;
  for (const auto& row : rows) {
    const RunVerdict& v = row->verdict;
    const std::string mode = v.text("mode");
    const KvSummary kv(statements, row->run.id);
    by_mode.emplace(
        mode, std::vector<std::string>{
                  mode.empty() ? words("not_recorded") : escaped(mode), escaped(v.text("run")),
                  "**" + row->head.verdict + "**", v.show("strict_verdict"),
                  v.show("pass") + ", " + v.show("fail") + ", " + v.show("missing"),
                  first_failure(row->head.fail, words), KvSummary::text(kv.statuses, words),
                  KvSummary::text(kv.interpretations, words)});
  }
  out.heading(2, compares_modes ? words("by_mode") : words("runs"));
  out.table({words("mode"), words("run"), words("verdict"), words("strict_verdict"),
             words("conflict.pairs"), words("first_failure"), words("by_mode.kv"),
             words("by_mode.interpretation")});
  for (const auto& [mode, cells] : by_mode) out.row(cells);
  out.line();
  if (!compares_modes) return false;
  for (const std::string& mode : modes) {
    if (const ReportText* meaning = find_report_text("mode." + mode)) out.paragraph(*meaning);
  }
  return true;
}

}  // namespace

std::string experiment_of(QueryPool& statements, const Run& run) {
  RunQuery query(statements, run.id, "SELECT experiment FROM run WHERE id = ?");
  query.step();
  return query.text(0);
}

void write_final_report(QueryPool& statements, const std::vector<Run>& runs, Language language,
                        const TextSink& sink) {
  Wording words(language);
  MarkdownWriter out(words, sink);
  out.heading(1, escaped(experiment_of(statements, runs.front())) + " " + words("title"));
  bool modes_compared = write_runs(statements, runs, words, out);
  for (const Run& run : runs) {
    if (runs.size() > 1) out.heading(2, words("run") + " `" + in_code(run.name) + "`");
    write_run(statements, JudgedRow(statements, run), out, runs.size() > 1 ? 3 : 2, modes_compared);
  }
  out.line("---");
  out.line();
  out.paragraph({"footer"});
}

}  // namespace greta
