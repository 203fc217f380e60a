#include "engine/record/trace_json.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <utility>

namespace greta {
namespace {

/// The plan, one entry per side and layer.
std::string plan_json(const std::vector<PlannedRow>& plan) {
  std::map<std::pair<bool, int>, nlohmann::json> points;
  for (const PlannedRow& row : plan) {
    points[{row.decode, row.layer}].push_back(trace_point_name(row.point));
  }
  nlohmann::json entries = nlohmann::json::array();
  for (const auto& [at, names] : points) {
    entries.push_back(
        {{"side", at.first ? "decode" : "prefill"}, {"layer", at.second}, {"points", names}});
  }
  return entries.dump();
}

/// One more value of an attribute; a list where there are several.
void add_attribute(nlohmann::json& attributes, const std::string& name, const std::string& value) {
  if (value.empty()) return;
  nlohmann::json& at = attributes[name];
  if (at.is_null()) {
    at = value;
  } else if (at.is_array()) {
    at.push_back(value);
  } else {
    at = {at, value};
  }
}

std::string text_of(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void add_if_known(JsonObject& line, std::string_view key, const std::string& text) {
  if (!text.empty()) line.add(key, text);
}

void add_statistics(JsonObject& line, const Fingerprint& f) {
  line.add("n", f.n)
      .add("hash", f.hash)
      .add("min", static_cast<double>(f.min))
      .add("max", static_cast<double>(f.max))
      .add("mean", f.mean)
      .add("abs_sum", f.abs_sum)
      .add("sum_sq", f.sum_sq)
      .add("nan", f.nan)
      .add("inf", f.inf)
      .add("nz_count", f.nz_count);
}

void add_extra(JsonObject& line, const TraceRecord& row) {
  if (row.extra.empty()) return;
  if (!row.extra.starts_with('{') || !nlohmann::json::accept(row.extra)) {
    throw std::invalid_argument("extra of " + std::string(trace_point_name(row.point)) +
                                " is no JSON object: " + row.extra);
  }
  line.raw("extra", row.extra);
}

std::optional<double> logit(int32_t id, float value) {
  if (id < 0 || !std::isfinite(value)) return std::nullopt;
  return static_cast<double>(value);
}

std::optional<int32_t> token(int32_t id) { return id < 0 ? std::nullopt : std::optional(id); }

}  // namespace

std::string run_start_line(const RunRecord& run) {
  nlohmann::json attributes = nlohmann::json::object();
  add_attribute(attributes, "commit", run.commit_sha);
  add_attribute(attributes, "mode", run.mode);
  add_attribute(attributes, "dtype", run.dtype);
  add_attribute(attributes, "seed", std::to_string(run.seed));
  for (const auto& [name, value] : run.attributes) add_attribute(attributes, name, value);
  return JsonObject()
      .add("event", "run_start")
      .add("experiment", run.experiment)
      .add("date", run.date)
      .add("started_at", run.started_at)
      .raw("attributes", text_of(attributes))
      .take();
}

std::string run_attribute_line(const std::string& name, const std::string& value) {
  return JsonObject()
      .add("event", "run_attributes")
      .raw("attributes", JsonObject().add(name, value).take())
      .take();
}

std::string run_prompt_line(const PromptRecord& prompt) {
  JsonObject line;
  line.add("event", "run_prompt")
      .add("prompt_id", prompt.name)
      .add("n_tokens", prompt.token_ids.size());
  if (!prompt.text_sha256.empty()) line.add("text_sha256", prompt.text_sha256);
  return line.raw("token_ids", nlohmann::json(prompt.token_ids).dump())
      .raw("plan", plan_json(prompt.plan))
      .take();
}

std::string stage_trace_line(const TraceRecord& row, const std::string& prompt) {
  const Fingerprint& f = row.fingerprint;
  JsonObject line;
  line.add("event", "stage_trace")
      .add("prompt_id", prompt)
      .add("phase", phase_name(row.phase))
      .add("point", trace_point_name(row.point))
      .add("layer", row.layer)
      .add("step", row.step)
      .add("pos_id", row.pos_id)
      .add("seq_len", row.seq_len)
      .add("tokens_total", tokens_total(row))
      .add("token_index", row.token_index)
      .add("sample_n", row.sample.size())
      .add("hash_algo", "greta-1");
  add_statistics(line, f);
  line.add("token_id", row.token_id).add("logical_tok_idx", row.pos_id);
  if (!row.route.empty()) line.add("route", row.route);
  add_extra(line, row);
  line.add("sketch", std::span<const double>(f.sketch));
  if (!row.sample.empty()) line.add("sample", std::span<const float>(row.sample));
  return line.take();
}

std::string difference_line(const TraceRecord& row, const std::string& prompt) {
  const PairDifference& of = *row.difference;
  const RowDifference& values = of.values;
  JsonObject line;
  line.add("event", "difference")
      .add("prompt_id", prompt)
      .add("point", trace_point_name(row.point))
      .add("layer", row.layer)
      .add("pos_id", row.pos_id)
      .add("prefill_hash", of.prefill_hash)
      .add("decode_hash", of.decode_hash)
      .add("n", values.n)
      .add("differing", values.differing)
      .add("first_at", values.first)
      .add("last_at", values.last)
      .add("rel_l2", of.rel_l2())
      .add("max_abs", values.max_abs);
  if (values.max_abs_at >= 0) line.add("max_abs_at", values.max_abs_at);
  line.add("max_ulp", values.max_ulp).add("heads", of.heads);
  const std::vector<double> shares = of.shares();
  return line.add("shares", std::span<const double>(shares)).take();
}

namespace rows {

std::string start_line(const RunRecord& run) {
  JsonObject line;
  line.add("event", "run_start").add("format", "greta-rows-1");
  add_if_known(line, "run", run.name);
  line.add("experiment", run.experiment).add("date", run.date).add("started_at", run.started_at);
  add_if_known(line, "commit", run.commit_sha);
  add_if_known(line, "mode", run.mode);
  add_if_known(line, "dtype", run.dtype);
  line.add("seed", run.seed);
  nlohmann::json others = nlohmann::json::object();
  for (const auto& [name, value] : run.attributes) add_attribute(others, name, value);
  for (const char* name : {"backend", "model", "model_sha256", "model_root"}) {
    const auto found = others.find(name);
    if (found == others.end() || !found->is_string()) continue;
    line.add(name, found->get_ref<const std::string&>());
    others.erase(found);
  }
  if (!others.empty()) line.raw("attributes", text_of(others));
  return line.take();
}

std::string prompt_line(const PromptRecord& prompt) {
  JsonObject line;
  line.add("event", "run_prompt").add("prompt", prompt.name);
  add_if_known(line, "text_sha256", prompt.text_sha256);
  if (!prompt.token_ids.empty()) line.raw("token_ids", nlohmann::json(prompt.token_ids).dump());
  if (!prompt.plan.empty()) line.raw("plan", plan_json(prompt.plan));
  return line.take();
}

std::string row_line(const TraceRecord& row, const std::string& prompt) {
  JsonObject line;
  line.add("event", "row")
      .add("prompt", prompt)
      .add("phase", phase_name(row.phase))
      .add("layer", row.layer)
      .add("tensor", trace_point_name(row.point));
  row.pos_id >= 0 ? line.add("pos_id", row.pos_id) : line.raw("pos_id", "null");
  if (row.step >= 0) line.add("step", row.step);
  if (row.token_id >= 0) line.add("token_id", row.token_id);
  if (row.logical_tok_idx) line.add("logical_tok_idx", *row.logical_tok_idx);
  add_if_known(line, "route", row.route);
  add_extra(line, row);
  add_statistics(line, row.fingerprint);
  line.add("sketch", std::span<const double>(row.fingerprint.sketch));
  if (!row.sample.empty()) line.add("sample", std::span<const float>(row.sample));
  return line.take();
}

}  // namespace rows

void add_readout(JsonObject& line, const ReadoutRecord& r) {
  line.add("top1_id", token(r.top1_id))
      .add("top1_logit", logit(r.top1_id, r.top1_logit))
      .add("top2_id", token(r.top2_id))
      .add("top2_logit", logit(r.top2_id, r.top2_logit))
      .add("gap", top_gap(r))
      .add("vocab", r.vocab);
}

void add_cpu_probe(JsonObject& line, const ReadoutRecord& r) {
  if (!r.cpu_top1_id) return;
  line.add("cpu_probe_top1_id", token(*r.cpu_top1_id))
      .add("cpu_probe_agrees_gpu", *r.cpu_top1_id == r.top1_id);
}

std::string readout_line(const ReadoutRecord& readout, const std::string& prompt) {
  JsonObject line;
  line.add("event", "readout")
      .add("prompt_id", prompt)
      .add("phase", phase_name(readout.phase))
      .add("step", readout.step)
      .add("pos_id", readout.pos_id);
  add_readout(line, readout);
  line.add("lm_head_route", readout.route);
  add_cpu_probe(line, readout);
  if (readout.norm_error) line.add("norm_error", *readout.norm_error);
  if (readout.logits_error) line.add("logits_error", *readout.logits_error);
  return line.take();
}

std::string run_end_line(bool complete, int64_t rows, const std::string& finished_at) {
  return JsonObject()
      .add("event", "run_end")
      .add("status", complete ? "complete" : "failed")
      .add("rows", rows)
      .add("finished_at", finished_at)
      .take();
}

}  // namespace greta
