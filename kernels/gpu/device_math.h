#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/attention_shape.h"
#include "kernels/blocks.h"
#include "kernels/gpu/device.h"
#include "kernels/gpu/runtime.h"

// Arithmetic that kernels share: 16-bit floats, exp, integer dot products, wide loads. Device code.
// What is said to be exact or correctly rounded has the same bits on every device and in the
// emulator.

namespace greta {

// ---- 16-bit floats are stored as their bits. To f32: exact. From f32: to nearest even; a NaN
// stays
// ---- a NaN, its bits may differ.

__device__ inline float f16_value(uint16_t bits) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#elif defined(GRETA_AMD)
  return static_cast<float>(bits_as<_Float16>(bits));
#else
  return f16_to_f32(bits);
#endif
}
__device__ inline uint16_t f16_bits(float value) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#elif defined(GRETA_AMD)
  return bits_as<uint16_t>(static_cast<_Float16>(value));
#else
  return f32_to_f16(value);
#endif
}

__device__ inline float bf16_value(uint16_t bits) {
  return bits_as<float>(static_cast<uint32_t>(bits) << 16);
}
__device__ inline uint16_t bf16_bits(float value) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  return f32_to_bf16(value);
#endif
}

/// The bits of a value as such a half, to nearest even.
template <HalfType kType>
__device__ uint16_t half_bits(float value) {
  return kType == HalfType::kF16 ? f16_bits(value) : bf16_bits(value);
}

/// The values of two f16 that lie in one word, the lower half first.
__device__ inline float2 f16_pair(uint32_t bits) {
  return {f16_value(static_cast<uint16_t>(bits)), f16_value(static_cast<uint16_t>(bits >> 16))};
}
__device__ inline float2 bf16_pair(uint32_t bits) {
  return {bits_as<float>(bits << 16), bits_as<float>(bits & 0xffff0000u)};
}

/// Two values as 16-bit floats in one word, the first in the lower half.
template <HalfType kType>
__device__ inline uint32_t half_pair(float low, float high) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  uint32_t pair;
  if constexpr (kType == HalfType::kF16) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
#else
  if constexpr (kType == HalfType::kF16) {
    return f16_bits(low) | static_cast<uint32_t>(f16_bits(high)) << 16;
  } else {
    return bf16_bits(low) | static_cast<uint32_t>(bf16_bits(high)) << 16;
  }
#endif
}

// ---- Functions.

/// e^x within 1.02 ulp; infinite where f32 overflows, +0 below e^−86.98, NaN for NaN. The
/// operations of kernels/simd/simd.h, so the bits of a processor with fused multiply-add.
///
/// x = n·ln 2 + r, n whole, |r| ≤ ln 2 / 2; e^x = 2^n·e^r, e^r = 1 + r + r²·p(r).
__device__ inline float exp_f32(float x) {
  constexpr float kLog2E = 0x1.715476p0f;
  constexpr float kRounder = 0x1.8p23f;  // a sum with it has the nearest integer's last bits
  constexpr float kLn2High = 0x1.63p-1f, kLn2Low = -0x1.bd0106p-13f;
  const float clamped = x > 89.0f ? 89.0f : x;
  const float rounded = fmaf(clamped, kLog2E, kRounder);
  const float n = rounded - kRounder;
  const float r = fmaf(n, -kLn2Low, fmaf(n, -kLn2High, clamped));
  float p = 0x1.6a2448p-10f;
  p = fmaf(p, r, 0x1.1239d6p-7f);
  p = fmaf(p, r, 0x1.5558f2p-5f);
  p = fmaf(p, r, 0x1.555492p-3f);
  p = fmaf(p, r, 0x1.fffffcp-2f);
  const float power = fmaf(p, r * r, r) + 1.0f;
  // 2^(n − 1), since 2^128 is not a number: twice the power makes up for it.
  const float scale =
      __builtin_bit_cast(float, (bits_as<uint32_t>(rounded) << 23) + (uint32_t{126} << 23));
  return clamped < -87.0f ? 0.0f : (power + power) * scale;
}

/// x·sigmoid(x). For x → −∞ the exponential is infinite and the quotient −0, as it should be.
__device__ inline float silu(float x) { return x / (1.0f + exp_f32(-x)); }

/// A pair of values turned by an angle (RoPE); turn: its cosine and sine.
__device__ inline float turned_first(float first, float second, float2 turn) {
  return fmaf(first, turn.x, -(second * turn.y));
}
__device__ inline float turned_second(float first, float second, float2 turn) {
  return fmaf(second, turn.x, first * turn.y);
}

/// Bytes of a and b as four signed numbers each: c + Σ aᵢ·bᵢ.
__device__ inline int32_t dot4_i8(uint32_t a, uint32_t b, int32_t c) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  return __dp4a(static_cast<int>(a), static_cast<int>(b), c);
#elif defined(GRETA_AMD) && defined(__HIP_DEVICE_COMPILE__)
  return __builtin_amdgcn_sdot4(static_cast<int>(a), static_cast<int>(b), c, false);
#else
  for (int i = 0; i < 4; ++i) {
    c += static_cast<int8_t>(a >> 8 * i) * static_cast<int8_t>(b >> 8 * i);
  }
  return c;
#endif
}

