#include "engine/probe/generate.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace greta {
namespace {

constexpr int32_t kUnknownToken = -1;

Phase decode_phase(int64_t step) { return step == 1 ? Phase::kDecode0 : Phase::kDecode; }

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
      cache_(model.config(), capacity, backend, 0, options_.forward.kv_cache),
      forward_(model, weights, backend, cache_, options_.forward),
      tracer_(options_.selection, backend),
      sampler_(options_.sampler) {}

GenerateResult Generator::run(std::span<const int32_t> prompt, TraceSink* sink) {
  GenerateResult result{.n_prompt = static_cast<int64_t>(prompt.size())};
  if (prompt.empty()) throw std::invalid_argument("a prompt of no tokens cannot be continued");
  const Stopwatch time;
  prefill(prompt, sink);
  result.prefill_s = time.seconds();
  while (result.n_generated < options_.max_tokens) {
    const int64_t pos = result.n_prompt + result.n_decoded;
    const bool last = result.n_generated + 1 == options_.max_tokens || pos == cache_.capacity();
    // The device goes on with the greatest logit while the host learns which it is.
    const bool ahead = !last && sampler_.is_greedy() && backend_.runs_ahead();
    if (ahead) decode(kUnknownToken, pos, result.n_decoded + 1, sink);
    const int32_t token = choose(ahead);
    if (result.n_generated == 0) result.prefill_s = time.seconds();
    const bool chosen = token != kUnknownToken, ended = !chosen || (ends && ends(token));
    if (ahead && sink != nullptr) {
      tracer_.set_token(token);
      hand_over(*sink);
      if (ended) static_cast<void>(tracer_.take());  // a token too many
      if (!ended) traced(result.n_decoded + 1, pos);
    }
    if (ended) {
      result.stop = chosen ? GenerateResult::Stop::kEndToken : GenerateResult::Stop::kNoChoice;
      break;
    }
    ++result.n_generated;
    if (on_token) on_token(token);
    if (result.n_generated == options_.max_tokens) break;
    if (last) {
      result.stop = GenerateResult::Stop::kContextFull;
      break;
    }
    ++result.n_decoded;
    if (ahead) continue;
    decode(token, pos, result.n_decoded, sink);
    if (sink != nullptr) {
      hand_over(*sink);
      traced(result.n_decoded, pos);
    }
  }
  if (sink != nullptr && traced_) {
    if (!traced_->readout) read_out(forward_.top());
    hand_over(*sink);
  }
  result.decode_s = time.seconds() - result.prefill_s;
  return result;
}

void Generator::prefill(std::span<const int32_t> prompt, TraceSink* sink) {
  const auto n = static_cast<int64_t>(prompt.size());
  n_prompt_ = n;
  const Phase last =
      options_.selection.wants(Phase::kPrefillLast) ? Phase::kPrefillLast : Phase::kPrefill;
  for (int64_t first = 0, count = 0; first < n; first += count) {
    const int64_t most = std::min(options_.forward.max_batch, n - first);
    count = options_.forward.faults.end_of_batch(first, first + most) - first;
    const bool ends_prompt = first + count == n;
    const auto piece = prompt.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    if (sink != nullptr) {
      tracer_.begin(piece, first, ends_prompt ? last : Phase::kPrefill, Phase::kPrefill, 0);
    }
    forward_.run({.tokens = piece, .first_pos = first, .n_prompt = n},
                 sink != nullptr ? &tracer_ : nullptr);
    const Phase phase = ends_prompt ? last : Phase::kPrefill;
    if (sink != nullptr) {
      hand_over(*sink);
      traced_ = {phase, 0, first + count - 1, {}};
    }
    if (on_prefill) on_prefill(first + count, n);
  }
}

/// token: kUnknownToken for the one that the batch before chose.
void Generator::decode(int32_t token, int64_t pos, int64_t step, TraceSink* sink) {
  if (sink != nullptr) tracer_.begin({&token, 1}, pos, decode_phase(step), {}, step);
  forward_.run({.tokens = {&token, 1},
                .after_top = token == kUnknownToken,
                .first_pos = pos,
                .decode = true,
                .step = step,
                .n_prompt = n_prompt_},
               sink != nullptr ? &tracer_ : nullptr);
}

/// The batch of a decode step is traced, and under way.
void Generator::traced(int64_t step, int64_t pos) { traced_ = {decode_phase(step), step, pos, {}}; }

/// Gives the sink what it has not got yet.
void Generator::hand_over(TraceSink& sink) {
  if (!traced_) return;
  sink.rows(0, tracer_.take());
  if (traced_->readout) sink.readout(0, *traced_->readout);
  traced_.reset();
}

/// The greatest logits of the traced batch are known.
void Generator::read_out(const TopLogits& top) {
  if (!traced_ || !options_.selection.wants(traced_->phase)) return;
  traced_->readout =
      forward_.readout(top, traced_->phase, {traced_->pos, traced_->step, n_prompt_});
}

/// kUnknownToken when no logit is a number. ahead: the batch of the token is under way already.
int32_t Generator::choose(bool ahead) {
  const TopLogits top = forward_.top(ahead);
  read_out(top);
  if (!top.has_choice()) return kUnknownToken;
  if (sampler_.is_greedy()) return top.ids[0];
  const int64_t vocab = model_.config().vocab;
  logits_.resize(static_cast<size_t>(vocab));
  backend_.read(forward_.logits() + (forward_.n_logits() - 1) * vocab, vocab, logits_.data());
  return sampler_.sample(logits_);
}

}  // namespace greta
