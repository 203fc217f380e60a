#include "engine/generate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>

namespace greta {
namespace {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Generator::Generator(const Model& model, const ModelWeights& weights, Backend& backend,
                     int64_t capacity, GenerateOptions options)
    : model_(model),
      backend_(backend),
      options_(std::move(options)),
      cache_(model.config(), capacity, backend),
      forward_(model, weights, backend, cache_, options_.forward),
      tracer_(options_.selection, backend),
      sampler_(options_.sampler) {}

GenerateResult Generator::run(std::span<const int32_t> prompt, TraceSink* sink) {
  GenerateResult result{.n_prompt = static_cast<int64_t>(prompt.size())};
  if (prompt.empty()) throw std::invalid_argument("a prompt of no tokens cannot be continued");
  const Stopwatch prefill_time;
  prefill(prompt, sink);
  result.prefill_s = prefill_time.seconds();
  const Stopwatch decode_time;
  while (result.n_generated < options_.max_tokens) {
    const int32_t token = choose();
    if (ends && ends(token)) {
      result.stop = GenerateResult::Stop::kEndToken;
      break;
    }
    ++result.n_generated;
    if (on_token) on_token(token);
    const int64_t pos = result.n_prompt + result.n_decoded;
    if (result.n_generated == options_.max_tokens) break;
    if (pos == cache_.capacity()) {
      result.stop = GenerateResult::Stop::kContextFull;
      break;
    }
    decode(token, pos, ++result.n_decoded, sink);
  }
  if (sink != nullptr) {
    read_out(forward_.top());
    hand_over(*sink);
  }
  result.decode_s = decode_time.seconds();
  return result;
}

void Generator::prefill(std::span<const int32_t> prompt, TraceSink* sink) {
  const auto n = static_cast<int64_t>(prompt.size());
  const Phase last =
      options_.selection.wants(Phase::kPrefillLast) ? Phase::kPrefillLast : Phase::kPrefill;
  for (int64_t first = 0; first < n; first += options_.forward.max_batch) {
    const int64_t count = std::min(options_.forward.max_batch, n - first);
    const bool ends_prompt = first + count == n;
    const auto piece = prompt.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    if (sink != nullptr) {
      tracer_.begin(piece, first, ends_prompt ? last : Phase::kPrefill, Phase::kPrefill, 0);
    }
    forward_.run({.tokens = piece, .first_pos = first}, sink != nullptr ? &tracer_ : nullptr);
    const Phase phase = ends_prompt ? last : Phase::kPrefill;
    if (sink != nullptr) traced(phase, 0, first + count - 1, *sink);
    if (on_prefill) on_prefill(first + count, n);
  }
}

void Generator::decode(int32_t token, int64_t pos, int64_t step, TraceSink* sink) {
  const Phase phase = step == 1 ? Phase::kDecode0 : Phase::kDecode;
  if (sink != nullptr) tracer_.begin({&token, 1}, pos, phase, {}, step);
  forward_.run({.tokens = {&token, 1}, .first_pos = pos, .decode = true},
               sink != nullptr ? &tracer_ : nullptr);
  if (sink != nullptr) traced(phase, step, pos, *sink);
}

/// The batch just run is traced.
void Generator::traced(Phase phase, int64_t step, int64_t pos, TraceSink& sink) {
  hand_over(sink);
  traced_ = {phase, step, pos, {}};
}

/// Gives the sink what it has not got yet.
void Generator::hand_over(TraceSink& sink) {
  if (!traced_) return;
  sink.rows(tracer_.take());
  if (traced_->readout) sink.readout(*traced_->readout);
  traced_.reset();
}

/// The greatest logits of the batch just run are known.
void Generator::read_out(const TopLogits& top) {
  if (!traced_ || traced_->readout || !options_.selection.wants(traced_->phase)) return;
  traced_->readout = forward_.readout(top, traced_->phase, traced_->step, traced_->pos);
}

int32_t Generator::choose() {
  const TopLogits top = forward_.top();
  read_out(top);
  if (sampler_.is_greedy() && !std::isnan(top.values[0])) return top.ids[0];
  const int64_t vocab = model_.config().vocab;
  logits_.resize(static_cast<size_t>(vocab));
  backend_.read(forward_.logits() + (forward_.n_logits() - 1) * vocab, vocab, logits_.data());
  return sampler_.sample(logits_);
}

}  // namespace greta
