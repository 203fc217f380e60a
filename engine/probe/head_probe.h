#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/forward/model.h"
#include "kernels/cpu/thread_pool.h"

// Computes the final norm and the logits again, in double arithmetic.

namespace greta {

/// What an RMS norm should have given, and how far off it is.
struct RmsCheck {
  double sum_sq = 0;  ///< Σx² of its input, in double
  double eps = 0;
  double max_rel_err = 0;  ///< greatest |given − expected| / |expected|; NaN when either is
  double rel_l2 = 0;       ///< relative_error() of the norm
};

/// ‖given − expected‖ over the larger norm, as readouts record it: kNotFinite when that is NaN or
/// infinite.
double relative_error(std::span<const float> given, std::span<const double> expected);
inline constexpr double kNotFinite = 1e30;

/// The LM head done again on the CPU, in double, from the hidden state that was traced: tells which
/// route of the engine to doubt when prefill and decode choose different tokens.
class HeadProbe {
 public:
  /// The model must outlive it. n_threads as for make_cpu_backend.
  HeadProbe(const Model& model, int n_threads);

  /// hidden: f32 [dim], residual stream after the stack; given: f32 [dim], what the engine made of
  /// it.
  RmsCheck check_norm(std::span<const float> hidden, std::span<const float> given) const;

  /// logits [vocab] in double: norm and product from `hidden`, weights expanded to f32.
  std::vector<double> logits(std::span<const float> hidden);

  /// Index of the greatest logit, ties to the lower one; -1 when none is a number.
  static int32_t top1(std::span<const double> logits);

 private:
  std::vector<double> norm(std::span<const float> hidden) const;

  const Model& model_;
  ThreadPool pool_;
};

}  // namespace greta
