#include "engine/probe/probe.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace greta {
namespace {

/// Throws std::invalid_argument when a row to trace would be longer than a fingerprint can be.
ProbeOptions checked(ProbeOptions options, const ModelConfig& config, int64_t capacity) {
  const auto check = [&](TracePoint a, TracePoint b, int64_t width, const char* of) {
    const bool wanted = options.selection.wants(a) || options.selection.wants(b);
    if (!wanted || capacity <= static_cast<int64_t>(kMaxFingerprintValues) / width) return;
    const auto name = [](TracePoint point) { return std::string(trace_point_name(point)); };
    throw std::invalid_argument(name(a) + " of " + std::to_string(width) + of + " over " +
                                std::to_string(capacity) + " positions have more than the " +
                                std::to_string(kMaxFingerprintValues) +
                                " values that one fingerprint covers; leave " + name(a) + " and " +
                                name(b) + " out of --tensors");
  };
  check(TracePoint::kAttnScores, TracePoint::kAttnProbs, config.n_heads, " heads");
  check(TracePoint::kKCacheRows, TracePoint::kVCacheRows, config.kv_dim(), " values");
  return options;
}

}  // namespace

Probe::Probe(const Model& model, const ModelWeights& weights, Backend& backend, int64_t capacity,
             ProbeOptions options)
    : model_(model),
      backend_(backend),
      options_(checked(std::move(options), model.config(), capacity)),
      cache_(model.config(), capacity, backend),
      forward_(model, weights, backend, cache_, options_.forward),
      tracer_(options_.selection, backend,
              {options_.kept_bytes, model.config().n_heads, model.config().n_kv_heads}) {
  if (options_.rms_verify || options_.cpu_probe) head_probe_.emplace(model, options_.n_threads);
}

void Probe::run(const ProbePrompt& prompt, TraceSink& sink) {
  n_prompt_ = static_cast<int64_t>(prompt.tokens.size());
  sink.begin_prompt({prompt.name, prompt.text_sha256, prompt.tokens,
                     options_.selection.plan(model_.config().n_layers)});
  watch_.begin();
  run_once(prompt, sink);
  const std::optional<PairPlace> failing = watch_.first();
  if (!failing) return;
  for (repeat_ = 1; repeat_ <= options_.repeats; ++repeat_) {
    RepeatedRows repeated(*failing, repeat_, sink);
    run_once(prompt, repeated);
  }
  repeat_ = 0;
}

void Probe::repeat_beyond(std::vector<double> tolerances) {
  const bool equal = options_.forward.mode == Mode::kBatchInvariant;
  if (equal) std::fill(tolerances.begin(), tolerances.end(), 0);
  watch_ = PairWatch(std::move(tolerances));
}

/// All that is computed for a prompt.
void Probe::run_once(const ProbePrompt& prompt, TraceSink& sink) {
  tracer_.forget_kept();
  const int64_t not_kept = tracer_.n_not_kept();
  forward_.poison_activations();
  cache_.poison_from(0);
  prefill(prompt, prompt.tokens, sink);
  const bool aligned = options_.forward.mode == Mode::kKvAligned;
  forward_.poison_activations();
  cache_.poison_from(aligned ? n_prompt_ : n_prompt_ - 1);
  decode_traced(prompt.tokens.back(), n_prompt_ - 1, 1, !aligned, sink);
  const int64_t n_steps = prompt.decode_steps.value_or(options_.decode_steps);
  if (n_steps > 0) continue_prompt(prompt, n_steps, sink);
  if (const int64_t n = tracer_.n_not_kept() - not_kept; n > 0) {
    sink.attribute("not_compared_exactly", prompt.name + ": " + std::to_string(n) +
                                               " rows more than fit in " +
                                               std::to_string(options_.kept_bytes >> 20) + " MiB");
  }
}

/// Decodes tokens, and gives each its other side where both are traced.
void Probe::continue_prompt(const ProbePrompt& prompt, int64_t n_steps, TraceSink& sink) {
  const bool traced = options_.selection.wants(Phase::kDecode);
  const bool aligned = traced && options_.forward.mode == Mode::kKvAligned;
  const std::vector<int32_t> tokens = generate(prompt, n_steps, !aligned, sink);
  const auto end = static_cast<int64_t>(tokens.size());
  const bool verified = aligned || (traced && options_.selection.wants(Phase::kPrefillLast));
  if (end == n_prompt_ || !verified) return;
  forward_.poison_activations();
  cache_.poison_from(0);
  prefill(prompt, tokens, sink);
  if (!aligned) return;
  forward_.poison_activations();
  for (int64_t pos = end - 1; pos >= n_prompt_; --pos) {
    cache_.poison_from(pos + 1);
    decode_traced(tokens[static_cast<size_t>(pos)], pos, step_at(pos), false, sink);
  }
}

