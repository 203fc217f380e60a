#include "cli/report/table.h"

#include <string>
#include <string_view>
#include <vector>

namespace greta {
namespace {

using std::to_string;

/// Selects the columns of the table, then `more`, of every comparison of a run, as the model
/// computes them.
std::string comparisons(std::string_view more = "") {
  return "SELECT p.prompt, p.token_id, p.pos_id, p.layer, p.tensor,"
         " CASE p.status WHEN 'INCOMPARABLE' THEN 'INCOMPARABLE' ELSE p.cause END, p.root_cause" +
         std::string(more) +
         " FROM pair p WHERE p.run_id = ? AND p.status <> 'DECODE_ONLY' ORDER BY p.prompt_id, " +
         std::string(kForwardOrder) + ", p.pos_id";
}

class TableSections : public RunSection {
 public:
  TableSections(const RunSection& run, const FirstFailure* failure)
      : RunSection(run), failure_(failure) {}

  void write() {
    const RunVerdict& v = verdict_;
    section("table");
    out_.field(words_("total_pairs"), v.show("pairs"));
    out_.field(words_("pass"), v.show("pass"));
    out_.field(words_("fail"), v.show("fail"));
    out_.field(words_("missing"), v.show("missing"));
    out_.line();
    std::string result = headline(head_.verdict);
    if (failure_) {
      const std::string strict =
          within_rounding() ? result + "; " + words_("strictly") + " FAIL" : result;
      result = words_("result.text", {strict, escaped(failure_->cause), failure_->layer,
                                      in_code(failure_->tensor), in_code(failure_->prompt)});
      if (failure_->pos_id) {
        result += ", " + words_("position") + " " + to_string(*failure_->pos_id);
      }
    }
    out_.field(words_("result"), result);
    out_.line();
    failure_summary();
    detailed_results();
  }

 private:
  void failure_summary() {
    section("failure_summary", 1);
    RunQuery rows(statements_, run_.id,
                  "SELECT cause, count FROM failure_breakdown WHERE run_id = ?");
    bool any = false;
    while (rows.step()) {
      out_.line("- " + show(rows.cell(0)) + ": " + to_string(rows.integer(1)));
      any = true;
    }
    if (any) {
      out_.line();
    } else if (compared() == 0) {
      out_.paragraph({"detailed.none"});
    } else {
      out_.paragraph({"breakdown.none"});
    }
  }

  void detailed_results() {
    if (compared() > 0) {
      section("detailed", 1);
      out_.table({"PROMPT", "TOKEN_ID", "POS_ID", "LAYER", "TENSOR", "FIRST_FAIL", "ROOT_CAUSE",
                  "DETAILS"});
      RunQuery rows(statements_, run_.id,
                    comparisons(", p.status, p.class, p.rel_l2, p.details, p.measure, p.location"));
      while (rows.step()) {
        std::string details = rows.text(7);
        if (!rows.is_null(8) && rows.text(8) != "UNKNOWN") details += " " + rows.text(8);
        if (rows.cell(9).real > 0 && rows.text(7) != "NONFINITE")
          details += " rel_l2=" + distance_text(rows.cell(9).real, rows.text(11), rows.text(12),
                                                words_("distance.exact"));
        if (!rows.is_null(10)) details += ": " + rows.text(10);
        std::vector<std::string> cells;
        for (int i = 0; i < 7; i++) cells.push_back(escaped(display_text(rows.cell(i))));
        cells.push_back(escaped(details));
        out_.row(cells);
      }
      out_.line();
    }
    if (verdict_.number("decode_only") > 0) {
      out_.paragraph({"detailed.decode_only", {verdict_.show("decode_only")}});
    }
  }

  const FirstFailure* failure_;
};

}  // namespace

void write_table_sections(const RunSection& run, const FirstFailure* failure) {
  TableSections(run, failure).write();
}

void write_analysis_table(QueryPool& statements, const Run& run, const TextSink& sink) {
  sink("PROMPT\tTOKEN_ID\tPOS_ID\tLAYER\tTENSOR\tFIRST_FAIL\tROOT_CAUSE\n");
  RunQuery rows(statements, run.id, comparisons());
  while (rows.step()) {
    std::string line;
    for (int i = 0; i < rows.columns(); i++) {
      if (i > 0) line += '\t';
      if (rows.is_null(i)) continue;
      std::string cell = display_text(rows.cell(i));
      if (!cell.starts_with('"')) {
        line += cell;
        continue;
      }
      line += '"';  // RFC 4180: a reader would take a leading quote for one
      for (char c : cell) line += c == '"' ? "\"\"" : std::string(1, c);
      line += '"';
    }
    sink(line + "\n");
  }
}

}  // namespace greta
