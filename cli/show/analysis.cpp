#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/show/report.h"
#include "cli/show/section.h"
#include "common/shell_word.h"

namespace greta {
namespace {

using std::to_string;

class Analysis : public RunSection {
 public:
  Analysis(const RunSection& run, const FirstFailure& failure, const Propagation& propagation)
      : RunSection(run), failure_(failure), propagation_(propagation) {}

  void add() {
    const FirstFailure& f = failure_;
    const RunVerdict& v = verdict_;
    std::vector<Sentence> items;
    items.push_back({!behind_rounding() ? TextId("analysis.first")
                     : f.is_open()      ? TextId("analysis.numeric_open")
                                        : TextId("analysis.numeric_first"),
                     {f.tensor, f.layer, f.prompt, f.cause, show(f.pos_id)}});
    if (!f.is_open()) {
      const ReportText* meaning = find_report_text("analysis." + f.root_cause);
      const bool known = !f.root_cause.empty() && meaning;
      items.push_back(known ? Sentence(*meaning) : Sentence("analysis.other"));
      if (const ReportText* stage = find_report_text("stage." + stage_of(f))) {
        items.push_back(*stage);
      }
    }
    add_origin(items);
    add_magnitude(items);
    if (v.number("missing") > 0) add_drift_behind(items);
    if (has_failing_pair()) add_spread(items);
    add_numeric(items);
    section("analysis");
    list(items);
  }

 private:
  /// The verdict that leads passes over rounding before this.
  bool behind_rounding() const { return numeric_leads() && head_.disputed(); }

  /// The cause, where RoPE is to blame because what it turned matches but for rounding.
  std::string stage_of(const FirstFailure& f) const {
    const bool turned = numeric_leads() && f.inputs_complete && f.origin.kind == "ORIGIN";
    if (turned && f.cause == "Q_POST_ROPE_DRIFT") return "ROPE_DRIFT";
    if (turned && f.cause == "K_POST_ROPE_DRIFT") return "K_ROPE_DRIFT";
    return f.cause;
  }

  void add_origin(std::vector<Sentence>& items) const {
    const FirstFailure& f = failure_;
    const Origin& o = f.origin;
    if (o.kind == "ORIGIN") {
      items.push_back(numeric_leads() ? TextId("analysis.origin_numeric")
                                      : TextId("analysis.origin"));
      if (!o.segment.empty()) items.push_back({"analysis.segment", {o.segment}});
    } else if (o.kind == "PROPAGATED") {
      items.push_back({"analysis.propagated", {f.caused_by}});
    } else if (o.kind == "UNSAMPLED") {
      items.push_back(o.segment.empty() ? Sentence("analysis.unsampled")
                                        : Sentence("analysis.open", {o.segment}));
    }
  }

  void add_magnitude(std::vector<Sentence>& items) const {
    const FirstFailure& f = failure_;
    std::string size = f.rel_l2 ? f.distance : words_("not_recorded");
    std::string tolerance = f.tolerance ? real_text(*f.tolerance, "%.3g") : words_("not_recorded");
    if (f.status == "NONFINITE") items.push_back({"analysis.nonfinite", {f.details}});
    if (f.row_class == "ROUNDING") items.push_back({"analysis.rounding", {size, tolerance}});
    if (f.row_class == "DIVERGENT") items.push_back({"analysis.divergent", {size, tolerance}});
    if (f.row_class == "UNKNOWN") items.push_back({"analysis.unmeasured"});
  }

  /// Missing rows come first in the verdict; what differs all the same is not hidden by them.
  void add_drift_behind(std::vector<Sentence>& items) {
    RunQuery drift(statements_, run_.id,
                   "SELECT first_drift_tensor, first_drift_layer, prompt, first_drift_cause FROM"
                   " first_fail WHERE run_id = ? AND first_drift_cause IS NOT NULL"
                   " ORDER BY prompt_id LIMIT 1");
    if (!drift.step()) return;
    items.push_back({"analysis.drift_behind",
                     {drift.text(0), show(drift.cell(1)), drift.text(2), drift.text(3)}});
  }

  void add_spread(std::vector<Sentence>& items) const {
    const Propagation::Spread& s = propagation_.spread();
    items.push_back(
        {numeric_leads() ? TextId("analysis.spread_numeric") : TextId("analysis.spread"),
         {to_string(s.origins + s.propagated + s.unsampled), to_string(s.origins),
          to_string(s.propagated), to_string(s.unsampled)}});
  }

  /// The numeric verdict where the strict one leads.
  void add_numeric(std::vector<Sentence>& items) const {
    if (numeric_leads()) return;
    if (head_.other == "PASS") items.push_back({"analysis.numeric_pass"});
    const FailPlace& f = head_.other_fail;
    if (f.cause.empty() || f == head_.fail) return;
    items.push_back({"analysis.numeric_first",
                     {show_tensor(f), show(f.layer), f.prompt, f.cause, show(f.pos)}});
  }

  const FirstFailure& failure_;
  const Propagation& propagation_;
};

class Recommendations : public RunSection {
 public:
  Recommendations(const RunSection& run, const Findings& findings)
      : RunSection(run), findings_(findings) {}

