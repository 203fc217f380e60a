#include <map>
#include <set>

#include "cli/show/judged_row.h"
#include "cli/show/section.h"
#include "common/json_text.h"

namespace greta {
namespace {

using std::to_string;

/// Rows of the first failing pair that are printed; only an ambiguous one has more than two.
constexpr int64_t kMaxEvidenceRows = 4;

/// The row as a tool would have written it, without what it does not have.
std::string json_of_row(const Query& row, const std::vector<std::string>& names) {
  std::string text = "{\n  \"event\": \"stage_trace\"";
  for (int i = 0; i + 1 < row.columns(); i++) {  // the last column is the side
    if (row.is_null(i)) continue;
    const std::string& name = names[static_cast<size_t>(i)];
    text += ",\n  \"" + name + "\": ";
    if (name == "hash") {
      text += row.text(i);  // unsigned: greater than a signed cell can hold
    } else {
      append_json(text, row.cell(i));
    }
  }
  return text + "\n}\n";
}

}  // namespace

FailureSections::FailureSections(const RunSection& run) : RunSection(run) {
  const bool leads = !head_.fail.cause.empty();
  const FailPlace& place = leads ? head_.fail : head_.other_fail;
  const Gate gate = leads ? head_.gate : head_.other_gate();
  FirstFailure& f = failure_;
  f.prompt = place.prompt;
  f.tensor = place.tensor.empty() ? words_("tensor.none") : place.tensor;
  f.cause = place.cause;
  f.root_cause = place.root_cause;
  f.layer = show(place.layer);
  f.layer_id = place.layer;
  f.pos_id = place.pos;
  RunQuery pair(
      statements_, run_.id,
      "SELECT canonical_tensor, status, class, " +
          std::string(gate == Gate::kNumeric ? "numeric_origin" : "origin") +
          ", inputs_complete, rel_l2, tolerance, details, caused_by, segment,"
          " untraced_layers, measure, location, tolerance_source FROM pair WHERE run_id = ?1"
          " AND prompt = ?2 AND layer IS ?3 AND tensor IS ?4 AND pos_id IS ?5"
          " AND status NOT IN ('MATCH', 'DECODE_ONLY', 'INCOMPARABLE') LIMIT 1");
  pair.bind(2, place.prompt).bind(3, value_of(place.layer)).bind(5, value_of(place.pos));
  pair.bind(4, place.tensor.empty() ? Value(nullptr) : Value(place.tensor));
  f.found = pair.step();
  if (!f.found) return;
  std::string* texts[] = {&f.canonical, &f.status, &f.row_class, &f.origin.kind};
  for (int i = 0; i < 4; i++) *texts[i] = pair.text(i);
  f.inputs_complete = pair.integer(4) != 0;
  // of what is not finite it measures no more than the rest
  if (!pair.is_null(5) && f.status != "NONFINITE") {
    f.rel_l2 = pair.cell(5).real;
    f.distance = distance_text(*f.rel_l2, pair.text(11), pair.text(12), words_("measure.exact"));
  }
  f.tolerance = pair.cell(6).number();
  f.details = pair.text(7);
  f.caused_by = pair.text(8);
  f.origin.segment = pair.text(9);
  f.origin.untraced_layers = pair.text(10);
  f.is_calibrated = pair.text(13) == "calibrated";
}

void FailureSections::add() {
  first_failure();
  sample_evidence();
}

/// Rows of both sides at the first failure's key; bound and ready to step.
std::unique_ptr<Query> FailureSections::evidence_rows() {
  auto rows = std::make_unique<RunQuery>(
      statements_, run_.id,
      "SELECT prompt AS prompt_id, phase, tensor AS point, layer, step, pos_id, seq_len,"
      " token_id, logical_tok_idx, n, hash, min, max, mean, abs_sum, nan, inf, nz_count, route,"
      " source_file, source_line, side FROM trace WHERE run_id = ?1 AND prompt = ?2 AND pos_id = ?3"
      " AND layer = ?4 AND canonical_tensor = ?5 AND side IN ('prefill', 'decode')"
      " ORDER BY side DESC, step, occurrence LIMIT ?6");
  const FirstFailure& f = failure_;
  rows->bind(2, f.prompt).bind(5, f.canonical).bind(6, kMaxEvidenceRows);
  rows->bind(3, value_of(f.pos_id));
  rows->bind(4, value_of(f.layer_id));
  return rows;
}

void FailureSections::first_failure() {
  const FirstFailure& f = failure_;
  section(within_rounding() ? TextId("first_difference") : TextId("first_failure"));
  Line location = words_.line("location.text", {f.tensor, f.layer, f.prompt});
  if (f.pos_id) location += ", " + words_("position") + " " + to_string(*f.pos_id);
  FactList where, why;
  where.add(words_("location"), location);
  out_.push_back(where);
  side_table();
  if (!within_rounding()) {
    std::string root = shown(f.root_cause);
    if (f.is_open()) root = words_("root_cause.open", {root});
    why.add(words_("root_cause"), root + " - " + f.cause);
  }
  if (!f.details.empty()) why.add(words_("details"), f.details);
  if (!numeric_leads() || verdict_.has("numeric_first_fail")) {
    for (const PairFinding& one : pair_findings(statements_, run_.id, f.tensor, f.layer_id))
      why.add(words_("looks_like"), one.name + " - " + one.evidence(words_));
  }
  if (!why.items.empty()) out_.push_back(why);
  by_prompt();
}

void FailureSections::side_table() {
  const FirstFailure& f = failure_;
  std::map<std::string, std::map<std::string, std::string>> sides;  // side -> column -> value
  auto rows = evidence_rows();
  std::vector<std::string> names = rows->column_names();
  while (rows->step()) {
    auto& columns = sides[rows->text(21)];
    if (!columns.empty()) continue;
    for (int i = 0; i < rows->columns(); i++) {
      if (!rows->is_null(i)) columns[names[static_cast<size_t>(i)]] = display_text(rows->cell(i));
    }
  }
  bool trace = verdict_.text("evidence") == "trace";
  auto value = [&](const char* side, const char* column) {
    if (trace && sides[side].empty()) return words_("no_partner");
    return shown(sides[side][column]);
  };
  auto title = [&](const char* side, TextId with_step, TextId without) {
    auto step = sides[side].find("step");
    return step == sides[side].end() ? words_(without) : words_(with_step, {step->second});
  };
  ShownTable table{{words_("metric"), title("prefill", "prefill_step", "prefill"),
                    title("decode", "decode_step", "decode")}};
  auto add = [&](const std::string& label, const std::string& prefill, const std::string& decode) {
    table.add({strong(label), prefill, decode});
  };
  add(words_("hash"), value("prefill", "hash"), value("decode", "hash"));
  for (const char* key : {"n", "min", "max", "mean"}) {
    if (sides["prefill"].count(key) + sides["decode"].count(key) == 0) continue;
    add(key, value("prefill", key), value("decode", key));
  }
  add(words_("match"), words_("no"), words_("no"));
  if (f.rel_l2) {
    std::string size = f.distance;
    if (f.tolerance) {
      size += " (" + words_("tolerance") + " " + real_text(*f.tolerance, "%.3g") + ", " +
              (f.is_calibrated ? words_("tolerance.calibrated") : words_("tolerance.shipped")) +
              ")";
    }
    add(words_("rel_l2"), size, size);
  }
  out_.push_back(std::move(table));
}

void FailureSections::by_prompt() {
  const bool numeric = numeric_leads() && !within_rounding();
  RunQuery rows(statements_, run_.id,
                "SELECT v.item, v.first_fail, v.layer, v.tensor, v.pos_id, v.strict_first_fail,"
                " v.strict_layer, v.strict_tensor, v.strict_pos_id, v.first_drift_cause,"
                " v.first_drift_layer, v.first_drift_tensor, v.numeric_first_fail, v.numeric_layer,"
                " v.numeric_tensor, v.numeric_pos_id, v.details"
                " FROM verdict v JOIN prompt q ON q.run_id = v.run_id AND q.name = v.item"
                " WHERE v.run_id = ? AND v.level = 'prompt' AND v.strict_first_fail IS NOT NULL"
                " ORDER BY v.item IS (SELECT w.prompt FROM verdict w WHERE w.run_id = v.run_id"
                " AND w.level = 'run' AND w.item = '') DESC, q.id");
  auto place = [&](int cause, bool has_pos = true) {
    return FailPlace{.cause = rows.text(cause),
                     .root_cause = "",
                     .prompt = rows.text(0),
                     .tensor = rows.text(cause + 2),
                     .layer = rows.cell(cause + 1).id(),
                     .pos = has_pos ? rows.cell(cause + 3).id() : std::nullopt};
  };
  auto text = [&](FailPlace at) {
    at.prompt.clear();  // which a column names
    return fail_text(at, words_);
  };
  section("by_prompt", 1);
  ShownTable table{{words_("prompt"), words_("position"), words_("layer"), words_("tensor"),
                    words_("cause_of")}};
  if (numeric) {
    table.columns.emplace_back(words_("strict_first"));
  } else {
    table.columns.emplace_back(words_("first_drift"));
    table.columns.emplace_back(words_("beyond_rounding"));
  }
  table.columns.emplace_back(words_("details"));
  while (rows.step()) {
    const FailPlace strict = place(5), first = numeric ? place(1) : strict;
    const bool fails = !first.cause.empty();
    std::vector<Line> cells = {show(rows.cell(0)), show(first.pos), show(first.layer),
                               fails ? show_tensor(first) : "-", fails ? first.cause : "-"};
    if (numeric) {
      cells.emplace_back(first == strict ? "-" : text(strict));
    } else {
      cells.emplace_back(text(place(9, false)));
      cells.emplace_back(text(place(12)));
    }
    cells.emplace_back(rows.is_null(16) ? "-" : show(rows.cell(16)));
    table.add(std::move(cells));
  }
  out_.push_back(std::move(table));
}

void FailureSections::sample_evidence() {
  section("sample_evidence");
  if (verdict_.text("evidence") != "trace") return say({"sample_evidence.report"});
  auto rows = evidence_rows();
  std::vector<std::string> names = rows->column_names();
  std::set<std::string> sides;
  while (rows->step()) {
    sides.insert(rows->text(21));
    out_.push_back(Heading{level_ + 1, rows->text(1) + " - " + rows->text(2) + ", " +
                                           words_("layer") + " " + show(rows->cell(3)) + " (" +
                                           rows->text(0) + ")"});
    out_.push_back(Code{json_of_row(*rows, names), "json"});
  }
  if (sides.size() == 1) where_the_other_side_is(*sides.begin());
}

void FailureSections::where_the_other_side_is(const std::string& side) {
  say({"sample_evidence.one_side"});
  RunQuery positions(statements_, run_.id,
                     "SELECT min(pos_id), max(pos_id) FROM trace WHERE run_id = ?1 AND prompt = ?2"
                     " AND layer = ?3 AND canonical_tensor = ?4 AND side = ?5");
  positions.bind(2, failure_.prompt).bind(4, failure_.canonical);
  positions.bind(3, value_of(failure_.layer_id));
  positions.bind(5, std::string(side == "prefill" ? "decode" : "prefill"));
  if (!positions.step() || positions.is_null(0)) return;
  say({"sample_evidence.elsewhere",
       {to_string(positions.integer(0)), to_string(positions.integer(1))}});
}

// ---- The verdict and why it is that.

void VerdictSection::add(const FirstFailure* failure) {
  Line text = headline_of(head_.verdict, head_.remark, head_.mode, words_);
  const bool open = failure && failure->is_open();
  if (!head_.fail.root_cause.empty() && !open)
    text += " + ROOT_CAUSE: " + strong(head_.fail.root_cause);
  out_.push_back(Heading{level_, words_("verdict"), text});
  lead(failure);
  remarks();
}

void VerdictSection::lead(const FirstFailure* failure) {
  say(reason());
  if (failure && failure->is_open() && !head_.fail.cause.empty())
    say({"reason.open", {failure->tensor, failure->layer, failure->origin.probe()}});
}

void VerdictSection::remarks() {
  if (numeric_leads() && head_.disputed()) strictly();
  if (compared() == 0) return;
  const ReportText* coverage = find_report_text("coverage." + verdict_.text("coverage"));
  say(coverage ? Sentence(*coverage) : Sentence("coverage.undeclared"));
}

/// The strict verdict, where rounding makes the difference.
void VerdictSection::strictly() {
  const FailPlace& f = head_.other_fail;
  const std::string mode = verdict_.text("mode");
  const bool rounding = verdict_.number("unmeasured") == 0;
  say({!rounding                 ? TextId("strictly.fails")
       : head_.verdict == "FAIL" ? TextId("strictly.before")
       : mode.empty()            ? TextId("strictly.rounding")
                                 : TextId("strictly.expected"),
       {show_tensor(f), show(f.layer), f.prompt, show(f.pos), mode}});
}

Sentence VerdictSection::reason() const {
  const RunVerdict& v = verdict_;
  const std::string& name = head_.verdict;
  if (within_rounding()) return {"reason.within", {v.show("pairs"), v.show("rounding")}};
  if (name == "FAIL" && numeric_leads() && v.number("missing") == 0 && v.number("rounding") > 0) {
    return {"reason.beyond",
            {to_string(v.number("fail") - v.number("rounding") - v.number("unmeasured")),
             v.show("pairs"), v.show("rounding")}};
  }
  if (name == "PASS") return {"reason.pass", {v.show("pairs")}};
  if (name == "FAIL" && v.number("missing") > 0) {
    return {v.number("pairs") == 0 ? TextId("reason.unpaired") : TextId("reason.fail_missing"),
            {v.show("missing")}};
  }
  if (name == "FAIL" && v.number("unmeasured") > 0 && v.number("unmeasured") == v.number("fail")) {
    return {"reason.unmeasured", {v.show("fail"), v.show("pairs")}};
  }
  if (name == "FAIL") return {"reason.fail", {v.show("fail"), v.show("pairs")}};
  if (name == "INCOMPLETE" && v.number("unmet") > 0) return {"reason.unmet", {v.show("unmet")}};
  if (name == "INCOMPLETE" && v.number("ingest_open") > 0) return {"reason.ingest_open"};
  if (name == "INCOMPLETE" && v.number("rejected") > 0)
    return {"reason.rejected", {v.show("rejected"), v.show("rejected_why")}};
  if (name == "INCOMPLETE") return {"reason.unfinished", {v.show("status")}};
  if (name == "NO_EVIDENCE" && v.number("claimed") > 0)
    return {"reason.claimed", {v.show("claimed")}};
  if (name == "INCOMPARABLE" && v.number("incomparable") == 0) return {"reason.doubt"};
  if (name == "INCOMPARABLE")
    return {"reason.incomparable", {v.show("incomparable"), v.show("pairs")}};
  if (v.text("evidence") == "none") return {"reason.none"};
  if (v.number("decode_only") > 0) return {"reason.decode_only", {v.show("decode_only")}};
  return {"reason.one_side"};
}

}  // namespace greta
