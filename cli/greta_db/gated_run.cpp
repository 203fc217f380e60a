#include "cli/greta_db/gated_run.h"

#include <algorithm>

#include "common/json_text.h"
#include "common/shell_word.h"
#include "db/definitions.h"

namespace greta {
namespace {

/// Columns of the view `gate`: what SQL may add to it is none of the JSON's business.
constexpr const char* kColumns =
    "run, answer, gate, strict_answer, numeric_answer, own_verdict, own_strict_verdict,"
    " own_numeric_verdict, verdict, strict_verdict, numeric_verdict, change, baseline, why_not,"
    " waived, first_fail, root_cause, prompt, layer, tensor, pos_id, strict_first_fail,"
    " strict_root_cause, strict_prompt, strict_layer, strict_tensor, strict_pos_id,"
    " numeric_first_fail, numeric_root_cause, numeric_prompt, numeric_layer, numeric_tensor,"
    " numeric_pos_id, changed_prompt, changed_phase, changed_pos_id, changed_layer, changed_tensor,"
    " changed_rows, nonfinite_rows, rounded_rows, lost_rows, new_rows, experiment, mode, date,"
    " waived_divergent, waived_rows, waived_changed_rows, unwaived_change, incomplete_why,"
    " no_baseline_why, baseline_id, commit_sha, unjudged_texts,"
    " (SELECT v.pairs FROM run_verdict v WHERE v.run_id = gate.run_id) - waived AS pairs,"
    " (SELECT c.pairs FROM run_change c WHERE c.run_id = gate.run_id"
    "  AND c.baseline_id = gate.baseline_id AND c.level = 'run') - waived_rows AS compared_rows,"
    " (SELECT r.started_at FROM run r WHERE r.id = run_id) AS started_at,"
    " (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', coalesce(r.started_at, r.date)) FROM run r"
    "  WHERE r.id = run_id) AS timestamp,"
    " (SELECT r.commit_sha FROM run r WHERE r.id = baseline_id) AS baseline_commit_sha";

}  // namespace

GatedRun::GatedRun(QueryPool& statements, const Run& run, std::optional<int64_t> baseline,
                   Gate gate, bool needs_baseline)
    : statements_(statements), run_id_(run.id), name_(run.name), needs_baseline_(needs_baseline) {
  RunQuery query(statements, run.id,
                 "SELECT " + std::string(kColumns) + " FROM gate WHERE run_id = ?1 AND " +
                     (baseline ? "baseline_id = ?2" : "own_baseline"));
  if (baseline) query.bind(2, *baseline);
  if (!query.step()) throw UsageError(run.name + " is no run that can be judged");
  row_.emplace(query);
  gate_ = gate != Gate::kVerdict            ? gate
          : row_->text("gate") == "numeric" ? Gate::kNumeric
                                            : Gate::kStrict;
  waivers_ = applied_waivers(statements, run.id);
  if (waived_rows(Gate::kStrict) > 0) count_waived_rows(row_->number("baseline_id"));
}

/// Also those that waive nothing of the run by itself.
void GatedRun::count_waived_rows(int64_t baseline) {
  Query query(statements_,
              "SELECT w.waiver_id, w.tensor, w.layer, w.until, w.reason, w.created_by,"
              " (SELECT count(*) FROM comparison_graded s WHERE s.run_id = ?2"
              " AND s.other_run_id = w.run_id AND s.key_tensor_id = w.tensor_id"
              " AND (w.layer IS NULL OR s.key_layer = w.layer) AND s.status = 'DRIFT')"
              " FROM run_waiver w WHERE w.run_id = ?1 ORDER BY w.waiver_id");
  query.bind(1, run_id_).bind(2, baseline);
  while (query.step()) {
    const int64_t id = query.integer(0), rows = query.integer(6);
    if (rows == 0) continue;
    auto known = std::find_if(waivers_.begin(), waivers_.end(),
                              [&](const AppliedWaiver& one) { return one.id >= id; });
    if (known == waivers_.end() || known->id != id) {
      known = waivers_.insert(known, {.id = id,
                                      .tensor = query.text(1),
                                      .layer = query.cell(2).id(),
                                      .until = query.text(3),
                                      .reason = query.text(4),
                                      .created_by = query.text(5)});
    }
    known->rows = rows;
  }
}

std::string GatedRun::answer(Gate gate) const {
  std::string text = row_->text(gate == Gate::kStrict ? "strict_answer" : "numeric_answer");
  return text == "PASS" && lacks_baseline() ? "INCOMPARABLE" : text;
}

std::string GatedRun::own(Gate gate) const {
  return row_->text("own_" + std::string(gate_name(gate)) + "_verdict");
}

std::vector<std::string> GatedRun::tolerances(const Wording& words) const {
  const std::string shipped =
      "WITH shipped(tensor_id, dtype, rel_l2) AS (" + shipped_rows("tolerance") + ") ";
  Query any(statements_, shipped +
                             "SELECT 1 FROM (SELECT tensor_id, dtype, rel_l2 FROM (SELECT * "
                             "FROM tolerance EXCEPT SELECT * FROM shipped)"
                             " UNION ALL SELECT * FROM (SELECT * FROM shipped EXCEPT SELECT *"
                             " FROM tolerance)) LIMIT 1");
  std::vector<std::string> texts;
  if (!any.step()) return texts;
  const std::string of_place =
      "(SELECT s.rel_l2 FROM shipped s WHERE (s.tensor_id = t.id OR s.tensor_id IS NULL)"
      " AND (s.dtype = r.dtype OR s.dtype IS NULL)"
      " ORDER BY s.tensor_id IS NULL, s.dtype IS NULL LIMIT 1)";
  RunQuery query(
      statements_, run_id_,
      shipped + "SELECT t.name, r.dtype, o.rel_l2, " + of_place +
          " FROM (SELECT DISTINCT x.tensor_id AS id FROM trace_row x WHERE x.run_id = ?1) p"
          " JOIN tensor t ON t.id = p.id CROSS JOIN run r ON r.id = ?1"
          " CROSS JOIN run_tolerance o ON o.run_id = r.id AND o.tensor_id = t.id"
          " WHERE o.rel_l2 IS NOT " +
          of_place + " ORDER BY t.ord, t.name");
  const auto number = [&](int column) {
    return query.is_null(column) ? words("gate.tolerance.none")
                                 : shortest_real(query.cell(column).real);
  };
  while (query.step()) {
    std::string what = query.text(0);
    if (!query.is_null(1)) what = words("gate.tolerance.of", {what, query.text(1)});
    texts.push_back(words("gate.tolerance.text", {what, number(2), number(3)}));
  }
  return texts;
}

std::string GatedRun::headline() const {
  return passes_by_rounding() ? rounding_text(row_->text("mode")) : answer();
}

std::string GatedRun::own_text(const Wording& words) const {
  const std::string other = own(other_gate()), mode = row_->text("mode");
  std::string text = own(gate_);
  if (gate_ == Gate::kNumeric && text == "PASS" && other == "FAIL")
    text += " " + remark_text(kWithinRounding, mode, words);
  if (fails() && !fail().cause.empty())
    text += ": " + fail().cause + " " + words("gate.at", {place_text(fail(), words)});
  text += "; ";
  text += words(gate_ == Gate::kStrict ? TextId("gate.numeric") : TextId("gate.strict"));
  text += " " + other;
  const std::string as_it_is(row_->at(gate_));
  if (as_it_is != own(gate_)) text += "; " + words("gate.own.waived", {as_it_is});
  return text;
}

std::string GatedRun::pairs_text(const Wording& words) const {
  std::string text = words("gate.pairs.text", {std::to_string(row_->number("pairs"))});
  if (has_baseline())
    text += words("gate.pairs.rows", {std::to_string(row_->number("compared_rows"))});
  if (const int64_t nowhere = rows_at_no_position(statements_, run_id_); nowhere > 0)
    text += words("gate.pairs.nowhere", {std::to_string(nowhere)});
  return text;
}

std::string GatedRun::change_text(const Wording& words) const {
  const RunVerdict& v = *row_;
  if (!has_baseline()) return words("gate.since.none", {v.text("no_baseline_why")});
  if (!v.has("change")) return words("gate.since.unknown", {v.text("baseline")});
  std::string baseline = v.text("baseline");
  if (v.has("baseline_commit_sha"))
    baseline += " (" + words("gate.commit", {v.text("baseline_commit_sha")}) + ")";
  const std::string text = words("gate.since.text", {v.text("change"), baseline});
  if (v.has("why_not")) return text + ": " + v.text("why_not");
  const auto rows = [&](int64_t n) {
    return words(n == 1 ? TextId("gate.row") : TextId("gate.rows"), {std::to_string(n)});
  };
  std::string counts;
  const auto add = [&](const std::string& what) {
    counts += (counts.empty() ? ": " : ", ") + what;
  };
  struct Kind {
    const char* column;
    TextId text;
  };
  const Kind kinds[] = {{"changed_rows", "gate.rows.beyond"},
                        {"nonfinite_rows", "gate.rows.nonfinite"},
                        {"rounded_rows", "gate.rows.rounded"},
                        {"lost_rows", "gate.rows.lost"},
                        {"new_rows", "gate.rows.new"}};
  for (const auto& [column, kind] : kinds) {
    if (v.number(column) > 0) add(rows(v.number(column)) + " " + words(kind));
  }
  if (waived_rows(gate_) > 0) add(words("gate.rows.waived", {rows(waived_rows(gate_))}));
  if (v.has("changed_tensor")) {
    add(words("gate.since.first",
              {words("gate.at", {place_text(changed_place(), words)}), v.text("changed_phase")}));
  }
  return text + counts;
}

FailPlace GatedRun::changed_place() const {
  const RunVerdict& v = *row_;
  return {.cause = "",
          .root_cause = "",
          .prompt = v.text("changed_prompt"),
          .tensor = v.text("changed_tensor"),
          .layer = v.cell("changed_layer").id(),
          .pos = v.cell("changed_pos_id").id()};
}

std::string GatedRun::no_verdict_text(const Wording& words) const {
  const std::string text = answer();
  if (text == "PASS" || text == "FAIL") return "";
  if (text == "INCOMPLETE") return row_->text("incomplete_why");
  if (text == "NO_EVIDENCE")
    return words(waivers_.empty() ? TextId("gate.why.NO_EVIDENCE") : TextId("gate.why.waived"));
  if (own(gate_) == "PASS" && !has_baseline())
    return words("gate.why.required", {row_->text("no_baseline_why")});
  return words(own(gate_) == "PASS" ? TextId("gate.why.baseline")
                                    : TextId("gate.why.INCOMPARABLE"));
}

std::vector<PairFinding> GatedRun::findings(const FailPlace& place) {
  if (!fails()) return {};
  if (!findings_) findings_ = pair_findings(statements_, run_id_);
  std::vector<PairFinding> there;
  for (const PairFinding& one : *findings_) {
    if (one.layer == place.layer && one.tensor == place.tensor) there.push_back(one);
  }
  return there;
}

const std::vector<GateCase>& GatedRun::cases() {
  if (cases_) return *cases_;
  cases_.emplace();
  RunQuery query(statements_, run_id_,
                 "SELECT prompt, layer, waived, status, cause, message, tensor FROM gate_case"
                 " WHERE run_id = ? AND gate = ? ORDER BY prompt_id, forward_layer, layer",
                 {std::string(gate_ == Gate::kStrict ? "strict" : "numeric")});
  while (query.step()) {
    cases_->push_back({.prompt = query.text(0),
                       .status = query.text(3),
                       .cause = query.text(4),
                       .message = query.text(5),
                       .tensor = query.text(6),
                       .layer = query.integer(1),
                       .waived = query.integer(2)});
  }
  return *cases_;
}

std::string GatedRun::json() {
  std::string object = json_of(statements_, JudgedRow(statements_, {run_id_, name_}));
  JsonObject gate, fail, change;
  const FailPlace place = this->fail();
  const std::string answer = this->answer(), own = this->own(gate_);
  gate.add("answer", answer).add("headline", headline());
  gate.add("gate", std::string(gate_name(gate_)));
  gate.add("exit_status", static_cast<int>(exit_of_verdict(answer)));
  for (const char* key : {"strict_answer", "numeric_answer", "own_verdict", "own_strict_verdict",
                          "own_numeric_verdict"})
    gate.add(key, row_->cell(key));
  fail.add("cause", or_null(place.cause)).add("root_cause", or_null(place.root_cause));
  fail.add("prompt", or_null(place.prompt)).add("layer", or_null(place.layer));
  fail.add("tensor", or_null(place.tensor)).add("pos_id", or_null(place.pos));
  gate.raw("first_fail", fails() && !place.cause.empty() ? fail.str() : "null");
  for (const char* key :
       {"change", "baseline", "baseline_commit_sha", "why_not", "compared_rows", "changed_rows",
        "nonfinite_rows", "rounded_rows", "lost_rows", "new_rows", "changed_prompt",
        "changed_phase", "changed_pos_id", "changed_layer", "changed_tensor", "unwaived_change",
        "waived_rows", "waived_changed_rows"}) {
    change.add(key, row_->cell(key));
  }
  gate.raw("since_baseline", has_baseline() ? change.str() : "null");
  for (const char* key : {"pairs", "waived", "waived_divergent"}) gate.add(key, row_->cell(key));
  std::vector<std::string> applied;
  for (const AppliedWaiver& waiver : waivers_) applied.push_back(waiver.json());
  gate.raw("waivers", json_array(applied));
  for (const char* key : {"incomplete_why", "no_baseline_why"}) gate.add(key, row_->cell(key));
  gate.raw("tolerances", json_of_texts(tolerances(kEnglishWords)))
      .raw("later_runs", json_of_texts(later_));
  object.pop_back();
  return object + ",\"gate\":" + gate.str() + "}";
}

bool GatedRun::change_fails() const {
  if (!has_baseline()) return false;
  const std::string change = row_->text("unwaived_change");
  return change == "BROKEN" || change == "CHANGED" ||
         (change == "ROUNDING" && gate_ == Gate::kStrict);
}

std::string more_command(const std::string& database, const GatedRun& run) {
  const bool of_change = run.own(run.gate()) == "PASS" && run.has_baseline() &&
                         (run.change_fails() || run.answer() == "INCOMPARABLE");
  if (of_change) {
    return "greta-db --db " + shell_word(database) + " compare " +
           shell_word(run.row().text("baseline")) + " " + shell_word(run.name());
  }
  return "greta-db --db " + shell_word(database) + " firstfail --run " + shell_word(run.name());
}

std::string answer_of_status(int status) {
  return status == kExitDone ? "PASS" : status == kExitFail ? "FAIL" : "no verdict";
}

}  // namespace greta
