#include "cli/greta_db/judged_run.h"

#include <algorithm>

#include "cli/warehouse/origin.h"

namespace greta {
namespace {

void add_origin(JsonObject& object, const Origin& origin) {
  object.add("origin", or_null(origin.kind)).add("segment", or_null(origin.segment));
  object.add("untraced_layers", or_null(origin.untraced_layers));
  object.add("probe", or_null(origin.probe()));
  object.add("measure", or_null(origin.measure));
  object.add("location", or_null(origin.location));
}

std::string findings_json(QueryPool& statements, const JudgedRow& row) {
  std::vector<std::string> objects;
  if (!row.verdict.has("first_fail")) return json_array(objects);
  for (const PairFinding& one : pair_findings(statements, row.run.id)) {
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

std::string json_rows(Query& query, const std::function<void(JsonObject&, const Query&)>& add) {
  const std::vector<std::string> names = query.column_names();
  std::vector<std::string> rows;
  while (query.step()) {
    JsonObject object;
    for (int i = 0; i < query.columns(); i++)
      object.add(names[static_cast<size_t>(i)], query.cell(i));
    if (add) add(object, query);
    rows.push_back(object.str());
  }
  return json_array(rows);
}

int64_t rows_at_no_position(QueryPool& statements, int64_t run_id) {
  RunQuery rows(statements, run_id,
                "SELECT sum((SELECT count(*) FROM trace_row x WHERE x.run_id = z.run_id"
                " AND x.prompt_id = z.prompt_id AND x.side = z.side AND x.pos_id = z.pos_id))"
                " FROM traced_position z WHERE z.run_id = ? AND z.side < 2 AND z.pos_id < 0");
  rows.step();
  return rows.integer(0);
}

RunQuery breakdown_of(QueryPool& statements, int64_t run_id) {
  return RunQuery(statements, run_id,
                  "SELECT cause, count, percent, numeric_count, numeric_percent"
                  " FROM failure_breakdown WHERE run_id = ?");
}

RunQuery first_fails(QueryPool& statements, int64_t run_id) {
  return RunQuery(
      statements, run_id,
      "SELECT run, prompt, token_id, pos_id, layer, tensor, first_fail, root_cause, details,"
      " first_drift_layer, first_drift_tensor, first_drift_cause, strict_first_fail, strict_layer,"
      " strict_tensor, strict_pos_id, numeric_first_fail, numeric_layer, numeric_tensor,"
      " numeric_pos_id, numeric_origin, evidence FROM first_fail WHERE run_id = ?"
      " ORDER BY leads DESC, prompt_id");
}

std::string json_of(QueryPool& statements, const JudgedRow& row) {
  const RunVerdict& v = row.verdict;
  const Headline head(v);
  const auto add_origin_at = [&](JsonObject& object, const FailPlace& place, Gate gate) {
    add_origin(object, origin_at(statements, row.run.id, place, gate));
  };
  JsonObject object, first = place_json(v, ""), strict = place_json(v, "strict_"),
                     numeric = place_json(v, "numeric_");
  first.add("token_id", v.cell("token_id")).add("details", v.cell("details"));
  add_origin_at(first, head.fail, head.gate);
  strict.add("token_id", v.cell("strict_token_id"));
  numeric.add("origin", v.cell("numeric_origin"));
  for (const char* key : {"run", "experiment", "mode", "date", "commit_sha", "verdict"})
    object.add(key, v.cell(key));
  object.add("headline", head.text());
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
  RunQuery breakdown = breakdown_of(statements, row.run.id);
  RunQuery prompts = first_fails(statements, row.run.id);
  object.raw("breakdown", json_rows(breakdown));
  object.raw("by_prompt", json_rows(prompts, [&](JsonObject& prompt, const Query& query) {
               const RunVerdict failed(query);
               add_origin_at(prompt, failed.first_fail(Gate::kVerdict), row.head.gate);
             }));
  std::vector<std::string> waived;
  for (const AppliedWaiver& waiver : applied_waivers(statements, row.run.id))
    waived.push_back(waiver.json());
  object.raw("waived", json_array(waived));
  object.raw("diagnosis", findings_json(statements, row));
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
