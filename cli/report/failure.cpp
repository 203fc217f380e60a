#include "cli/report/failure.h"

#include <map>
#include <set>

#include "common/json_text.h"

namespace greta {
namespace {

using std::to_string;

/// Rows of the first failing pair that are printed; only an ambiguous one has more than two.
constexpr int64_t kMaxEvidenceRows = 4;

Value value_of(const Cell& cell) {
  switch (cell.type) {
    case Cell::Type::kNull:
      return nullptr;
    case Cell::Type::kInteger:
      return cell.integer;
    case Cell::Type::kReal:
      return cell.real;
    default:
      return std::string(cell.text);
  }
}

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
  const RunVerdict& v = verdict_;
  FirstFailure& f = failure_;
  f.prompt = v.text("prompt");
  f.tensor = v.has("tensor") ? v.text("tensor") : words_("tensor.none");
  f.cause = v.text("first_fail");
  f.layer = v.has("layer") ? to_string(v.number("layer")) : words_("not_recorded");
  if (v.has("layer")) f.layer_id = v.number("layer");
  if (v.has("pos_id")) f.pos_id = v.number("pos_id");
  RunQuery pair(db_, run_.id,
                "SELECT canonical_tensor, status, class, origin, inputs_complete, rel_l2,"
                " tolerance, details, caused_by FROM pair WHERE run_id = ?1"
                " AND prompt = ?2 AND layer IS ?3 AND tensor IS ?4 AND pos_id IS ?5"
                " AND status NOT IN ('MATCH', 'DECODE_ONLY', 'INCOMPARABLE') LIMIT 1");
  int parameter = 2;
  for (const char* key : {"prompt", "layer", "tensor", "pos_id"}) {
    pair.bind(parameter++, value_of(v.cell(key)));
  }
  f.found = pair.step();
  if (!f.found) return;
  std::string* texts[] = {&f.canonical, &f.status, &f.row_class, &f.origin};
  for (int i = 0; i < 4; i++) *texts[i] = pair.text(i);
  f.inputs_complete = pair.integer(4) != 0;
  if (!pair.is_null(5)) f.rel_l2 = pair.cell(5).real;
  if (!pair.is_null(6)) f.tolerance = pair.cell(6).real;
  f.details = pair.text(7);
  f.caused_by = pair.text(8);
}

void FailureSections::write() {
  first_failure();
  sample_evidence();
}

/// Rows of both sides at the first failure's key; bound and ready to step.
std::unique_ptr<Query> FailureSections::evidence_rows() {
  auto rows = std::make_unique<Query>(
      db_,
      "SELECT prompt AS prompt_id, phase, tensor AS point, layer, step, pos_id, seq_len,"
      " token_id, logical_tok_idx, n, hash, min, max, mean, abs_sum, nan, inf, nz_count, route,"
      " source_file, source_line, side FROM trace WHERE run_id = ?1 AND prompt = ?2 AND pos_id = ?3"
      " AND layer = ?4 AND canonical_tensor = ?5 AND side IN ('prefill', 'decode')"
      " ORDER BY side DESC, step, occurrence LIMIT ?6");
  const FirstFailure& f = failure_;
  rows->bind(1, run_.id).bind(2, f.prompt).bind(5, f.canonical).bind(6, kMaxEvidenceRows);
  rows->bind(3, value_of(f.pos_id));
  rows->bind(4, value_of(f.layer_id));
  return rows;
}

void FailureSections::first_failure() {
  const FirstFailure& f = failure_;
  section("first_failure");
  out_.field(words_("location"),
             words_("location.text", {in_code(f.tensor), f.layer, in_code(f.prompt)}));
  out_.line();
  side_table();
  out_.field(words_("root_cause"), show(verdict_.cell("root_cause")) + " - " + escaped(f.cause));
  if (!f.details.empty()) out_.field(words_("details"), escaped(f.details));
  out_.line();
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
  out_.table({words_("metric"), title("prefill", "prefill_step", "prefill"),
              title("decode", "decode_step", "decode")});
  auto add = [&](const std::string& label, const std::string& prefill, const std::string& decode) {
    out_.row({"**" + label + "**", prefill, decode});
  };
  add(words_("hash"), value("prefill", "hash"), value("decode", "hash"));
  for (const char* key : {"n", "min", "max", "mean"}) {
    if (sides["prefill"].count(key) + sides["decode"].count(key) == 0) continue;
    add(key, value("prefill", key), value("decode", key));
  }
  add(words_("match"), words_("no"), words_("no"));
  if (f.rel_l2) {
    std::string size = real_text(*f.rel_l2, "%.3g");
    if (f.tolerance) {
      size += " (" + words_("tolerance") + " " + real_text(*f.tolerance, "%.3g") + ")";
    }
    add(words_("rel_l2"), size, size);
  }
  out_.line();
}

void FailureSections::by_prompt() {
  RunQuery rows(
      db_, run_.id,
      "SELECT prompt, pos_id, layer, tensor, first_fail, first_drift_cause, first_drift_layer,"
      " first_drift_tensor, numeric_first_fail, numeric_layer, numeric_tensor, details"
      " FROM first_fail WHERE run_id = ? ORDER BY prompt_id");
  section("by_prompt", 1);
  out_.table({words_("prompt"), words_("position"), words_("layer"), words_("tensor"),
              words_("cause_of"), words_("first_drift"), words_("beyond_rounding"),
              words_("details")});
  auto place = [&](int cause) {
    if (rows.is_null(cause)) return std::string("-");
    return escaped(rows.text(cause)) + " (" + words_("layer") + " " + show(rows.cell(cause + 1)) +
           ", " + show(rows.cell(cause + 2)) + ")";
  };
  while (rows.step()) {
    out_.row({show(rows.cell(0)), show(rows.cell(1)), show(rows.cell(2)), show(rows.cell(3)),
              show(rows.cell(4)), place(5), place(8), show(rows.cell(11))});
  }
  out_.line();
}

void FailureSections::sample_evidence() {
  section("sample_evidence");
  if (verdict_.text("evidence") != "trace") {
    out_.paragraph({"sample_evidence.report"});
    return;
  }
  auto rows = evidence_rows();
  std::vector<std::string> names = rows->column_names();
  std::set<std::string> sides;
  while (rows->step()) {
    sides.insert(rows->text(21));
    out_.heading(level_ + 1, escaped(rows->text(1)) + " - " + escaped(rows->text(2)) + ", " +
                                 words_("layer") + " " + show(rows->cell(3)) + " (" +
                                 escaped(rows->text(0)) + ")");
    out_.fence("json", json_of_row(*rows, names));
  }
  if (sides.size() == 1) where_the_other_side_is(*sides.begin());
}

void FailureSections::where_the_other_side_is(const std::string& side) {
  out_.paragraph({"sample_evidence.one_side"});
  RunQuery positions(db_, run_.id,
                     "SELECT min(pos_id), max(pos_id) FROM trace WHERE run_id = ?1 AND prompt = ?2"
                     " AND layer = ?3 AND canonical_tensor = ?4 AND side = ?5");
  positions.bind(2, failure_.prompt).bind(4, failure_.canonical);
  positions.bind(3, value_of(failure_.layer_id));
  positions.bind(5, std::string(side == "prefill" ? "decode" : "prefill"));
  if (!positions.step() || positions.is_null(0)) return;
  out_.paragraph({"sample_evidence.elsewhere",
                  {to_string(positions.integer(0)), to_string(positions.integer(1))}});
}

}  // namespace greta
