#include "engine/forward/sampler.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "kernels/fingerprint/fingerprint.h"

namespace greta {
namespace {

/// e^x for x ≤ 0 to about 1e-15, from additions and products alone: std::exp differs in the last
/// bit from one C library to the next.
double portable_exp(double x) {
  constexpr double kSmallest = -700;
  constexpr double kLn2High = 0x1.62e42fee00000p-1;
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  if (!(x > kSmallest)) return 0;
  const double k = std::floor(x / (kLn2High + kLn2Low) + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  constexpr int kTerms = 14;  // |r| ≤ ln 2 / 2: the next one is below 2^-60
  double sum = 1;
  for (int n = kTerms; n > 0; --n) sum = 1 + r / n * sum;
  return std::ldexp(sum, static_cast<int>(k));
}

}  // namespace

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  if (!(options.temperature >= 0) || std::isinf(options.temperature)) {
    throw std::invalid_argument("the temperature must be a number from 0 on");
  }
  if (options.top_k < 0) throw std::invalid_argument("top-k must be 0 (all) or more");
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    throw std::invalid_argument("top-p must be above 0 and at most 1");
  }
}

bool Sampler::less_likely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit < b.logit : a.id > b.id;
}

int32_t Sampler::sample(std::span<const float> logits) {
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isnan(logits[i])) candidates_.push_back({static_cast<int32_t>(i), logits[i], 0});
  }
  const auto greatest = std::max_element(candidates_.begin(), candidates_.end(), less_likely);
  if (greatest == candidates_.end() || greatest->logit == -INFINITY) {
    throw std::runtime_error("none of " + std::to_string(logits.size()) +
                             " logits is a number above -inf: nothing can be chosen");
  }
  if (is_greedy()) return greatest->id;
  weigh(greatest->logit);
  double left = keep_likeliest() * next_uniform();
  for (const Candidate& candidate : candidates_) {
    left -= candidate.weight;
    if (left < 0) return candidate.id;
  }
  // Rounding used up the sum: the last one that could be chosen at all.
  const auto last = std::find_if(candidates_.rbegin(), candidates_.rend(),
                                 [](const Candidate& candidate) { return candidate.weight > 0; });
  return last->id;
}

/// Weights relative to the greatest logit, so that nothing overflows.
void Sampler::weigh(float greatest) {
  for (Candidate& candidate : candidates_) {
    const double below = static_cast<double>(candidate.logit) - static_cast<double>(greatest);
    // Two infinities have no difference.
    candidate.weight = candidate.logit == greatest ? 1 : portable_exp(below / options_.temperature);
  }
}

/// Drops what top-k and top-p exclude; returns the sum of the weights that are left.
double Sampler::keep_likeliest() {
  if (options_.top_k > 0 && static_cast<size_t>(options_.top_k) < candidates_.size()) {
    std::partial_sort(candidates_.begin(), candidates_.begin() + options_.top_k, candidates_.end(),
                      [](const Candidate& a, const Candidate& b) { return less_likely(b, a); });
    candidates_.resize(static_cast<size_t>(options_.top_k));
  }
  double all = 0;
  for (const Candidate& candidate : candidates_) all += candidate.weight;
  if (options_.top_p == 1) return all;
  std::make_heap(candidates_.begin(), candidates_.end(), less_likely);
  auto heap_end = candidates_.end();
  double kept = 0;
  do {  // a few of a large vocabulary, as a rule
    std::pop_heap(candidates_.begin(), heap_end--, less_likely);
    kept += heap_end->weight;
  } while (kept < options_.top_p * all && heap_end != candidates_.begin());
  candidates_.erase(candidates_.begin(), heap_end);
  return kept;
}

/// In [0, 1), from the seed and how many were drawn before.
double Sampler::next_uniform() {
  constexpr uint64_t kGoldenGamma = 0x9e3779b97f4a7c15u;
  const uint64_t draw = mix64(mix64(options_.seed) + kGoldenGamma * ++draws_);
  return std::ldexp(static_cast<double>(draw >> 11), -53);
}

}  // namespace greta