/// The prompt's tokens and those that follow it greedily. Fewer than asked where no logit is a
/// number: what the run has found until then is worth more than the rest.
std::vector<int32_t> Probe::generate(const ProbePrompt& prompt, int64_t n_steps, bool traced,
                                     TraceSink& sink) {
  std::vector<int32_t> tokens = prompt.tokens;
  const int64_t end = n_prompt_ + n_steps;
  for (int64_t pos = n_prompt_; pos < end; ++pos) {
    const TopLogits top = forward_.top();
    if (!top.has_choice()) {
      sink.attribute("decode_ended", prompt.name + " after " + std::to_string(pos - n_prompt_) +
                                         " of " + std::to_string(n_steps) +
                                         " tokens: no logit is a number above -inf");
      break;
    }
    tokens.push_back(top.ids[0]);
    if (traced) {
      decode_traced(top.ids[0], pos, step_at(pos), true, sink);
    } else {
      decode(top.ids[0], pos, step_at(pos), true, nullptr);
    }
  }
  return tokens;
}

/// tokens: the prompt, whose last position is traced, or the prompt and what was decoded after it,
/// which is traced as such.
void Probe::prefill(const ProbePrompt& prompt, std::span<const int32_t> tokens, TraceSink& sink) {
  const auto n = static_cast<int64_t>(tokens.size());
  const bool verifies = n > n_prompt_;
  const Phase others = verifies ? Phase::kPrefillLast : Phase::kPrefill;
  for (int64_t first = 0, count = 0; first < n; first += count) {
    const int64_t most = std::min(options_.forward.max_batch, n - first);
    count = options_.forward.faults.end_of_batch(first, first + most) - first;
    const bool ends = first + count == n;
    const auto piece = tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    const Phase last = ends ? Phase::kPrefillLast : others;
    tracer_.begin(piece, first, last, others, 0, verifies ? n_prompt_ : 0);
    forward_.run({.tokens = piece, .first_pos = first, .n_prompt = n_prompt_, .repeat = repeat_},
                 &tracer_);
    emit({last, ends && !verifies, 0, first, count}, sink);
    if (on_progress) on_progress(prompt.name, "prefill");
  }
}

void Probe::decode(int32_t token, int64_t pos, int64_t step, bool keep_kv, Tracer* tracer) {
  forward_.run({.tokens = {&token, 1},
                .first_pos = pos,
                .decode = true,
                .keep_kv = keep_kv,
                .step = step,
                .n_prompt = n_prompt_,
                .repeat = repeat_},
               tracer);
}

void Probe::decode_traced(int32_t token, int64_t pos, int64_t step, bool keep_kv, TraceSink& sink) {
  const Phase phase = step == 1 ? Phase::kDecode0 : Phase::kDecode;
  tracer_.begin({&token, 1}, pos, phase, {}, step);
  decode(token, pos, step, keep_kv, &tracer_);
  emit({phase, true, step, pos, 1}, sink);
  if (on_progress) on_progress("", phase_name(phase).data());
}

/// Gives the sink the rows of a batch, and the readouts of what is compared.
void Probe::emit(const Traced& batch, TraceSink& sink) {
  const std::span<const TracedToken> traced = tracer_.traced();
  std::vector<ReadoutRecord> readouts;
  for (size_t i = 0; i < traced.size(); ++i) {
    if (traced[i].phase == Phase::kPrefill) continue;
    const int64_t token = traced[i].row;
    readouts.push_back(read_out(traced[i].phase, batch.step, batch.first_pos + token, token));
    tracer_.annotate(TracePoint::kLogits, i, audit(is_decode(traced[i].phase)));
    if (head_probe_ && repeat_ == 0) check_head(i, token, readouts.back());
  }
  const int64_t last = batch.n_tokens - 1;
  if (batch.ends_prompt && (traced.empty() || traced.back().row != last)) {
    readouts.push_back(read_out(batch.last, batch.step, batch.first_pos + last, last));
  }
  std::vector<TraceRecord> rows = tracer_.take();
  if (repeat_ == 0) watch_.look(rows);
  sink.rows(std::move(rows));
  for (const ReadoutRecord& readout : readouts) sink.readout(readout);
}
ReadoutRecord Probe::read_out(Phase phase, int64_t step, int64_t pos, int64_t token) {
  return forward_.readout(forward_.top_of(token), phase, step, pos);
}

/// What double arithmetic makes of the hidden state of a token of the batch, traced as number
/// `traced`.
void Probe::check_head(size_t traced, int64_t token, ReadoutRecord& readout) {
  const int64_t row = forward_.logits_row(token), dim = model_.config().dim;
  std::vector<float> hidden(static_cast<size_t>(dim)), normed(hidden.size());
  backend_.read(forward_.hidden() + row * dim, dim, hidden.data());
  backend_.read(forward_.final_norm() + row * dim, dim, normed.data());
  if (options_.rms_verify) {
    const RmsCheck check = head_probe_->check_norm(hidden, normed);
    tracer_.annotate(TracePoint::kFinalNorm, traced,
                     nlohmann::json{{"rms_sumsq", check.sum_sq},
                                    {"rms_eps", check.eps},
                                    {"rms_max_rel_err", check.max_rel_err},
                                    {"rms_weight_dtype", "f32"},
                                    {"rms_input_dtype", "f32"}}
                         .dump());
    readout.norm_error = check.rel_l2;
  }
  if (!options_.cpu_probe) return;
  const int64_t vocab = model_.config().vocab;
  std::vector<float> given(static_cast<size_t>(vocab));
  backend_.read(forward_.logits() + row * vocab, vocab, given.data());
  const std::vector<double> expected = head_probe_->logits(hidden);
  readout.cpu_top1_id = HeadProbe::top1(expected);
  readout.logits_error = relative_error(given, expected);
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
