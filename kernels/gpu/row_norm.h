#pragma once
#include <cstdint>

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// The norm of a row, for the kernel that is nothing else and for products that take it along.
// Device code.
//
// Squares are summed up in double as a block of kNormThreads does it: thread t those of groups of
// four t, t + kNormThreads, …, one after the other; then 32 neighbours, then the parts of the
// block. A smaller block's threads stand for several. The order depends on dim alone, so a row has
// the same bits in any batch, at any alignment, on every device, whoever computes it.

namespace greta {

inline constexpr int kNormThreads = 512;
inline constexpr int kNormGroup = 4;  // values
inline constexpr int kNormStride =
    kNormThreads * kNormGroup;  // from one group of a thread to its next

/// Adds a group's squares to those of the thread's earlier groups.
__device__ inline void add_squares(const Floats4& v, double& sum) {
  double own = 0;
  GRETA_UNROLL
  for (int j = 0; j < kNormGroup; ++j) {
    const double value = v.value[j];
    own = fma(value, value, own);
  }
  sum += own;
}

/// What values are multiplied with before their weight: 1 / √(mean of squares + eps). sums: of the
/// threads that this one stands for, itself and those kNormThreads / kShare, … further. Contains
/// barriers.
template <int kShare>
__device__ inline float norm_factor(const double (&sums)[kShare], int64_t dim, float eps) {
  constexpr int kParts = kNormThreads / 32;
  GRETA_SHARED(double, parts, [kParts]);
  GRETA_UNROLL
  for (int s = 0; s < kShare; ++s) {
    const double sum = wave_reduce<32>(sums[s], Plus{});
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32 + s * (kParts / kShare)] = sum;
  }
  __syncthreads();
  // Every thread adds the parts up itself: no second broadcast.
  double total[4] = {parts[0], parts[1], parts[2], parts[3]};
  GRETA_UNROLL
  for (int i = 4; i < kParts; ++i) total[i % 4] += parts[i];
  __syncthreads();  // the next call writes parts
  const double squares = (total[0] + total[1]) + (total[2] + total[3]);
  const double mean = squares / static_cast<double>(dim);
  return static_cast<float>(1.0 / sqrt(mean + static_cast<double>(eps)));
}

__device__ inline float normed(float x, float factor, float weight) { return x * factor * weight; }

}  // namespace greta
