#include <map>
#include <optional>
#include <set>
#include <string>

#include "cli/show/judged_row.h"
#include "cli/show/report.h"
#include "cli/show/section.h"
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

/// Table of runs; by mode when there are several modes. Nothing for one run of one mode. Returns
/// true if there are several modes.
bool add_runs(QueryPool& statements, const std::vector<Run>& runs, const Wording& words,
              Blocks& out) {
  const JudgedRows rows = judged_rows(statements, runs_beside(statements, runs));
  std::set<std::string> modes;
  for (const auto& row : rows) modes.insert(row->verdict.text("mode"));
  modes.erase("");
  const bool compares_modes = modes.size() > 1;
  if (!compares_modes && runs.size() == 1) return false;
  std::multimap<std::string, std::vector<Line>> by_mode;
  for (const auto& row : rows) {
    const RunVerdict& v = row->verdict;
    const std::string mode = v.text("mode");
    const KvSummary kv(statements, row->run.id);
    by_mode.emplace(mode, std::vector<Line>{
                              mode.empty() ? words("not_recorded") : mode, v.text("run"),
                              strong(row->head.verdict), v.show("strict_verdict"),
                              v.show("pass") + ", " + v.show("fail") + ", " + v.show("missing"),
                              fail_text(row->head.fail, words), KvSummary::text(kv.statuses, words),
                              KvSummary::text(kv.interpretations, words)});
  }
  out.push_back(Heading{2, compares_modes ? words("by_mode") : words("runs")});
  ShownTable table{{words("mode"), words("run"), words("verdict"), words("strict_verdict"),
                    words("conflict.pairs"), words("first_failure"), words("by_mode.kv"),
                    words("by_mode.interpretation")}};
  for (auto& [mode, cells] : by_mode) table.add(std::move(cells));
  out.push_back(std::move(table));
  if (!compares_modes) return false;
  for (const std::string& mode : modes) {
    const ReportText* meaning = find_report_text("mode." + mode);
    if (!meaning) continue;
    for (const Line& line : words.each(*meaning)) out.push_back(Note{line});
  }
  return true;
}

std::string with_percent(int64_t count, int64_t total) {
  return total > 0 ? to_string(count) + " (" + percent_text(count, total) + ")" : to_string(count);
}

/// The logits of both sides, and what documents claim: of a report and of a page.
class DocumentSections : public RunSection {
 public:
  explicit DocumentSections(const RunSection& run) : RunSection(run) {}

  void lm_head() {
    RunQuery rows(
        statements_, run_.id,
        "SELECT l.prompt, l.prefill_top1, l.decode_top1, p.top1_logit, d.top1_logit, p.top2_id,"
        " d.top2_id, p.top2_logit, d.top2_logit, l.prefill_gap, l.decode_gap, l.prefill_route,"
        " l.decode_route, l.cpu_probe_agrees_prefill, l.cpu_probe_agrees_decode, l.suspect"
        " FROM lm_head_delta l JOIN prompt q ON q.run_id = l.run_id AND q.name = l.prompt"
        " LEFT JOIN tensor_name n ON n.name = l.tensor"
        " LEFT JOIN readout p ON p.run_id = l.run_id AND p.prompt_id = q.id AND p.side = 0"
        "  AND p.name_id = n.id AND p.pos_id = l.prefill_pos_id"
        " LEFT JOIN readout d ON d.run_id = l.run_id AND d.prompt_id = q.id AND d.side = 1"
        "  AND d.name_id = n.id AND d.pos_id = l.decode_pos_id"
        " WHERE l.run_id = ? GROUP BY q.id, l.tensor ORDER BY q.id");
    std::map<std::string, int64_t> suspects;
    int64_t probed = 0;
    const auto gap = [&](int column) {
      return rows.is_null(column) ? words_("not_recorded")
                                  : real_text(rows.cell(column).real, "%.4f");
    };
    // "79 (14.2), 13 (13.9)": the first two tokens with their logits
    const auto top = [&](int side) {
      const auto token = [&](int id, int logit) {
        return show(rows.cell(id)) +
               (rows.is_null(logit) ? "" : " (" + short_real(rows.cell(logit).real) + ")");
      };
      return token(1 + side, 3 + side) +
             (rows.is_null(5 + side) ? "" : ", " + token(5 + side, 7 + side));
    };
    ShownTable table{{words_("prompt"), "prefill_last top1", "decode0 top1", "gap prefill",
                      "gap decode0", words_("lm_head.routes"), words_("lm_head.cpu"),
                      words_("lm_head.suspect")}};
    while (rows.step()) {
      if (!rows.is_null(13) || !rows.is_null(14)) probed++;
      if (!rows.is_null(15)) suspects[rows.text(15)]++;
      table.add({show(rows.cell(0)), top(0), top(1), gap(9), gap(10),
                 show(rows.cell(11)) + " → " + show(rows.cell(12)),
                 yes_no(rows.cell(13)) + ", " + yes_no(rows.cell(14)),
                 rows.is_null(15) ? "-" : rows.text(15)});
    }
    const std::string prompts = to_string(table.rows.size());
    if (table.rows.empty()) return;
    section("lm_head");
    out_.push_back(std::move(table));
    say({"lm_head.text"});
    if (suspects.size() == 1) {
      say({"lm_head.named",
           {suspects.begin()->first, to_string(suspects.begin()->second), prompts}});
    } else {
      say(probed == 0        ? TextId("lm_head.no_probe")
          : suspects.empty() ? TextId("lm_head.clean")
                             : TextId("lm_head.several"));
    }
  }

