#include "engine/generate.h"

#include <algorithm>
#include <array>
#include <chrono>
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
    if (sink != nullptr) {
      if (ends_prompt) {
        emit(last, 0, n - 1, *sink);
      } else {
        sink->rows(tracer_.take());
      }
    }
    if (on_prefill) on_prefill(first + count, n);
  }
}

void Generator::decode(int32_t token, int64_t pos, int64_t step, TraceSink* sink) {
  const Phase phase = step == 1 ? Phase::kDecode0 : Phase::kDecode;
  if (sink != nullptr) tracer_.begin({&token, 1}, pos, phase, {}, step);
  forward_.run({.tokens = {&token, 1}, .first_pos = pos, .decode = true},
               sink != nullptr ? &tracer_ : nullptr);
  if (sink != nullptr) emit(phase, step, pos, *sink);
}

void Generator::emit(Phase phase, int64_t step, int64_t pos, TraceSink& sink) {
  sink.rows(tracer_.take());
  if (!options_.selection.wants(phase)) return;
  const int64_t vocab = model_.config().vocab;
  const float* logits = forward_.logits() + (forward_.n_logits() - 1) * vocab;
  std::array<int32_t, 2> ids{-1, -1};
  std::array<float, 2> top{};
  backend_.top_k(logits, vocab, static_cast<int>(std::min<int64_t>(2, vocab)), ids.data(),
                 top.data());
  sink.readout({.phase = phase,
                .step = step,
                .pos_id = pos,
                .top1_id = ids[0],
                .top1_logit = top[0],
                .top2_id = ids[1],
                .top2_logit = top[1],
                .vocab = vocab,
                .route = forward_.route(Op::kLmHead, is_decode(phase)),
                .cpu_top1_id = {}});
}

int32_t Generator::choose() {
  const int64_t vocab = model_.config().vocab;
  logits_.resize(static_cast<size_t>(vocab));
  backend_.read(forward_.logits() + (forward_.n_logits() - 1) * vocab, vocab, logits_.data());
  return sampler_.sample(logits_);
}

}  // namespace greta
