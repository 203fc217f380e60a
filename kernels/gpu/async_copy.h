#pragma once

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/runtime.h"

// Copies from global to shared memory that go on while the block computes. Device code.
//
// NVIDIA has them (cp.async). Elsewhere a copy is done when the call returns, and the functions
// that wait do nothing: the same pipeline, without overlap.

namespace greta {

/// Begins to copy 16 bytes; both addresses 16-byte aligned.
__device__ inline void copy_async16(void* shared, const void* global) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
#else
  store_as(shared, load_as<Words4>(global));
#endif
}

/// Ends a group: the thread's copies begun since the last group.
__device__ inline void commit_copies() {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until all but the kPending newest groups of this thread have arrived. Other threads see
/// the data after a barrier.
template <int kPending>
__device__ inline void wait_for_copies() {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace greta