  void documents() {
    // what they say takes longest of all to prepare, and most runs have no document
    const std::string of_run =
        "(SELECT r.id FROM run r, run x WHERE x.id = ?"
        "   AND (r.id = x.id OR substr(x.name, 1, length(r.name) + 1) = r.name || '/'))";
    RunQuery any(statements_, run_.id,
                 "SELECT 1 FROM (SELECT run_id FROM report UNION ALL SELECT run_id FROM"
                 " report_claim) WHERE run_id IN " +
                     of_run + " LIMIT 1");
    if (!any.step()) return;
    RunQuery rows(
        statements_, run_.id,
        "SELECT report_file, claimed, claim_line, pairs, pass, fail, missing, conflict, verdict"
        " FROM report_conflict WHERE run_id IN " +
            of_run + " ORDER BY report_file, claim_line");
    ShownTable table{{words_("conflict.document"), words_("conflict.claims"), words_("verdict"),
                      words_("conflict.pairs"), words_("conflict.conflict")}};
    while (rows.step()) {
      std::string claim = rows.is_null(1) ? words_("conflict.nothing") : rows.text(1);
      if (!rows.is_null(1) && rows.integer(2) > 0)
        claim += " (" + words_("conflict.line", {to_string(rows.integer(2))}) + ")";
      table.add({show(rows.cell(0)), claim, rows.is_null(8) ? "-" : show(rows.cell(8)),
                 to_string(rows.integer(4)) + ", " + to_string(rows.integer(5)) + ", " +
                     to_string(rows.integer(6)),
                 show(rows.cell(7))});
    }
    if (table.rows.empty()) return;
    section("conflict");
    say({"conflict.text"});
    out_.push_back(std::move(table));
  }

 private:
  std::string yes_no(const Cell& cell) const {
    if (cell.type == Cell::Type::kNull) return words_("not_recorded");
    return cell.integer ? words_("yes") : words_("not");
  }
};

class RunReport : public RunSection {
 public:
  explicit RunReport(const RunSection& run) : RunSection(run) {}

  void add(bool modes_compared) {
    std::optional<FailureSections> failing;
    if (verdict_.has("strict_first_fail")) failing.emplace(*this);
    const FirstFailure* failure = failing ? &failing->failure() : nullptr;
    header();
    VerdictSection(*this).add(failure);
    summary();
    if (compared() > 0) breakdown();
    Propagation propagation(*this);
    if (failure) {
      failing->add();
      if (has_failing_pair()) propagation.add();
      if (!within_rounding()) add_analysis(*this, *failure, propagation);
    }
    const bool kv_rows = add_kv(*this);
    add_lm_head(*this);
    add_documents(*this);
    add_recommendations(*this, {failure, propagation, kv_rows, modes_compared});
    add_analysis_table(*this);
  }

 private:
  std::string evidence_text() {
    std::string kind = verdict_.text("evidence");
    if (kind == "none") return words_("evidence.none");
    if (kind != "report") return words_("evidence.trace");
    RunQuery file(statements_, run_.id,
                  "SELECT min(l.path) FROM run_state e JOIN source_location l"
                  " ON l.source_id = e.report_source_id WHERE e.run_id = ?");
    file.step();
    return words_("evidence.report", {shown(file.text(0))});
  }

