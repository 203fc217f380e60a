#include "cli/greta_db/judged_run.h"

#include <algorithm>

#include "common/json_text.h"
#include "common/utf8.h"

namespace greta {
namespace {

std::string json_rows(RunQuery query) {
  std::vector<std::string> names = query.column_names(), rows;
  while (query.step()) {
    JsonObject object;
    for (int i = 0; i < query.columns(); i++)
      object.add(names[static_cast<size_t>(i)], query.cell(i));
    rows.push_back(object.str());
  }
  return json_array(rows);
}

void add_origin(JsonObject& object, const Origin& origin) {
  object.add("segment", or_null(origin.segment));
  object.add("untraced_layers", or_null(origin.untraced_layers));
  object.add("probe", or_null(origin.probe()));
  object.add("measure", or_null(origin.measure));
  object.add("location", or_null(origin.location));
}

std::string prompts_json(const JudgedRun& run) {
  std::vector<std::string> rows;
  RunQuery query = run.by_prompt();
  const std::vector<std::string> names = query.column_names();
  while (query.step()) {
    const FailPlace numeric = prompt_fail(query, Gate::kNumeric);
    JsonObject object;
    for (int i = 0; i < query.columns(); i++)
      object.add(names[static_cast<size_t>(i)], query.cell(i));
    const Origin origin = run.origin(numeric, Gate::kNumeric);
    object.add("numeric_origin", or_null(origin.kind));
    add_origin(object, origin);
    rows.push_back(object.str());
  }
  return json_array(rows);
}

/// The verdict that leads and where it first fails.
std::string lead_json(const JudgedRun& run, const Origin& numeric_origin) {
  const FailPlace& fail = run.head.fail;
  const bool same =
      run.head.gate == Gate::kNumeric && fail == run.verdict.first_fail(Gate::kNumeric);
  const Origin origin = same ? numeric_origin : run.origin(fail, run.head.gate);
  JsonObject object;
  object.add("gate", Cell(gate_name(run.head.gate))).add("verdict", Cell(run.head.verdict));
  object.add("headline", Cell(run.head.text())).add("cause", or_null(fail.cause));
  object.add("root_cause", or_null(fail.root_cause)).add("prompt", or_null(fail.prompt));
  object.add("layer", or_null(fail.layer)).add("tensor", or_null(fail.tensor));
  object.add("pos_id", or_null(fail.pos)).add("origin", or_null(origin.kind));
  add_origin(object, origin);
  return object.str();
}

}  // namespace

RunQuery VerdictQueries::verdict(int64_t run_id) {
  return RunQuery(
      statements, run_id,
      "SELECT " + std::string(kVerdictColumns) + " FROM " + kept_ + "run_verdict WHERE run_id = ?");
}

RunQuery VerdictQueries::breakdown(int64_t run_id) {
  return RunQuery(statements, run_id,
                  "SELECT cause, count, percent, numeric_count, numeric_percent FROM " + kept_ +
                      "failure_breakdown WHERE run_id = ?");
}

int64_t VerdictQueries::refuted(int64_t run_id) {
  RunQuery query(statements, run_id, "SELECT count(*) FROM refuted_readout WHERE run_id = ?");
  query.step();
  return query.integer(0);
}

RunQuery VerdictQueries::by_prompt(int64_t run_id) {
  return RunQuery(
      statements, run_id,
      "SELECT run, prompt, token_id, pos_id, layer, tensor, first_fail, root_cause,"
      " details, first_drift_layer, first_drift_tensor, first_drift_cause,"
      " numeric_first_fail, numeric_layer, numeric_tensor, evidence, numeric_pos_id FROM " +
          kept_ + "first_fail WHERE run_id = ? ORDER BY prompt_id");
}

RunQuery VerdictQueries::diagnosis(int64_t run_id) {
  return RunQuery(statements, run_id, diagnosis_of("run_id = ?"));
}

RunQuery VerdictQueries::diagnosis(int64_t run_id, const std::string& prompt) {
  return RunQuery(statements, run_id, diagnosis_of("run_id = ?1 AND prompt = ?2"), {prompt});
}

std::string VerdictQueries::diagnosis_of(const std::string& condition) const {
  return "SELECT prompt, layer, tensor, finding, evidence, meaning FROM " + kept_ +
         "diagnosis WHERE " + condition + " ORDER BY prompt_id, ord";
}

FailPlace prompt_fail(const Query& by_prompt, Gate gate) {
  const bool numeric = gate == Gate::kNumeric;
  auto id = [&](int column) {
    return by_prompt.is_null(column) ? std::nullopt : std::optional(by_prompt.integer(column));
  };
  return {.cause = by_prompt.text(numeric ? 12 : 6),
          .root_cause = "",
          .prompt = by_prompt.text(1),
          .tensor = by_prompt.text(numeric ? 14 : 5),
          .layer = id(numeric ? 13 : 4),
          .pos = id(numeric ? 16 : 3)};
}

std::string json_of(const JudgedRun& run) {
  const RunVerdict& v = run.verdict;
  JsonObject first, numeric, object;
  first.add("cause", v.cell("first_fail")).add("prompt", v.cell("prompt"));
  first.add("layer", v.cell("layer")).add("tensor", v.cell("tensor"));
  first.add("token_id", v.cell("token_id")).add("pos_id", v.cell("pos_id"));
  const FailPlace beyond = v.first_fail(Gate::kNumeric);
  const Origin origin = run.origin(beyond, Gate::kNumeric);
  numeric.add("cause", v.cell("numeric_first_fail")).add("prompt", v.cell("numeric_prompt"));
  numeric.add("layer", v.cell("numeric_layer")).add("tensor", v.cell("numeric_tensor"));
  numeric.add("pos_id", v.cell("numeric_pos_id")).add("origin", or_null(origin.kind));
  add_origin(numeric, origin);
  for (const char* key : {"run", "experiment", "mode", "date", "commit_sha"})
    object.add(key, v.cell(key));
  object.raw("lead", lead_json(run, origin));
  for (const char* key :
       {"verdict",    "numeric_verdict", "coverage",    "evidence",     "pairs",        "pass",
        "fail",       "missing",         "decode_only", "incomparable", "prefill_only", "claimed",
        "rejected",   "rejected_why",    "ingest_open", "rounding",     "divergent",    "nonfinite",
        "unmeasured", "unmet",           "status"}) {
    object.add(key, v.cell(key));
  }
  object.raw("first_fail", v.has("first_fail") ? first.str() : "null");
  object.raw("numeric_first_fail", v.has("numeric_first_fail") ? numeric.str() : "null");
  object.add("root_cause", v.cell("root_cause"));
  object.raw("breakdown", run.fails() ? json_rows(run.breakdown()) : "[]");
  object.raw("by_prompt", run.fails() ? prompts_json(run) : "[]");
  std::vector<std::string> waived;
  for (const AppliedWaiver& waiver : run.queries.waivers(run.run_id))
    waived.push_back(waiver.json());
  object.raw("waived", json_array(waived));
  object.raw("diagnosis", run.is_described() ? json_rows(run.diagnosis()) : "[]");
  return object.str();
}

std::vector<std::string> later_names(SQLite::Database& db, const Run& run,
                                     const std::vector<Run>& shown) {
  std::vector<std::string> names;
  for (const Run& later : later_runs(db, run)) {
    if (std::find(shown.begin(), shown.end(), later) == shown.end()) names.push_back(later.name);
  }
  return names;
}

std::string later_text(const std::vector<std::string>& names, const Wording& words) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + utf8::printable(name);
  return text.empty() ? "" : words("gate.later.text", {text});
}

}  // namespace greta
