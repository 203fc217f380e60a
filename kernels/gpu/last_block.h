#pragma once

#include <cstdint>

#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// Which of several blocks is done last: that one makes something of what all have left in memory.
// Device code.

namespace greta {

/// The value before, with everything that the block has written before its last barrier visible to
/// who counts later, and everything that others have to who counted last.
__device__ inline uint32_t count_block(uint32_t* counter) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  uint32_t before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(__cvta_generic_to_global(counter))
               : "memory");
  return before;
#else
  __threadfence();
  const uint32_t before = atomic_fetch_add(counter, 1);
  __threadfence();
  return before;
#endif
}

/// Whether the other blocks of n that call this with the same counter, in global memory, have done
/// so: if it is true, what they have written is there. The counter is 0 before and left so.
/// Contains barriers.
__device__ inline bool is_last_block(uint32_t* counter, int n) {
  GRETA_SHARED(bool, last);
#if defined(GRETA_AMD)
  __threadfence();  // a barrier does not wait for writes to arrive
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
    last = count_block(counter) + 1 == static_cast<uint32_t>(n);
    if (last) *counter = 0;
  }
  __syncthreads();
#if defined(GRETA_AMD)
  __threadfence();
#endif
  return last;
}

}  // namespace greta
