#include "cli/report/run.h"

#include <map>
#include <optional>
#include <string>

#include "cli/report/analysis.h"
#include "cli/report/failure.h"
#include "cli/report/kv.h"
#include "cli/report/propagation.h"
#include "cli/report/section.h"
#include "cli/report/table.h"
#include "cli/report/verdict_section.h"
#include "cli/report/waivers.h"

namespace greta {
namespace {

using std::to_string;

std::string with_percent(int64_t count, int64_t total) {
  return total > 0 ? to_string(count) + " (" + percent_text(count, total) + ")" : to_string(count);
}

class RunReport : public RunSection {
 public:
  explicit RunReport(const RunSection& run) : RunSection(run) {}

  void write(bool modes_compared) {
    std::optional<FailureSections> failing;
    if (verdict_.has("strict_first_fail")) failing.emplace(*this);
    const FirstFailure* failure = failing ? &failing->failure() : nullptr;
    header();
    VerdictSection(*this).write(failure);
    summary();
    if (compared() > 0) breakdown();
    Propagation propagation(*this);
    if (failure) {
      failing->write();
      if (has_failing_pair()) propagation.write();
      if (!within_rounding()) write_analysis(*this, *failure, propagation);
    }
    bool kv_rows = write_kv_sections(*this);
    lm_head();
    conflicts();
    write_recommendations(*this, {failure, propagation, kv_rows, modes_compared});
    write_table_sections(*this, failure);
  }

 private:
  std::string evidence_text() {
    std::string kind = verdict_.text("evidence");
    if (kind == "none") return words_("evidence.none");
    if (kind != "report") return words_("evidence.trace");
    RunQuery file(statements_, run_.id,
                  "SELECT min(l.path) FROM run_evidence e JOIN source_location l"
                  " ON l.source_id = e.report_source_id WHERE e.run_id = ?");
    file.step();
    return words_("evidence.report", {shown(file.text(0))});
  }

  /// Every value that a source states of the run or of a level above it; "" when there is none.
  std::string attribute(const std::string& dim) {
    RunQuery query(statements_, run_.id,
                   "SELECT value FROM stated_attribute WHERE run_id = ?1 AND dim = ?2"
                   " GROUP BY value ORDER BY min(believed)");
    query.bind(2, dim);
    std::string values;
    while (query.step()) values += (values.empty() ? "" : ", ") + query.text(0);
    return values;
  }

  void header() {
    out_.field(words_("run"), "`" + in_code(run_.name) + "`");
    out_.field(words_("date"), show(verdict_.cell("date")));
    out_.field(words_("host"), shown(attribute("host")));
    out_.field(words_("run_mode"), show(verdict_.cell("mode")));
    out_.field(words_("commit"), show(verdict_.cell("commit_sha")));
    out_.field(words_("run_status"), verdict_.text("status") == "unknown"
                                         ? words_("not_recorded")
                                         : show(verdict_.cell("status")));
    out_.field(words_("evidence"), evidence_text());
    for (const AppliedWaiver& waiver : applied_waivers(statements_, run_.id)) {
      out_.field(words_("waived"), escaped(waiver_text(waiver, words_)));
    }
    what_ran();
    out_.line();
    out_.line("---");
    out_.line();
  }

  /// What the engine recorded of itself; old artifacts have none of it.
  void what_ran() {
    struct Recorded {
      const char* dim;
      TextId label;
    };
    const Recorded all[] = {{"device", "device"},   {"backend", "backend"}, {"model", "model"},
                            {"weights", "weights"}, {"routes", "routes"},   {"inject", "inject"}};
    for (const auto& [dim, label] : all) {
      std::string value = attribute(dim);
      if (!value.empty()) out_.field(words_(label), escaped(value));
    }
  }

  void summary() {
    const RunVerdict& v = verdict_;
    section("summary");
    out_.table({words_("metric"), words_("value")});
    int64_t pairs = v.number("pairs"), fail = v.number("fail");
    auto add = [&](TextId label, const std::string& value) {
      out_.row({"**" + words_(label) + "**", value});
    };
    add("total_pairs", to_string(pairs));
    add("pass", with_percent(v.number("pass"), pairs));
    add("fail", with_percent(fail, pairs));
    if (fail > 0) {
      out_.row({words_("rounding"), v.show("rounding")});
      out_.row({words_("divergent"), v.show("divergent")});
      if (v.number("nonfinite") > 0) out_.row({words_("nonfinite"), v.show("nonfinite")});
      out_.row({words_("unmeasured"), v.show("unmeasured")});
    }
    if (v.number("incomparable") > 0) add("incomparable", v.show("incomparable"));
    add("missing", v.show("missing"));
    if (v.number("decode_only") > 0) add("decode_only", v.show("decode_only"));
    if (v.number("unmet") > 0) add("unmet", v.show("unmet"));
    add("strict_verdict", v.show("strict_verdict"));
    add("numeric_verdict", v.show("numeric_verdict"));
    add("coverage", v.show("coverage"));
    out_.line();
  }

