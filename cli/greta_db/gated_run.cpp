#include "cli/greta_db/gated_run.h"

#include "cli/greta_db/judged_run.h"
#include "cli/warehouse/kept.h"
#include "common/json_text.h"
#include "common/shell_word.h"
#include "common/utf8.h"

namespace greta {
namespace {

/// Columns of the view `gate`: what SQL may add to it is none of the JSON's business.
constexpr const char* kColumns =
    "run, answer, gate, strict_answer, numeric_answer, own_verdict, own_numeric_verdict, verdict,"
    " numeric_verdict, change, baseline, why_not, waived, first_fail, root_cause, prompt, layer,"
    " tensor, pos_id, numeric_first_fail, numeric_root_cause, numeric_prompt, numeric_layer,"
    " numeric_tensor, numeric_pos_id, changed_prompt, changed_phase, changed_pos_id, changed_layer,"
    " changed_tensor, changed_rows, nonfinite_rows, rounded_rows, lost_rows, new_rows, experiment, "
    "mode, date,"
    " commit_sha, (SELECT r.started_at FROM run r WHERE r.id = run_id) AS started_at,"
    " (SELECT r.commit_sha FROM run r WHERE r.id = baseline_id) AS baseline_commit_sha";

std::string rows_text(int64_t n, const std::string& what) {
  return std::to_string(n) + (n == 1 ? " row " : " rows ") + what;
}

}  // namespace

GatedRun::GatedRun(QueryPool& statements, const Run& run, std::optional<int64_t> baseline,
                   std::optional<Gate> gate)
    : statements_(statements), run_id_(run.id), name_(run.name) {
  if (!baseline) {
    RunQuery own(statements, run.id, "SELECT baseline_id FROM run_baseline WHERE run_id = ?");
    if (own.step() && !own.is_null(0)) baseline = own.integer(0);
  }
  const auto is_simple = [&](int64_t id) {
    return is_judged(statements, id) && !has_waivers(statements, id);
  };
  simple_ = is_simple(run.id) && (!baseline || is_simple(*baseline));
  const std::string kept = simple_ ? "kept_" : "";
  if (!baseline) {
    ask(kept + "gate", baseline);
  } else {
    if (simple_) ask("kept_gate", baseline);
    // of another run, or one that nobody has compared yet
    if (!row_ || !row_->has("changed_rows")) ask(kept + "gate_from", baseline);
  }
  if (!row_) throw UsageError(run.name + " is no run that can be judged");
  gate_ = gate ? *gate : row_->text("gate") == "strict" ? Gate::kStrict : Gate::kNumeric;
  if (!simple_) waivers_ = applied_waivers(statements, run.id);
}

void GatedRun::ask(const std::string& view, std::optional<int64_t> baseline) {
  row_.reset();
  RunQuery query(statements_, run_id_,
                 "SELECT " + std::string(kColumns) + " FROM " + view + " WHERE run_id = ?1" +
                     (baseline ? " AND baseline_id = ?2" : ""));
  if (baseline) query.bind(2, *baseline);
  if (query.step()) row_.emplace(query).own();
}

std::string GatedRun::answer(Gate gate) const {
  return row_->text(gate == Gate::kStrict ? "strict_answer" : "numeric_answer");
}

std::string GatedRun::own(Gate gate) const {
  return row_->text(gate == Gate::kStrict ? "own_verdict" : "own_numeric_verdict");
}

FailPlace GatedRun::fail() const {
  return leading_fail(gate_, row_->first_fail(Gate::kStrict), row_->first_fail(Gate::kNumeric));
}

std::string GatedRun::own_text() const {
  const std::string other = own(other_gate());
  std::string text = own(gate_) + " by the " + std::string(gate_name(gate_)) + " verdict";
  if (fails() && !fail().cause.empty()) text += ": " + fail_text(fail());
  text += "; " + std::string(gate_name(other_gate())) + " " + other;
  const std::string as_it_is = row_->text(gate_ == Gate::kStrict ? "verdict" : "numeric_verdict");
  if (as_it_is != own(gate_)) text += "; without waivers " + as_it_is;
  return text;
}

std::string GatedRun::change_text() const {
  if (!has_baseline()) return "no baseline: its own verdict alone counts";
  const RunVerdict& v = *row_;
  std::string text = v.text("change") + " since " + v.show("baseline");
  if (v.has("baseline_commit_sha")) text += " (commit " + v.show("baseline_commit_sha") + ")";
  if (v.has("why_not")) return text + ": " + v.show("why_not");
  std::string counts;
  const auto add = [&](const char* column, const std::string& what) {
    if (v.number(column) == 0) return;
    counts += (counts.empty() ? "" : ", ") + rows_text(v.number(column), what);
  };
  add("changed_rows", "beyond rounding");
  add("nonfinite_rows", "not finite");
  add("rounded_rows", "by rounding");
  add("lost_rows", "of the baseline alone");
  add("new_rows", "of this run alone");
  if (!counts.empty()) text += ": " + counts;
  const FailPlace place{
      .cause = "",
      .root_cause = "",
      .prompt = v.text("changed_prompt"),
      .tensor = v.text("changed_tensor"),
      .layer = v.has("changed_layer") ? std::optional(v.number("changed_layer")) : std::nullopt,
      .pos = v.has("changed_pos_id") ? std::optional(v.number("changed_pos_id")) : std::nullopt};
  if (!place.tensor.empty()) {
    text += ", first " + place_text(place) + ", " + v.show("changed_phase");
  }
  return text;
}

std::string GatedRun::no_verdict_text() const {
  const std::string text = answer();
  if (text == "PASS" || text == "FAIL") return "";
  if (text == "INCOMPLETE") {
    return "the run did not end, has fewer rows than it declares, or not all of it was taken";
  }
  if (text == "NO_EVIDENCE") {
    return waivers_.empty() ? "nothing was compared" : "nothing was compared but what is waived";
  }
  if (own(gate_) == "PASS") return "it cannot be held against its baseline";
  return "pairs that nothing decides, or that only a document states";
}

const std::vector<PairFinding>& GatedRun::findings(const std::string& prompt) {
  const bool all = !simple_;  // what has to be worked out is so for every prompt at once
  if (!fails() || !asked_.insert(all ? "" : prompt).second) return findings_[prompt];
  const char* kept = simple_ ? "kept_" : waivers_.empty() ? "" : "gated_";
  RunQuery query(statements_, run_id_,
                 "SELECT prompt, finding, evidence, meaning, layer FROM " + std::string(kept) +
                     "diagnosis WHERE run_id = ?1" + (all ? "" : " AND prompt = ?2") +
                     " ORDER BY prompt_id, ord");
  if (!all) query.bind(2, prompt);
  while (query.step()) {
    findings_[query.text(0)].push_back(
        {.name = query.text(1),
         .evidence = query.text(2),
         .meaning = query.text(3),
         .layer = query.is_null(4) ? std::nullopt : std::optional(query.integer(4))});
  }
  return findings_[prompt];
}

std::string GatedRun::json() {
  VerdictQueries queries(statements_, kept_views(statements_, {{run_id_, name_}}));
  RunQuery row = queries.verdict(run_id_);
  row.step();
  const RunVerdict verdict(row);
  std::string object = json_of(JudgedRun(verdict, run_id_, queries));
  JsonObject gate, fail, change;
  const FailPlace place = this->fail();
  const std::string answer = this->answer(), own = this->own(gate_);
  gate.add("answer", answer).add("gate", std::string(gate_name(gate_)));
  gate.add("exit_status", static_cast<int>(exit_of_verdict(answer)));
  for (const char* key : {"strict_answer", "numeric_answer", "own_verdict", "own_numeric_verdict"})
    gate.add(key, row_->cell(key));
  fail.add("cause", or_null(place.cause)).add("root_cause", or_null(place.root_cause));
  fail.add("prompt", or_null(place.prompt)).add("layer", or_null(place.layer));
  fail.add("tensor", or_null(place.tensor)).add("pos_id", or_null(place.pos));
  gate.raw("first_fail", fails() && !place.cause.empty() ? fail.str() : "null");
  for (const char* key :
       {"change", "baseline", "baseline_commit_sha", "why_not", "changed_rows", "nonfinite_rows",
        "rounded_rows", "lost_rows", "new_rows", "changed_prompt", "changed_phase",
        "changed_pos_id", "changed_layer", "changed_tensor"}) {
    change.add(key, row_->cell(key));
  }
  gate.raw("since_baseline", has_baseline() ? change.str() : "null");
  gate.add("waived", row_->cell("waived"));
  object.pop_back();
  return object + ",\"gate\":" + gate.str() + "}";
}

std::string more_command(const std::string& database, const GatedRun& run) {
  return "greta-db --db " + shell_word(database) + " firstfail --run " + shell_word(run.name());
}

std::string answer_of_status(int status) {
  return status == kExitDone ? "PASS" : status == kExitFail ? "FAIL" : "no verdict";
}

}  // namespace greta