  void header() {
    std::map<std::string, std::string> stated = stated_attributes(statements_, run_);
    FactList facts;
    facts.add(words_("run"), code(run_.name));
    facts.add(words_("date"), show(verdict_.cell("date")));
    facts.add(words_("host"), shown(stated["host"]));
    facts.add(words_("run_mode"), show(verdict_.cell("mode")));
    facts.add(words_("commit"), show(verdict_.cell("commit_sha")));
    facts.add(words_("run_status"), verdict_.text("status") == "unknown"
                                        ? words_("not_recorded")
                                        : show(verdict_.cell("status")));
    facts.add(words_("evidence"), evidence_text());
    for (const AppliedWaiver& waiver : applied_waivers(statements_, run_.id))
      facts.add(words_("waived"), waiver_text(waiver, words_));
    // what the engine recorded of itself; old artifacts have none of it
    for (const char* dim : {"device", "backend", "model", "weights", "routes", "inject"}) {
      if (!stated[dim].empty()) facts.add(words_.line(*find_report_text(dim)), stated[dim]);
    }
    out_.push_back(std::move(facts));
    out_.push_back(Rule{});
  }

  void summary() {
    const RunVerdict& v = verdict_;
    section("summary");
    ShownTable table{{words_("metric"), words_("value")}};
    const int64_t pairs = v.number("pairs"), fail = v.number("fail");
    const auto add = [&](TextId label, const std::string& value) {
      table.add({strong(words_(label)), value});
    };
    const auto add_count = [&](TextId label, const char* column) {
      if (v.number(column) > 0) add(label, v.show(column));
    };
    const auto add_part = [&](TextId label, const char* column) {
      table.add({words_(label), v.show(column)});
    };
    add("total_pairs", to_string(pairs));
    add("pass", with_percent(v.number("pass"), pairs));
    add("fail", with_percent(fail, pairs));
    if (fail > 0) {
      add_part("rounding", "rounding");
      add_part("divergent", "divergent");
      if (v.number("nonfinite") > 0) add_part("nonfinite", "nonfinite");
      add_part("unmeasured", "unmeasured");
    }
    add_count("incomparable", "incomparable");
    add("missing", v.show("missing"));
    add_count("decode_only", "decode_only");
    add_count("unmet", "unmet");
    add("strict_verdict", v.show("strict_verdict"));
    add("numeric_verdict", v.show("numeric_verdict"));
    add("coverage", v.show("coverage"));
    out_.push_back(std::move(table));
  }

  void breakdown() {
    section(within_rounding() ? TextId("breakdown.within") : TextId("breakdown"));
    RunQuery rows(statements_, run_.id,
                  "SELECT cause, count FROM failure_breakdown WHERE run_id = ?");
    ShownTable table{{words_(within_rounding() ? TextId("cause_of") : TextId("cause")),
                      words_("count"), words_("percentage")}};
    while (rows.step()) {
      table.add({show(rows.cell(0)), to_string(rows.integer(1)),
                 percent_text(rows.integer(1), compared())});
    }
    if (table.rows.empty()) return say({"breakdown.none"});
    out_.push_back(std::move(table));
    say({"breakdown.of", {to_string(compared())}});
    if (numeric_leads() && !within_rounding() && verdict_.number("rounding") > 0)
      say({"breakdown.rounding", {verdict_.show("rounding")}});
  }
};

}  // namespace

std::map<std::string, std::string> stated_attributes(QueryPool& statements, const Run& run) {
  RunQuery rows(statements, run.id,
                "SELECT dim, value FROM stated_attribute WHERE run_id = ? GROUP BY dim, value"
                " ORDER BY dim, min(believed)");
  std::map<std::string, std::string> values;
  while (rows.step()) {
    std::string& text = values[rows.text(0)];
    text += (text.empty() ? "" : ", ") + rows.text(1);
  }
  return values;
}

std::string experiment_of(QueryPool& statements, const Run& run) {
  RunQuery query(statements, run.id, "SELECT experiment FROM run WHERE id = ?");
  query.step();
  return query.text(0);
}

void add_lm_head(const RunSection& run) { DocumentSections(run).lm_head(); }
void add_documents(const RunSection& run) { DocumentSections(run).documents(); }

Blocks final_report(QueryPool& statements, const std::vector<Run>& runs, const Wording& words) {
  Blocks out;
  out.push_back(Heading{1, experiment_of(statements, runs.front()) + " " + words("title")});
  const bool modes_compared = add_runs(statements, runs, words, out);
  for (const Run& run : runs) {
    if (runs.size() > 1) out.push_back(Heading{2, words("run") + " " + code(run.name)});
    const JudgedRow row(statements, run);
    RunReport(RunSection(statements, row, words, out, runs.size() > 1 ? 3 : 2)).add(modes_compared);
  }
  out.push_back(Rule{});
  for (const Line& line : words.each({"footer"})) out.push_back(Note{line});
  return out;
}

}  // namespace greta