  void breakdown() {
    section(within_rounding() ? TextId("breakdown.within") : TextId("breakdown"));
    RunQuery rows(statements_, run_.id,
                  "SELECT cause, count FROM failure_breakdown WHERE run_id = ?");
    bool any = false;
    while (rows.step()) {
      const TextId cause = within_rounding() ? TextId("cause_of") : TextId("cause");
      if (!any) out_.table({words_(cause), words_("count"), words_("percentage")});
      any = true;
      out_.row({show(rows.cell(0)), to_string(rows.integer(1)),
                percent_text(rows.integer(1), compared())});
    }
    if (any) {
      out_.line();
      out_.paragraph({"breakdown.of", {to_string(compared())}});
      if (numeric_leads() && !within_rounding() && verdict_.number("rounding") > 0) {
        out_.paragraph({"breakdown.rounding", {verdict_.show("rounding")}});
      }
    } else {
      out_.paragraph({"breakdown.none"});
    }
  }

  std::string yes_no(const Cell& cell) const {
    if (cell.type == Cell::Type::kNull) return words_("not_recorded");
    return cell.integer ? words_("yes") : words_("not");
  }

  void lm_head() {
    RunQuery rows(
        statements_, run_.id,
        "SELECT prompt, prefill_top1, decode_top1, prefill_gap, decode_gap, prefill_route,"
        " decode_route, cpu_probe_agrees_prefill, cpu_probe_agrees_decode, suspect, prefill_pos_id,"
        " decode_pos_id FROM lm_head_delta WHERE run_id = ?");
    std::map<std::string, int64_t> suspects;
    int64_t prompts = 0, probed = 0;
    auto gap = [&](int column) {
      return rows.is_null(column) ? words_("not_recorded")
                                  : real_text(rows.cell(column).real, "%.4f");
    };
    while (rows.step()) {
      if (prompts++ == 0) {
        section("lm_head");
        out_.table({words_("prompt"), "prefill_last top1", "decode0 top1", "gap prefill",
                    "gap decode0", words_("lm_head.routes"), words_("lm_head.cpu"),
                    words_("lm_head.suspect")});
      }
      if (!rows.is_null(7) || !rows.is_null(8)) probed++;
      if (!rows.is_null(9)) suspects[rows.text(9)]++;
      out_.row({show(rows.cell(0)), show(rows.cell(1)), show(rows.cell(2)), gap(3), gap(4),
                show(rows.cell(5)) + " → " + show(rows.cell(6)),
                yes_no(rows.cell(7)) + ", " + yes_no(rows.cell(8)),
                rows.is_null(9) ? "-" : escaped(rows.text(9))});
    }
    if (prompts == 0) return;
    out_.line();
    out_.paragraph({"lm_head.text"});
    if (probed == 0) {
      out_.paragraph({"lm_head.no_probe"});
    } else if (suspects.empty()) {
      out_.paragraph({"lm_head.clean"});
    } else if (suspects.size() > 1) {
      out_.paragraph({"lm_head.several"});
    } else {
      out_.paragraph({"lm_head.named",
                      {in_code(suspects.begin()->first), to_string(suspects.begin()->second),
                       to_string(prompts)}});
    }
  }

  void conflicts() {
    // what they say takes longest of all to prepare, and most runs have no document
    const std::string of_run =
        "(SELECT r.id FROM run r, run x WHERE x.id = ?"
        "   AND (r.id = x.id OR substr(x.name, 1, length(r.name) + 1) = r.name || '/'))";
    RunQuery documents(
        statements_, run_.id,
        "SELECT 1 FROM (SELECT run_id FROM report UNION ALL SELECT run_id FROM report_claim)"
        " WHERE run_id IN " +
            of_run + " LIMIT 1");
    if (!documents.step()) return;
    RunQuery rows(
        statements_, run_.id,
        "SELECT report_file, claimed, claim_line, pairs, pass, fail, missing, conflict, verdict"
        " FROM report_conflict WHERE run_id IN " +
            of_run + " ORDER BY report_file");
    bool any = false;
    while (rows.step()) {
      if (!any) {
        section("conflict");
        out_.paragraph({"conflict.text"});
        out_.table({words_("conflict.document"), words_("conflict.claims"), words_("verdict"),
                    words_("conflict.pairs"), words_("conflict.conflict")});
      }
      any = true;
      std::string claim = rows.is_null(1) ? words_("conflict.nothing") : escaped(rows.text(1));
      if (!rows.is_null(1) && rows.integer(2) > 0) {
        claim += " (" + words_("conflict.line", {to_string(rows.integer(2))}) + ")";
      }
      out_.row({show(rows.cell(0)), claim, rows.is_null(8) ? "-" : show(rows.cell(8)),
                to_string(rows.integer(4)) + ", " + to_string(rows.integer(5)) + ", " +
                    to_string(rows.integer(6)),
                show(rows.cell(7))});
    }
    if (any) out_.line();
  }
};

}  // namespace

void write_run(QueryPool& statements, const JudgedRow& row, MarkdownWriter& out, int level,
               bool modes_compared) {
  RunReport(RunSection(statements, row, out, level)).write(modes_compared);
}

}  // namespace greta
