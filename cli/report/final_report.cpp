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
std::vector<int64_t> runs_beside(SQLite::Database& db, const std::vector<Run>& runs) {
  std::vector<int64_t> ids;
  for (const Run& run : runs) ids.push_back(run.id);
  if (runs.size() > 1) return ids;
  ids.clear();
  RunQuery query(
      db, runs.front().id,
      "SELECT r.id FROM run r JOIN run x ON x.experiment = r.experiment AND x.date IS r.date"
      " WHERE x.id = ? ORDER BY r.mode, r.id");
  while (query.step()) ids.push_back(query.integer(0));
  return ids;
}

std::string kv_summary(SQLite::Database& db, int64_t run_id, const char* column,
                       const Wording& words) {
  RunQuery query(db, run_id,
                 std::string("SELECT ") + column +
                     ", count(*) FROM kv_alignment WHERE run_id = ?"
                     " GROUP BY 1 ORDER BY 1");
  std::string text;
  while (query.step()) {
    text += (text.empty() ? "" : ", ") + to_string(query.integer(1)) + " " + query.text(0);
  }
  return text.empty() ? words("not_recorded") : text;
}

/// Table of runs; by mode when there are several modes. Nothing for one run of one mode. Returns
/// whether there are several modes.
bool write_runs(SQLite::Database& db, const std::vector<Run>& runs, const Wording& words,
                MarkdownWriter& out) {
  std::vector<int64_t> ids = runs_beside(db, runs);
  Query verdict(db,
                "SELECT " + std::string(kVerdictColumns) + " FROM run_verdict WHERE run_id = ?");
  std::multimap<std::string, std::vector<std::string>> by_mode;
  std::set<std::string> modes;
  for (int64_t id : ids) {
    verdict.bind(1, id);
    if (verdict.step()) {
      RunVerdict v(verdict);
      std::string mode = v.text("mode");
      if (!mode.empty()) modes.insert(mode);
      std::string first = "-";
      const Headline head(v);
      if (const FailPlace& fail = head.fail; !fail.cause.empty()) {
        first = escaped(fail.cause) + " (" + words("layer") + " " +
                (fail.layer ? to_string(*fail.layer) : "-") + ", " + escaped(fail.tensor) + ", " +
                escaped(fail.prompt);
        if (fail.pos) first += ", " + words("position") + " " + to_string(*fail.pos);
        first += ")";
      }
      by_mode.emplace(
          mode,
          std::vector<std::string>{
              mode.empty() ? words("not_recorded") : escaped(mode), escaped(v.text("run")),
              "**" + head.verdict + "**", v.show("verdict"),
              v.show("pass") + ", " + v.show("fail") + ", " + v.show("missing"), first,
              kv_summary(db, id, "status", words), kv_summary(db, id, "interpretation", words)});
    }
    verdict.reset();
  }
  bool compares_modes = modes.size() > 1;
  if (!compares_modes && runs.size() == 1) return false;
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

std::string experiment_of(SQLite::Database& db, const Run& run) {
  RunQuery query(db, run.id, "SELECT experiment FROM run WHERE id = ?");
  query.step();
  return query.text(0);
}

void write_final_report(SQLite::Database& db, const std::vector<Run>& runs, Language language,
                        const TextSink& sink) {
  Wording words(language);
  MarkdownWriter out(words, sink);
  out.heading(1, escaped(experiment_of(db, runs.front())) + " " + words("title"));
  bool modes_compared = write_runs(db, runs, words, out);
  for (const Run& run : runs) {
    if (runs.size() > 1) out.heading(2, words("run") + " `" + in_code(run.name) + "`");
    write_run(db, run, out, runs.size() > 1 ? 3 : 2, modes_compared);
  }
  out.line("---");
  out.line();
  out.paragraph({"footer"});
}

}  // namespace greta
