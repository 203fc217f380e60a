#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/gpu/attention_device.h"
#include "kernels/gpu/runtime.h"

// What the blocks of attention_valu agree on: where keys are split, and what lies in scratch
// (kernels/gpu/attention_valu.hip).

namespace greta::attention_valu_detail {

inline constexpr int kThreads = 256;
inline constexpr int kShortSplit = 64;  // keys
inline constexpr int kMostSplits = 32;

// ---- Where keys are split: into up to kMostSplits, which keep a device busy, of whole short ones.

__host__ __device__ inline int splits_of(int n_keys, int split_keys) {
  return n_keys / split_keys + (n_keys % split_keys != 0 ? 1 : 0);
}
__host__ __device__ inline int split_keys_of(int n_keys) {
  return splits_of(splits_of(n_keys, kShortSplit), kMostSplits) * kShortSplit;
}

/// The key that a query's splits begin with: what is before it the window hides.
__device__ inline int first_split_key(const AttentionShape& shape, int64_t position) {
  return hidden_keys(shape, position) / kShortSplit * kShortSplit;
}

/// Traced weights are relative to the maxima of their groups until all splits are combined. What
/// finishes them is kept by query head, so that it lies in the same place however heads share
/// blocks. For every token of a launch: {overall maximum, share of a weight relative to it} of
/// every head, then maxima [splits, kGroups, n_heads].
struct UnfinishedLayout {
  int64_t token_values;

  UnfinishedLayout(int64_t n_heads, int n_groups, int n_splits)
      : token_values((n_heads * (2 + int64_t{n_groups} * n_splits) + 3) / 4 * 4) {}  // 16 bytes
  __device__ int64_t head(int token, int h) const { return token * token_values + 2 * h; }
  template <int kGroups>
  __device__ int64_t maxima(int token, int split, int n_heads) const {
    return head(token, n_heads) + split * kGroups * n_heads;
  }
};

struct Call {
  AttentionShape shape;
  const int32_t* first_pos;
  const float* q;
  const void* k;  // as the cache stores values
  const void* v;
  float* out;
  AttentionTrace trace;
  uint32_t* counters;  // [tokens of the launch, gridDim.x]
  float* partials;     // [tokens, gridDim.x, gridDim.y, kPartial]
  float* unfinished;   // with this layout
  UnfinishedLayout layout;
  int64_t first_token;
};

/// What groups of threads and splits know of their sums.
struct alignas(8) Softmax {
  float most, sum;
};

/// What is added to scores before they are exponents. Where every score is −∞ there is nothing to
/// be relative to.
__device__ inline float shift_of(float most) { return most == -INFINITY ? 0.0f : -most; }

template <int kDim>
struct Sizes {
  static constexpr int kLanes = kDim < 128 ? kDim / 4 : 32;  // neighbours that share a row
  static constexpr int kPieces = kDim / (4 * kLanes);        // 16 bytes each
  static constexpr int kGroups = kThreads / kLanes;
  static constexpr int kChunk = kDim > 128 ? 32 : 64;  // keys in registers
  static constexpr int kPasses = kChunk / kGroups;     // keys of a group
  static constexpr int kPartial = kDim + 4;            // of a head: the sums and its Softmax
};

}  // namespace greta::attention_valu_detail
