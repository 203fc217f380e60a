#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/show/report.h"
#include "cli/show/section.h"

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

  void add() {
    const RunVerdict& v = verdict_;
    section("table");
    FactList counts, result;
    counts.add(words_("total_pairs"), v.show("pairs"));
    counts.add(words_("pass"), v.show("pass"));
    counts.add(words_("fail"), v.show("fail"));
    counts.add(words_("missing"), v.show("missing"));
    Line text = head_.verdict;
    if (!head_.remark.empty()) text += " " + remark_text(head_.remark, head_.mode, words_);
    if (failure_) {
      if (within_rounding()) text += "; " + words_("strictly") + " FAIL";
      text = words_.line("result.text", {text, failure_->cause, failure_->layer, failure_->tensor,
                                         failure_->prompt});
      if (failure_->pos_id) text += ", " + words_("position") + " " + to_string(*failure_->pos_id);
    }
    result.add(words_("result"), text);
    out_.push_back(counts);
    out_.push_back(result);
    failure_summary();
    detailed_results();
  }

 private:
  void failure_summary() {
    section("failure_summary", 1);
    RunQuery rows(statements_, run_.id,
                  "SELECT cause, count FROM failure_breakdown WHERE run_id = ?");
    List causes;
    while (rows.step())
      causes.items.emplace_back(show(rows.cell(0)) + ": " + to_string(rows.integer(1)));
    if (causes.items.empty())
      return say(compared() == 0 ? TextId("detailed.none") : TextId("breakdown.none"));
    out_.push_back(std::move(causes));
  }

  void detailed_results() {
    if (compared() > 0) {
      section("detailed", 1);
      ShownTable table{{"PROMPT", "TOKEN_ID", "POS_ID", "LAYER", "TENSOR", "FIRST_FAIL",
                        "ROOT_CAUSE", "DETAILS"}};
      auto rows = std::make_shared<RunQuery>(
          statements_, run_.id,
          comparisons(", p.status, p.class, p.rel_l2, p.details, p.measure, p.location"));
      // a run may have millions of them
      table.more = [rows, exact = words_("distance.exact")](ShownRow& row) {
        if (!rows->step()) return false;
        row = {};
        for (int i = 0; i < 7; i++) row.cells.emplace_back(display_text(rows->cell(i)));
        std::string details = rows->text(7);
        if (!rows->is_null(8) && rows->text(8) != "UNKNOWN") details += " " + rows->text(8);
        if (rows->cell(9).real > 0 && rows->text(7) != "NONFINITE") {
          details +=
              " rel_l2=" + distance_text(rows->cell(9).real, rows->text(11), rows->text(12), exact);
        }
        if (!rows->is_null(10)) details += ": " + rows->text(10);
        row.cells.emplace_back(details);
        return true;
      };
      out_.push_back(std::move(table));
    }
    if (verdict_.number("decode_only") > 0)
      say({"detailed.decode_only", {verdict_.show("decode_only")}});
  }

  const FirstFailure* failure_;
};

}  // namespace

void add_analysis_table(const RunSection& run, const FirstFailure* failure) {
  TableSections(run, failure).add();
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
