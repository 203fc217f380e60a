#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/attention_shape.h"
#include "kernels/gpu/attention_device.h"
#include "kernels/gpu/attention_mfma_call.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/query_tile.h"
#include "kernels/gpu/runtime.h"

// The arithmetic of attention_mfma that must be the same wherever it is done, so that a query has
// the same bits in a tile of many and alone (kernels/gpu/attention_mfma.hip): weights, how sums
// come to a new maximum, how blocks of keys are folded into a total, and what is traced.
// Device code.

namespace greta::attention_mfma_detail {

inline constexpr float kLog2E = 0x1.715476p0f;

/// What sums of weights are relative to, and the sum of the weights themselves.
struct alignas(8) Softmax {
  float most, sum;
};

/// Weights of a query's scores: e^(|scale|·score − maximum), as powers of two.
class Exponents {
 public:
  __device__ explicit Exponents(const AttentionShape& shape)
      : shape_(shape), log_scale_(fabsf(shape.scale) * kLog2E) {}

  /// Of a sum of nothing.
  __device__ Softmax none() const { return {shape_.subtract_max ? -INFINITY : INFINITY, 0}; }

  /// What is added to scores in units of log2, before they are exponents.
  __device__ float shift_of(float most) const {
    // While every score is −∞ there is nothing to be relative to.
    const float shift = most == -INFINITY ? 0.0f : -(most * log_scale_);
    // Nor to a maximum of ∞, which without subtract_max is there from the start.
    const float last = shape_.subtract_max ? -INFINITY : shape_.score_shift * kLog2E;
    return most == INFINITY ? last : shift;
  }
  __device__ float weight(float score, float shift) const {
    return fast_exp2(fmaf(score, log_scale_, shift));
  }
  /// What sums with a maximum of before are multiplied with to be relative to a later one.
  __device__ float factor(float before, float most) const {
    const float power = fast_exp2(shift_of(most) - shift_of(before));
    return before == -INFINITY ? 0.0f : power;
  }

 private:
  const AttentionShape& shape_;
  float log_scale_;
};

/// Four dimensions of a query as operands are, negative for a negative scale: a maximum is then one
/// after scaling as well.
struct QueryFour {
  uint32_t low, high;
};
__device__ inline QueryFour query_four(const AttentionShape& shape, const Floats4& q) {
  const float sign = shape.scale < 0 ? -1.0f : 1.0f;
  return {half_pair<HalfType::kF16>(sign * q.value[0], sign * q.value[1]),
          half_pair<HalfType::kF16>(sign * q.value[2], sign * q.value[3])};
}

/// A total takes a block in: what both are multiplied with.
struct Fold {
  float total, block;
};
__device__ inline Fold fold_of(const Exponents& exponents, float total_most, float block_most) {
  const float most = fmaxf(total_most, block_most);
  return {exponents.factor(total_most, most), exponents.factor(block_most, most)};
}
__device__ inline float folded(float total, float block, Fold fold) {
  return fmaf(total, fold.total, block * fold.block);
}

/// Whether a value is not finite that some of a tile's queries see and others do not, or that lies
/// in a block with such.
template <int kDim>
__device__ inline bool has_nonfinite_values(const Call& call, const HalfCache& cache, int g,
                                            int first_token, int n_queries) {
  using S = Sizes<kDim>;
  const int64_t last_token = call.shape.n_tokens - 1;
  const int64_t end = int64_t{first_token} + n_queries - 1;
  const int seen_by_all = visible_keys(call.shape, *call.first_pos + first_token);
  const int seen_by_any =
      visible_keys(call.shape, *call.first_pos + (end < last_token ? end : last_token));
  bool nonfinite = false;
  const auto look = [&](int from, int to) {
    for (int piece = from / S::kStageKeys; piece * S::kStageKeys < to; ++piece) {
      nonfinite |= cache.nonfinite[int64_t{g} * cache.n_pieces + piece] != 0;
    }
  };
  look(seen_by_all, seen_by_any);
  const int hidden_from_all = hidden_keys(call.shape, *call.first_pos + first_token);
  const int hidden_from_any =
      hidden_keys(call.shape, *call.first_pos + (end < last_token ? end : last_token));
  look(hidden_from_all / kBlockKeys * kBlockKeys, hidden_from_any);
  return nonfinite;
}

// ---- Traced weights. Of two neighbouring keys the first weight is stored with the lower half of
// the maximum that it is relative to, the second one with the upper half: a weight is an f16. When
// the last maximum and the sum are known, what they amount to is put in place.

/// Stores the weights of a key and, if it is in the trace, of the one after it, `stride` further.
__device__ inline void trace_two_weights(float* to, int64_t stride, bool has_next, float first,
                                         float second, float most) {
  const auto bits = bits_as<uint32_t>(most);
  to[0] = bits_as<float>(f16_bits(first) | bits << 16);
  if (has_next) to[stride] = bits_as<float>(f16_bits(second) | (bits & 0xffff0000u));
}

/// What is known of a query when all of its keys have been seen.
struct alignas(16) Final {
  float most, share;  ///< one over the sum of weights
  float last_most;    ///< that weights of its last block of keys are relative to
};

/// Puts probabilities in the place of what trace_two_weights() left, from `trace` on, for keys up
/// to n_keys; those from n_hidden on, before n_visible, are seen. By all n_threads threads of the
/// block.
__device__ inline void finish_weights(const Exponents& exponents, float* trace, int64_t stride,
                                      int n_keys, int n_hidden, int n_visible, const Final& query,
                                      int n_threads) {
  for (int key = 2 * static_cast<int>(threadIdx.x); key < n_keys; key += 2 * n_threads) {
    const bool has_next = key + 1 < n_keys;
    float* const to = trace + key * stride;
    float* const next = to + (has_next ? stride : 0);
    const auto first_bits = bits_as<uint32_t>(*to), next_bits = bits_as<uint32_t>(*next);
    // Without a second key it was the query's last block.
    const float most =
        has_next ? bits_as<float>(first_bits >> 16 | (next_bits & 0xffff0000u)) : query.last_most;
    const float share = exponents.factor(most, query.most) * query.share;
    const auto prob = [&](int k, uint32_t bits) {
      return k >= n_hidden && k < n_visible ? f16_value(static_cast<uint16_t>(bits)) * share : 0.0f;
    };
    *to = prob(key, first_bits);
    if (has_next) *next = prob(key + 1, next_bits);
  }
}

}  // namespace greta::attention_mfma_detail