/// Four levels of iq4_nl, as a word has them.
constexpr uint32_t iq4_word(int first) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) {
    word |= static_cast<uint32_t>(static_cast<uint8_t>(kIq4Levels[first + i])) << 8 * i;
  }
  return word;
}

/// What iq4_nl means by four numbers of four bits, a byte each: signed bytes.
__device__ inline uint32_t iq4_levels(uint32_t numbers) {
  constexpr uint32_t k0 = iq4_word(0), k1 = iq4_word(4), k2 = iq4_word(8), k3 = iq4_word(12);
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  const uint32_t pairs = numbers & 0x07070707u, packed = pairs | pairs >> 4;
  const uint32_t selector = __byte_perm(packed, 0, 0x4420);
  const uint32_t low = __byte_perm(k0, k1, selector), high = __byte_perm(k2, k3, selector);
#elif defined(GRETA_AMD) && defined(__HIP_DEVICE_COMPILE__)
  const uint32_t low = __builtin_amdgcn_perm(k1, k0, numbers & 0x07070707u);
  const uint32_t high = __builtin_amdgcn_perm(k3, k2, numbers & 0x07070707u);
#else
  uint32_t low = 0, high = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t number = numbers >> 8 * i & 7;
    low |= ((number < 4 ? k0 : k1) >> number % 4 * 8 & 0xff) << 8 * i;
    high |= ((number < 4 ? k2 : k3) >> number % 4 * 8 & 0xff) << 8 * i;
  }
#endif
  const uint32_t upper = (numbers >> 3 & 0x01010101u) * 0xff;
  return (low & ~upper) | (high & upper);
}

// ---- Loads and stores.

/// Offsets that the compiler does not see through: else it computes every address of a loop ahead
/// of it, and there are more of them than registers.
__device__ inline int opaque(int offset) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  asm volatile("" : "+r"(offset));
#elif defined(GRETA_AMD) && defined(__HIP_DEVICE_COMPILE__)
  asm volatile("" : "+v"(offset));
#endif
  return offset;
}

/// One access of sizeof(T) bytes, whatever type is stored there; address a multiple of alignof(T).
template <class T>
__device__ inline T load_as(const void* address) {
#if defined(GRETA_NVIDIA)
  return *static_cast<const T*>(address);
#else
  T value;
  __builtin_memcpy(&value, __builtin_assume_aligned(address, alignof(T)), sizeof value);
  return value;
#endif
}
template <class T>
__device__ inline void store_as(void* address, const T& value) {
#if defined(GRETA_NVIDIA)
  *static_cast<T*>(address) = value;
#else
  __builtin_memcpy(__builtin_assume_aligned(address, alignof(T)), &value, sizeof value);
#endif
}

/// 8 bytes, and 16, that move as one.
struct alignas(8) Words2 {
  uint32_t word[2];

  /// Byte i.
  __device__ int operator[](int i) const {
    return static_cast<int>(word[i / 4] >> i % 4 * 8 & 0xff);
  }
};
struct alignas(16) Words4 {
  uint32_t word[4];
};
/// Four values as a cache stores them (kernels/attention_shape.h), floats or halves, that move as
/// one.
template <class Stored>
struct alignas(4 * sizeof(Stored)) Four {
  Stored value[4];
};
using Floats4 = Four<float>;

__device__ inline float value_of(float stored) { return stored; }
__device__ inline float value_of(uint16_t stored) { return f16_value(stored); }
/// The f16 of a stored value.
__device__ inline uint16_t f16_of(float stored) { return f16_bits(stored); }
__device__ inline uint16_t f16_of(uint16_t stored) { return stored; }
/// Those of two, as half_pair() has them.
__device__ inline uint32_t f16_pair_of(float low, float high) {
  return half_pair<HalfType::kF16>(low, high);
}
__device__ inline uint32_t f16_pair_of(uint16_t low, uint16_t high) {
  return low | static_cast<uint32_t>(high) << 16;
}
/// Stores value `at` of a cache.
__device__ inline void store_kv(const KvRows& rows, int64_t at, float value) {
  if (rows.type == KvType::kF16) {
    static_cast<uint16_t*>(rows.data)[at] = f16_bits(value);
  } else {
    static_cast<float*>(rows.data)[at] = value;
  }
}

/// True if all addresses suit 16-byte accesses. Host and device.
template <class... Pointers>
__host__ __device__ inline bool aligned16(const Pointers*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) | ...) & 15) == 0;
}

/// All bits set for i < n, else none. Conditions on AMD stay in scalar registers, which are few;
/// masks do not.
__device__ inline int mask_below(int i, int n) {
  int mask = (i - n) >> 31;
#if defined(GRETA_AMD) && defined(__HIP_DEVICE_COMPILE__)
  asm("" : "+v"(mask));
#endif
  return mask;
}
__device__ inline float masked(float value, int mask) {
  return bits_as<float>(bits_as<int>(value) & mask);
}
__device__ inline uint16_t masked(uint16_t value, int mask) {
  return static_cast<uint16_t>(value & mask);
}

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

/// Begins to copy 16 bytes; both addresses 16-byte aligned.
// ---- Copies from global to shared memory that go on while the block computes.
//
// NVIDIA has them (cp.async). Elsewhere a copy is done when the call returns, and the functions
// that wait do nothing: the same pipeline, without overlap.

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
