#include "engine/probe/probe.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace greta {

Probe::Probe(const Model& model, const ModelWeights& weights, Backend& backend, int64_t max_prompt,
             ProbeOptions options)
    : model_(model),
      backend_(backend),
      options_(std::move(options)),
      cache_(model.config(), max_prompt + options_.decode_steps, backend),
      forward_(model, weights, backend, cache_, options_.forward),
      tracer_(options_.selection, backend) {
  const int64_t n_scores = cache_.capacity() * model.config().n_heads;
  const bool scores = options_.selection.wants(TracePoint::kAttnScores) ||
                      options_.selection.wants(TracePoint::kAttnProbs);
  if (scores && n_scores > static_cast<int64_t>(kMaxFingerprintValues)) {
    throw std::invalid_argument(
        "attn_scores of " + std::to_string(model.config().n_heads) + " heads over " +
        std::to_string(cache_.capacity()) + " positions have more than the " +
        std::to_string(kMaxFingerprintValues) +
        " values that one fingerprint covers; leave attn_scores and attn_probs out of --tensors");
  }
  if (options_.rms_verify || options_.cpu_probe) head_probe_.emplace(model, options_.n_threads);
}

void Probe::run(const ProbePrompt& prompt, TraceSink& sink) {
  const auto n = static_cast<int64_t>(prompt.tokens.size());
  sink.begin_prompt({prompt.name, prompt.text_sha256, prompt.tokens,
                     options_.selection.plan(model_.config().n_layers)});
  forward_.poison_activations();
  cache_.poison_from(0);
  prefill(prompt, sink);
  forward_.poison_activations();
  cache_.poison_from(options_.forward.mode == Mode::kKvAligned ? n : n - 1);
  decode(prompt.tokens.back(), n - 1, Phase::kDecode0, 1, sink);
  for (int64_t i = 0; i < options_.decode_steps; ++i) {
    decode(forward_.top().ids[0], n + i, Phase::kDecode, 2 + i, sink);
  }
}

void Probe::prefill(const ProbePrompt& prompt, TraceSink& sink) {
  const std::span<const int32_t> tokens = prompt.tokens;
  const auto n = static_cast<int64_t>(tokens.size());
  for (int64_t first = 0; first < n; first += options_.forward.max_batch) {
    const int64_t count = std::min(options_.forward.max_batch, n - first);
    const bool ends = first + count == n;
    const auto piece = tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    tracer_.begin(piece, first, ends ? Phase::kPrefillLast : Phase::kPrefill, Phase::kPrefill, 0);
    forward_.run({.tokens = piece, .first_pos = first}, &tracer_);
    if (ends) {
      emit(Phase::kPrefillLast, 0, n - 1, sink);
    } else {
      sink.rows(tracer_.take());
    }
    if (on_progress) on_progress(prompt.name, "prefill");
  }
}

void Probe::decode(int32_t token, int64_t pos, Phase phase, int64_t step, TraceSink& sink) {
  const bool keep_kv = phase != Phase::kDecode0 || options_.forward.mode != Mode::kKvAligned;
  tracer_.begin({&token, 1}, pos, phase, {}, step);
  forward_.run({.tokens = {&token, 1}, .first_pos = pos, .decode = true, .keep_kv = keep_kv},
               &tracer_);
  emit(phase, step, pos, sink);
}

void Probe::emit(Phase phase, int64_t step, int64_t pos, TraceSink& sink) {
  const ModelConfig& c = model_.config();
  const int64_t last = forward_.n_logits() - 1;
  ReadoutRecord readout = forward_.readout(forward_.top(), phase, step, pos);
  if (!tracer_.traced().empty()) {
    const size_t traced = tracer_.traced().size() - 1;
    tracer_.annotate(TracePoint::kLogits, traced, audit(is_decode(phase)));
    if (head_probe_) {
      std::vector<float> hidden(static_cast<size_t>(c.dim));
      std::vector<float> normed(hidden.size());
      backend_.read(forward_.hidden() + last * c.dim, c.dim, hidden.data());
      backend_.read(forward_.final_norm() + last * c.dim, c.dim, normed.data());
      if (options_.rms_verify) {
        const RmsCheck check = head_probe_->check_norm(hidden, normed);
        tracer_.annotate(TracePoint::kFinalNorm, traced,
                         nlohmann::json{{"rms_sumsq", check.sum_sq},
                                        {"rms_eps", check.eps},
                                        {"rms_max_rel_err", check.max_rel_err},
                                        {"rms_weight_dtype", "f32"},
                                        {"rms_input_dtype", "f32"}}
                             .dump());
      }
      if (options_.cpu_probe) readout.cpu_top1_id = HeadProbe::top1(head_probe_->logits(hidden));
    }
  }
  sink.rows(tracer_.take());
  sink.readout(readout);
  if (on_progress && is_decode(phase)) on_progress("", phase_name(phase).data());
}

std::string Probe::audit(bool decode) const {
  const Matrix& w = model_.weights().output;
  const Route route = forward_.route(Op::kLmHead, decode);
  return nlohmann::json{{"lm_head_route", route_name(route)},
                        {"lm_head_quant_mode", weight_type_info(w.type).name},
                        {"lm_head_layout_used", "N x K (row_major)"},
                        {"lm_head_dtype_a", "f32"},
                        {"lm_head_dtype_b", weight_type_info(w.type).name},
                        {"lm_head_accum_dtype", "f32"},
                        {"lm_head_tied", model_.config().tied}}
      .dump();
}

}  // namespace greta
