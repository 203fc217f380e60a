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

std::optional<double> logit(int32_t id, float value) {
  if (id < 0 || !std::isfinite(value)) return std::nullopt;
  return static_cast<double>(value);
}

std::optional<int32_t> token(int32_t id) { return id < 0 ? std::nullopt : std::optional(id); }

}  // namespace

std::string run_start_line(const RunRecord& run) {
  nlohmann::json attributes = nlohmann::json::object();
  const auto add = [&attributes](const std::string& name, const std::string& value) {
    if (value.empty()) return;
    nlohmann::json& at = attributes[name];
    if (at.is_null()) {
      at = value;
    } else if (at.is_array()) {
      at.push_back(value);
    } else {
      at = {at, value};
    }
  };
  add("commit", run.commit_sha);
  add("mode", run.mode);
  add("dtype", run.dtype);
  add("seed", std::to_string(run.seed));
  for (const auto& [name, value] : run.attributes) add(name, value);
  return JsonObject()
      .add("event", "run_start")
      .add("experiment", run.experiment)
      .add("date", run.date)
      .add("started_at", run.started_at)
      .raw("attributes", attributes.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))
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
      .add("hash_algo", "greta-1")
      .add("n", f.n)
      .add("hash", f.hash)
      .add("min", static_cast<double>(f.min))
      .add("max", static_cast<double>(f.max))
      .add("mean", f.mean)
      .add("abs_sum", f.abs_sum)
      .add("sum_sq", f.sum_sq)
      .add("nan", f.nan)
      .add("inf", f.inf)
      .add("nz_count", f.nz_count)
      .add("token_id", row.token_id)
      .add("logical_tok_idx", row.pos_id);
  if (row.route) line.add("route", route_name(*row.route));
  if (!row.extra.empty()) {
    if (!row.extra.starts_with('{') || !nlohmann::json::accept(row.extra)) {
      throw std::invalid_argument("extra of " + std::string(trace_point_name(row.point)) +
                                  " is no JSON object: " + row.extra);
    }
    line.raw("extra", row.extra);
  }
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
  line.add("lm_head_route", route_name(readout.route));
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
