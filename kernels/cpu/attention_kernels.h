#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"

// The loops of both routes of attention, per instruction set. All arrays f32, of any alignment.
// `dim` is a head's length rounded up to a multiple of kDimStep; the values added are zero.

namespace greta {

inline constexpr int64_t kDimStep = 16;
inline constexpr int64_t kBlockKeys = 64;  ///< keys that are taken in at a time
inline constexpr int64_t kTileRows = 6;    ///< rows whose sums over a block fit in registers

/// weight = exp(score − m), m the greatest score; without subtract_max exp(score + shift).
struct SoftmaxRule {
  bool subtract_max;
  float shift;
};

/// What an online softmax knows of one row so far; sum is of weights relative to max.
struct OnlineState {
  float max;
  float sum;
};

/// Keys that a query sees: from `begin` on, below `end`, which is not before.
struct SeenKeys {
  int64_t begin, end;
};

struct AttentionKernels {
  // ---- Two passes: q, out [n_heads, dim]; a block of at most kBlockKeys keys or values in rows
  // `stride` apart. ahead: a whole block that is needed soon, with the same stride, to be fetched
  // from memory meanwhile; nullptr: none.

  /// scores[h·score_stride + j] = scale·(q[h]·k[j]), j < n_keys. What lies between n_keys and the
  /// next multiple of kDimStep is overwritten with anything.
  void (*dot_scores)(const float* q, int64_t n_heads, int64_t dim, const float* k, int64_t stride,
                     int64_t n_keys, const float* ahead, float scale, float* scores,
                     int64_t score_stride);

  /// Turns scores [n], n ≥ 1, into probabilities; overwrites up to the next multiple of kDimStep.
  void (*softmax)(float* scores, int64_t n, SoftmaxRule rule);

  /// out[h] += Σ_j probs[h·prob_stride + j]·v[j], j < n_keys.
  void (*weigh)(const float* probs, int64_t prob_stride, int64_t n_heads, const float* v,
                int64_t stride, int64_t n_keys, const float* ahead, int64_t dim, float* out);

  // ---- Online: kTileRows rows of queries against a block of at most kBlockKeys keys. seen [row]:
  // which of the keys the row sees. The others are not used.

  /// scores[r·kBlockKeys + j] = scale·(q[r]·k[j]), j < n_keys; q [kTileRows, dim],
  /// k [dim, kBlockKeys].
  void (*tile_scores)(const float* q, int64_t dim, const float* k, int64_t n_keys, float scale,
                      float* scores);

  /// Turns scores into weights relative to their rows' new maxima and takes them into states [row].
  /// factors [row] gets what sums made with the old maxima must be multiplied with.
  void (*tile_weights)(float* scores, const SeenKeys* seen, SoftmaxRule rule, OnlineState* states,
                       float* factors);

  /// sums[r] = sums[r]·factors[r] + Σ_j weights[r·kBlockKeys + j]·v[j]; sums [kTileRows, dim].
  void (*tile_values)(const float* weights, const SeenKeys* seen, const float* factors,
                      const float* v, int64_t stride, int64_t dim, float* sums);
};

GRETA_DECLARE_KERNELS(AttentionKernels, attention_kernels)

}  // namespace greta
