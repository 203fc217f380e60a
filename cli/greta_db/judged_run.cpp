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

/// The prompts that fail by the verdict, with where that comes from.
std::string prompts_json(const JudgedRun& run) {
  std::vector<std::string> rows;
  RunQuery query = run.by_prompt();
  const std::vector<std::string> names = query.column_names();
  while (query.step()) {
    JsonObject object;
    for (int i = 0; i < query.columns(); i++)
      object.add(names[static_cast<size_t>(i)], query.cell(i));
    const Headline& head = run.head;
    const Origin origin = run.origin(RunVerdict(query).first_fail(Gate::kVerdict), head.gate);
    object.add("origin", or_null(origin.kind));
    add_origin(object, origin);
    rows.push_back(object.str());
  }
  return json_array(rows);
}

std::string findings_json(const JudgedRun& run) {
  std::vector<std::string> objects;
  if (!run.verdict.has("first_fail")) return json_array(objects);
  for (const PairFinding& one : pair_findings(run.statements, run.run_id)) {
    JsonObject object;
    object.add("prompt", one.prompt).add("layer", or_null(one.layer)).add("tensor", one.tensor);
    object.add("finding", one.name).add("evidence", one.evidence(kEnglishWords));
    objects.push_back(object.add("meaning", one.meaning(kEnglishWords)).str());
  }
  return json_array(objects);
}

/// A first fail: columns of the verdict that begin with `of`.
JsonObject place_json(const RunVerdict& v, const std::string& of) {
  JsonObject object;
  object.add("cause", v.cell(of + "first_fail")).add("root_cause", v.cell(of + "root_cause"));
  for (const char* key : {"prompt", "layer", "tensor", "pos_id"}) object.add(key, v.cell(of + key));
  return object;
}

}  // namespace

RunQuery verdict_of(QueryPool& statements, int64_t run_id) {
  return RunQuery(statements, run_id,
                  "SELECT " + std::string(kVerdictColumns) + " FROM run_verdict WHERE run_id = ?");
}

RunQuery JudgedRun::breakdown() const {
  return RunQuery(statements, run_id,
                  "SELECT cause, count, percent, numeric_count, numeric_percent"
                  " FROM failure_breakdown WHERE run_id = ?");
}

int64_t JudgedRun::refuted() const {
  RunQuery query(statements, run_id, "SELECT count(*) FROM refuted_readout WHERE run_id = ?");
  query.step();
  return query.integer(0);
}

RunQuery JudgedRun::by_prompt() const {
  return RunQuery(
      statements, run_id,
      "SELECT run, prompt, token_id, pos_id, layer, tensor, first_fail, root_cause, details,"
      " first_drift_layer, first_drift_tensor, first_drift_cause, strict_first_fail, strict_layer,"
      " strict_tensor, strict_pos_id, numeric_first_fail, numeric_layer, numeric_tensor,"
      " numeric_pos_id, numeric_origin, evidence FROM first_fail WHERE run_id = ?"
      " ORDER BY prompt_id");
}

std::string json_of(const JudgedRun& run) {
  const RunVerdict& v = run.verdict;
  const Origin origin = run.origin(v.first_fail(Gate::kVerdict), Headline(v).gate);
  JsonObject object, first = place_json(v, ""), strict = place_json(v, "strict_"),
                     numeric = place_json(v, "numeric_");
  first.add("token_id", v.cell("token_id")).add("details", v.cell("details"));
  first.add("origin", or_null(origin.kind));
  add_origin(first, origin);
  strict.add("token_id", v.cell("strict_token_id"));
  numeric.add("origin", v.cell("numeric_origin"));
  for (const char* key : {"run", "experiment", "mode", "date", "commit_sha", "verdict"})
    object.add(key, v.cell(key));
  object.add("headline", Headline(v).text());
  for (const char* key : {"strict_verdict", "numeric_verdict", "coverage",
                          "evidence",       "pairs",           "pass",
                          "fail",           "missing",         "decode_only",
                          "incomparable",   "prefill_only",    "claimed",
                          "rejected",       "rejected_why",    "ingest_open",
                          "rounding",       "divergent",       "nonfinite",
                          "unmeasured",     "unmet",           "status",
                          "unjudged_texts"}) {
    object.add(key, v.cell(key));
  }
  object.raw("first_fail", v.has("first_fail") ? first.str() : "null");
  object.raw("strict_first_fail", v.has("strict_first_fail") ? strict.str() : "null");
  object.raw("numeric_first_fail", v.has("numeric_first_fail") ? numeric.str() : "null");
  object.add("root_cause", v.cell("root_cause"));
  object.raw("breakdown", json_rows(run.breakdown())).raw("by_prompt", prompts_json(run));
  std::vector<std::string> waived;
  for (const AppliedWaiver& waiver : run.waivers()) waived.push_back(waiver.json());
  object.raw("waived", json_array(waived));
  object.raw("diagnosis", findings_json(run));
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
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "" : words("gate.later.text", {text});
}

}  // namespace greta
