#pragma once

#include <cstdint>

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/runtime.h"

namespace greta {

/// Copies n values by a block of kThreads threads, four at a time where both sides allow.
template <int kThreads>
__device__ void copy_values(const float* from, uint32_t n, float* to) {
  constexpr int kAhead = 4;  // their latencies overlap
  uint32_t done = 0;
  if (aligned16(from, to)) {
    done = n & ~3u;
    uint32_t i = 4 * threadIdx.x;
    for (; i + 4 * (kAhead - 1) * kThreads < done; i += 4 * kAhead * kThreads) {
      Floats4 held[kAhead];
      GRETA_UNROLL
      for (int j = 0; j < kAhead; ++j) {
        held[j] = load_as<Floats4>(from + i + 4 * static_cast<uint32_t>(j) * kThreads);
      }
      GRETA_UNROLL
      for (int j = 0; j < kAhead; ++j) {
        store_as(to + i + 4 * static_cast<uint32_t>(j) * kThreads, held[j]);
      }
    }
    for (; i < done; i += 4 * kThreads) store_as(to + i, load_as<Floats4>(from + i));
  }
  for (uint32_t i = done + threadIdx.x; i < n; i += kThreads) to[i] = from[i];
}

}  // namespace greta