  void add() {
    std::vector<Sentence> items;
    const RunVerdict& v = verdict_;
    const FirstFailure* failure = findings_.failure;
    const bool beyond = v.has("numeric_first_fail");
    if (failure && !within_rounding()) {
      const FailPlace numeric = v.first_fail(Gate::kNumeric);
      if (beyond && numeric != v.first_fail(Gate::kStrict)) {
        items.push_back({"advice.numeric_first", {show_tensor(numeric), show(numeric.layer)}});
      }
      if (failure->is_open()) {
        items.push_back({"advice.probe", {failure->origin.probe()}});
      }
      add_inputs_to_trace(items, *failure);
      if (v.number("unmeasured") > 0 && !beyond) items.push_back({"advice.measure"});
    }
    if (head_.verdict == "FAIL" && v.text("numeric_verdict") == "PASS") {
      items.push_back({"advice.all_rounding"});
    }
    const bool names_no_stage = failure && failure->is_open() && !within_rounding();
    if (!names_no_stage) add_topic(items, advice_topic());
    if (head_.fail.root_cause == "NORMALIZATION_MISMATCH" && !beyond) {
      items.push_back({"advice.one_order"});
    }
    if (head_.fail.root_cause == "ATTENTION_COMPUTATION_MISMATCH") {
      if (!findings_.kv_rows) items.push_back({"advice.trace_kv"});
      if (!findings_.modes_compared) items.push_back({"advice.both_modes"});
    }
    section("advice");
    list(items);
  }

 private:
  /// advice.TOPIC.N: by the stage that a cause names, else by root cause; without a failure, by
  /// verdict.
  std::string advice_topic() const {
    static const std::map<std::string, std::string, std::less<>> kStages = {
        {"Q_PRE_ROPE_DRIFT", "PROJECTION"}, {"K_PRE_ROPE_DRIFT", "PROJECTION"},
        {"V_PROJ_DRIFT", "PROJECTION"},     {"ROPE_DRIFT", "ROPE"},
        {"K_ROPE_DRIFT", "ROPE"},           {"Q_POST_ROPE_DRIFT", "ROPE"},
        {"K_POST_ROPE_DRIFT", "ROPE"},      {"K_CACHE_DRIFT", "CACHE"},
        {"V_CACHE_DRIFT", "CACHE"},         {"K_CACHE_ROWS_DRIFT", "CACHE"},
        {"V_CACHE_ROWS_DRIFT", "CACHE"},    {"ATTN_SCORES_DRIFT", "SOFTMAX"},
        {"ATTN_PROBS_DRIFT", "SOFTMAX"}};
    if (head_.verdict != "FAIL") return head_.verdict;
    auto stage = kStages.find(head_.fail.cause);
    std::string topic = stage == kStages.end() ? head_.fail.root_cause : stage->second;
    return find_report_text("advice." + topic + ".1") ? topic : "other";
  }

  void add_topic(std::vector<Sentence>& items, const std::string& topic) const {
    for (int i = 1;; i++) {
      const ReportText* text = find_report_text("advice." + topic + "." + to_string(i));
      if (!text) return;
      items.push_back({*text, {shell_word(run_.name)}});
    }
  }

  /// The inputs that were not traced, where that leaves the origin open.
  void add_inputs_to_trace(std::vector<Sentence>& items, const FirstFailure& f) {
    if (!f.found || f.inputs_complete || f.origin.kind.empty()) return;
    if (!f.origin.untraced_layers.empty()) return;  // whole layers are, and the probe names them
    Query inputs(
        statements_,
        "SELECT i.name, CASE g.layer WHEN 'same' THEN ?2 ELSE ?2 - 1 END FROM edge g"
        " JOIN tensor i ON i.id = g.from_id JOIN tensor o ON o.id = g.to_id"
        " WHERE o.name = ?1 AND g.kind NOT IN ('weight', 'state') AND (g.layer = 'same' OR ?2 > 0)"
        " ORDER BY i.id");
    inputs.bind(1, f.canonical).bind(2, value_of(f.layer_id));
    Line names;
    while (inputs.step()) {
      bool traced = findings_.propagation.traced(f.prompt, inputs.text(0), inputs.integer(1));
      if (!traced) names += (names.empty() ? Line() : Line(", ")) + code(inputs.text(0));
    }
    if (names.empty()) return;
    items.push_back({"advice.trace_inputs", {f.tensor, f.layer, names}});
  }

  const Findings& findings_;
};

}  // namespace

void add_analysis(const RunSection& run, const FirstFailure& failure,
                  const Propagation& propagation) {
  Analysis(run, failure, propagation).add();
}

void add_recommendations(const RunSection& run, const Findings& findings) {
  Recommendations(run, findings).add();
}

// ---- The analysis table.
namespace {

/// Selects the columns of the table, then `more`, of every comparison of a run, as the model
/// computes them.
std::string comparisons(std::string_view more = "") {
  return "SELECT p.prompt, p.token_id, p.pos_id, p.layer, p.tensor,"
         " CASE p.status WHEN 'INCOMPARABLE' THEN 'INCOMPARABLE' ELSE p.cause END, p.root_cause" +
         std::string(more) +
         " FROM pair p WHERE p.run_id = ? AND p.status <> 'DECODE_ONLY' ORDER BY p.prompt_id, " +
         std::string(kForwardOrder) + ", p.pos_id";
}

class AnalysisTable : public RunSection {
 public:
  explicit AnalysisTable(const RunSection& run) : RunSection(run) {}

  void add() {
    section("table");
    if (compared() == 0) say({"detailed.none"});
    if (compared() > 0) {
      ShownTable table{{"PROMPT", "TOKEN_ID", "POS_ID", "LAYER", "TENSOR", "FIRST_FAIL",
                        "ROOT_CAUSE", "DETAILS"}};
      auto rows = std::make_shared<RunQuery>(
          statements_, run_.id,
          comparisons(", p.status, p.class, p.rel_l2, p.details, p.measure, p.location"));
      // a run may have millions of them
      table.more = [rows, exact = words_("measure.exact")](ShownRow& row) {
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
};

}  // namespace

void add_analysis_table(const RunSection& run) { AnalysisTable(run).add(); }

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
