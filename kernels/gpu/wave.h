#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/gpu/runtime.h"

// What the lanes of a wavefront and the threads of a block do together. Device code.
//
// Every lane of the wavefront takes part in a wave_ function, every thread of the block in a block_
// function, at the same place of the source; blocks are whole wavefronts (multiples of 64 threads
// suit every device). T is a type of 4 or 8 bytes.

namespace greta {

__device__ inline int lane_id() { return static_cast<int>(threadIdx.x) % kWave; }
__device__ inline int wave_id() { return static_cast<int>(threadIdx.x) / kWave; }
__device__ inline int n_waves() { return static_cast<int>(blockDim.x) / kWave; }

// ---- Exchange.

namespace wave_detail {

#if defined(GRETA_NVIDIA)
inline constexpr unsigned kAllLanes = 0xffffffffu;
__device__ inline uint32_t shuffle(uint32_t v, int lane) { return __shfl_sync(kAllLanes, v, lane); }
__device__ inline uint32_t shuffle_xor(uint32_t v, int mask) {
  return __shfl_xor_sync(kAllLanes, v, mask);
}
#else
__device__ inline uint32_t shuffle(uint32_t v, int lane) { return __shfl(v, lane); }
__device__ inline uint32_t shuffle_xor(uint32_t v, int mask) { return __shfl_xor(v, mask); }
#endif

/// Applies a move of 32 bits to each half of a T.
template <class T, class Move>
__device__ inline T move(T value, Move move_word) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  if constexpr (sizeof(T) == 4) {
    return bits_as<T>(move_word(bits_as<uint32_t>(value)));
  } else {
    const auto bits = bits_as<uint64_t>(value);
    const uint64_t low = move_word(static_cast<uint32_t>(bits));
    const uint64_t high = move_word(static_cast<uint32_t>(bits >> 32));
    return bits_as<T>(high << 32 | low);
  }
}

}  // namespace wave_detail

/// The value of lane `lane`, in [0, kWave).
template <class T>
__device__ inline T wave_shuffle(T value, int lane) {
  return wave_detail::move(value,
                           [lane](uint32_t word) { return wave_detail::shuffle(word, lane); });
}
/// The value of lane own ^ mask.
template <class T>
__device__ inline T wave_shuffle_xor(T value, int mask) {
  return wave_detail::move(value,
                           [mask](uint32_t word) { return wave_detail::shuffle_xor(word, mask); });
}
/// Bit l: whether lane l gave true. Bits from kWave on are 0.
__device__ inline uint64_t wave_ballot(bool predicate) {
#if defined(GRETA_NVIDIA)
  return __ballot_sync(wave_detail::kAllLanes, predicate);
#else
  return __ballot(predicate ? 1 : 0);
#endif
}

/// True if a condition holds in some lane. One that is the same in all of them is so a matter of a
/// branch; else, as the compiler cannot know, it is a mask that takes registers while it is inside.
__device__ inline bool wave_any(bool predicate) { return wave_ballot(predicate) != 0; }

// ---- Reductions. Every lane, or thread, gets the result, with the same bits. Sums of floats are
// in
// ---- an order that depends on kWave: what must not differ between devices is summed as integers,
// or
// ---- in double and rounded once.

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
/// NaN is ignored where the other value is a number.
struct Max {
  template <class T>
  __device__ T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return a > b || b != b ? a : b;
    } else {
      return a > b ? a : b;
    }
  }
};
struct Min {
  template <class T>
  __device__ T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return a < b || b != b ? a : b;
    } else {
      return a < b ? a : b;
    }
  }
};

/// Over groups of kLanes neighbouring lanes, a power of two; whole wavefronts by default. Combine
/// is commutative.
template <int kLanes = kWave, class T, class Combine>
__device__ inline T wave_reduce(T value, Combine combine) {
  static_assert(kLanes <= kWave && (kLanes & (kLanes - 1)) == 0);
  GRETA_UNROLL
  for (int mask = kLanes / 2; mask > 0; mask /= 2) {
    value = combine(value, wave_shuffle_xor(value, mask));
  }
  return value;
}
/// Over the block; T's shared memory is used by all calls with this T and Combine. Contains
/// barriers.
template <class T, class Combine>
__device__ inline T block_reduce(T value, Combine combine) {
  GRETA_SHARED(T, parts, [kMaxBlockThreads / kWave]);
  value = wave_reduce(value, combine);
  const int waves = n_waves();
  if (waves == 1) return value;
  if (lane_id() == 0) parts[wave_id()] = value;
  __syncthreads();
  // Every wavefront combines the parts anew, in the same order: no second broadcast.
  T result = parts[0];
  for (int wave = 1; wave < waves; ++wave) result = combine(result, parts[wave]);
  __syncthreads();  // the next call writes parts
  return result;
}
template <class T>
__device__ inline T block_sum(T value) {
  return block_reduce(value, Plus{});
}
// ---- Atomics, on shared or global memory, in no particular order (relaxed).

__device__ inline void atomic_add(uint32_t* address, uint32_t value) {
  static_cast<void>(atomicAdd(address, value));
}
__device__ inline void atomic_add(uint64_t* address, uint64_t value) {
  static_assert(sizeof(unsigned long long) == sizeof(uint64_t));
  static_cast<void>(atomicAdd(reinterpret_cast<unsigned long long*>(address),
                              static_cast<unsigned long long>(value)));
}
__device__ inline void atomic_add(int64_t* address, int64_t value) {
  atomic_add(reinterpret_cast<uint64_t*>(address), static_cast<uint64_t>(value));
}
__device__ inline void atomic_max(uint32_t* address, uint32_t value) {
  static_cast<void>(atomicMax(address, value));
}
/// The value before.
__device__ inline uint32_t atomic_fetch_add(uint32_t* address, uint32_t value) {
  return atomicAdd(address, value);
}

/// Lanes of a wavefront meet, and see what each has written to shared memory.
__device__ inline void wave_barrier() {
#if defined(GRETA_NVIDIA)
  __syncwarp();
#elif defined(GRETA_AMD)
#if defined(__HIP_DEVICE_COMPILE__)
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
#endif
#else
  static_cast<void>(wave_ballot(true));
#endif
}

// ---- Which of several blocks is done last: that one makes something of what all have left in
// memory. Device code.

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

/// True if the other blocks of n that call this with the same counter, in global memory, have done
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
