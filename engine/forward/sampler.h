#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace greta {

/// How to choose the next token.
struct SamplerOptions {
  double temperature = 0;  ///< 0: always the greatest logit
  int64_t top_k = 0;       ///< only the k greatest logits; 0: all
  double top_p = 1;        ///< of these, the most likely that together reach this probability
  uint64_t seed = 0;
};

/// Chooses tokens from logits: temperature first, then top-k, then top-p. The same seed and the
/// same logits give the same tokens on every platform: random numbers come from a counter, and the
/// exponential is made of basic IEEE operations only.
class Sampler {
 public:
  /// Throws std::invalid_argument for a negative temperature or top_k, or a top_p outside (0, 1].
  explicit Sampler(const SamplerOptions& options);

  bool is_greedy() const { return options_.temperature == 0; }

  /// Index of the chosen logit. Ties go to the lower index, NaN is never chosen. Throws
  /// std::runtime_error when no logit is a number.
  int32_t sample(std::span<const float> logits);

 private:
  struct Candidate {
    int32_t id;
    float logit;
    double weight;  ///< probability up to a common factor
  };
  static bool less_likely(const Candidate& a, const Candidate& b);
  void weigh(float greatest);
  double keep_likeliest();
  double next_uniform();

  SamplerOptions options_;
  uint64_t draws_ = 0;
  std::vector<Candidate> candidates_;
};

}  // namespace greta
