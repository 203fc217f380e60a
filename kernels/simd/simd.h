#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

// Vectors for *_simd.cpp, as wide as the instruction set that the file is being compiled for.
//
// They are the compiler's own vector types: + - * / & | ^ << >> and comparisons work lane by lane,
// a comparison gives all ones or zero, and `mask ? a : b` selects. Intrinsics stand only where
// compilers make poor code of the plain form, or where the rounding must not depend on the
// compiler: contraction is switched off for these files, so a·b + c is two roundings and madd() is
// what the instruction set does. The same source thus gives the same bits wherever it is inlined.
//
// A *_simd.cpp, this header included, must not use inline functions or templates of the C++
// library, nor inline functions of greta's other headers: the linker keeps one copy of such a
// function for the whole program, and it might be the one compiled for AVX-512. What is here has
// internal linkage or lives in the namespace of the instruction set; a kernel's own helpers do the
// same.

#ifndef GRETA_ISA
#error "only for files that greta_host_kernels() compiles"
#endif

#define GRETA_INLINE static inline __attribute__((always_inline))

namespace greta::GRETA_ISA {

#if defined(__AVX512F__)
constexpr int kLanes = 16;          ///< of 32 bits
constexpr __mmask16 kAll = 0xffff;  // unmasked forms make g++ 12 warn about its own headers
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float F32 __attribute__((vector_size(4 * kLanes)));
typedef int32_t I32 __attribute__((vector_size(4 * kLanes)));
typedef uint32_t U32 __attribute__((vector_size(4 * kLanes)));
typedef uint16_t U16 __attribute__((vector_size(2 * kLanes)));  // as many values as F32, so I16, I8
typedef int16_t I16 __attribute__((vector_size(2 * kLanes)));
typedef uint8_t U8 __attribute__((vector_size(kLanes)));
typedef int8_t I8 __attribute__((vector_size(kLanes)));
typedef uint8_t Bytes __attribute__((vector_size(4 * kLanes)));  // as many bytes as F32

/// From and to memory of any alignment.
template <class V>
GRETA_INLINE V load(const void* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof(V));
  return v;
}
template <class V>
GRETA_INLINE void store(void* to, V v) {
  __builtin_memcpy(to, &v, sizeof(V));
}
GRETA_INLINE F32 load_f32(const float* from) { return load<F32>(from); }

/// A vector that several operations take, loaded once: a compiler thinks a second load is free.
GRETA_INLINE F32 in_register(F32 v) {
#if defined(__x86_64__)
  asm("" : "+v"(v));
#elif defined(__aarch64__)
  asm("" : "+w"(v));
#endif
  return v;
}

/// The first n < kLanes values, the other lanes zero; and their counterpart.
GRETA_INLINE F32 load_f32_part(const float* from, int64_t n) {
  F32 v = {};
  __builtin_memcpy(&v, from, static_cast<size_t>(n) * sizeof(float));
  return v;
}
GRETA_INLINE void store_f32_part(float* to, F32 v, int64_t n) {
  __builtin_memcpy(to, &v, static_cast<size_t>(n) * sizeof(float));
}

GRETA_INLINE F32 splat(float value) { return value - F32{}; }
GRETA_INLINE I32 splat_i32(int32_t value) { return value - I32{}; }

GRETA_INLINE U32 bits(F32 v) { return reinterpret_cast<U32>(v); }
GRETA_INLINE F32 from_bits(U32 v) { return reinterpret_cast<F32>(v); }

/// a·b + c: one rounding where the instruction set has a fused multiply-add, else two.
GRETA_INLINE F32 madd(F32 a, F32 b, F32 c) {
#if defined(__AVX512F__)
  return reinterpret_cast<F32>(_mm512_fmadd_ps(
      reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
#elif defined(__FMA__)
  return reinterpret_cast<F32>(_mm256_fmadd_ps(
      reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
#elif defined(__aarch64__)
  return reinterpret_cast<F32>(vfmaq_f32(reinterpret_cast<float32x4_t>(c),
                                         reinterpret_cast<float32x4_t>(a),
                                         reinterpret_cast<float32x4_t>(b)));
#else
  return a * b + c;
#endif
}

/// The greater or lesser of each lane; b where either is NaN.
GRETA_INLINE F32 max(F32 a, F32 b) { return a > b ? a : b; }
GRETA_INLINE F32 min(F32 a, F32 b) { return a < b ? a : b; }

/// Numbers that the compiler must leave in memory from here on: a broadcast from there is free, out
/// of another vector it is not.
template <class T, size_t kCount>
GRETA_INLINE void keep_in_memory(T (&numbers)[kCount]) {
  asm("" : "+m"(numbers));
}

GRETA_INLINE F32 to_f32(I32 v) { return __builtin_convertvector(v, F32); }

/// kLanes signed bytes, unsigned bytes, unsigned 16-bit numbers.
GRETA_INLINE I32 load_i8(const int8_t* from) {
#if defined(__AVX512F__)
  return reinterpret_cast<I32>(
      _mm512_maskz_cvtepi8_epi32(kAll, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#elif defined(__AVX2__)
  return reinterpret_cast<I32>(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#elif defined(__SSE2__)
  const __m128i four = _mm_cvtsi32_si128(load<int32_t>(from));
  const __m128i twice = _mm_unpacklo_epi8(four, four);
  return reinterpret_cast<I32>(_mm_unpacklo_epi16(twice, twice)) >> 24;
#else
  return __builtin_convertvector(__builtin_convertvector(load<I8>(from), I16), I32);
#endif
}
GRETA_INLINE I32 load_u8(const uint8_t* from) {
#if defined(__AVX512F__)
  return reinterpret_cast<I32>(
      _mm512_maskz_cvtepu8_epi32(kAll, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#elif defined(__AVX2__)
  return reinterpret_cast<I32>(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#elif defined(__SSE2__)
  const __m128i four = _mm_cvtsi32_si128(load<int32_t>(from));
  const __m128i zero = _mm_setzero_si128();
  return reinterpret_cast<I32>(_mm_unpacklo_epi16(_mm_unpacklo_epi8(four, zero), zero));
#else
  return __builtin_convertvector(__builtin_convertvector(load<U8>(from), U16), I32);
#endif
}
GRETA_INLINE U32 load_u16(const void* from) {
#if defined(__AVX512F__)
  return reinterpret_cast<U32>(
      _mm512_maskz_cvtepu16_epi32(kAll, _mm256_loadu_si256(static_cast<const __m256i*>(from))));
#elif defined(__AVX2__)
  return reinterpret_cast<U32>(
      _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from))));
#elif defined(__SSE2__)
  const __m128i four = _mm_loadl_epi64(static_cast<const __m128i*>(from));
  return reinterpret_cast<U32>(_mm_unpacklo_epi16(four, _mm_setzero_si128()));
#else
  return __builtin_convertvector(load<U16>(from), U32);
#endif
}

/// kLanes values in IEEE half precision.
GRETA_INLINE F32 load_f16(const void* from) {
#if defined(__AVX512F__)
  return reinterpret_cast<F32>(
      _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(static_cast<const __m256i*>(from))));
#elif defined(__F16C__)
  return reinterpret_cast<F32>(_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(from))));
#else
  const U32 half = load_u16(from);
  const U32 magnitude = (half & 0x7fffu) << 13;
  // The product moves the exponent's bias and is exact for subnormals too.
  const U32 finite = bits(from_bits(magnitude) * 0x1p112f);
  const U32 special = magnitude | 0x7f800000u;
  const U32 value = reinterpret_cast<I32>(magnitude) >= (0x7c00 << 13) ? special : finite;
  return from_bits(value | ((half & 0x8000u) << 16));
#endif
}

/// kLanes values in bfloat16: the upper halves of f32.
GRETA_INLINE F32 load_bf16(const void* from) { return from_bits(load_u16(from) << 16); }

/// One value in half precision.
GRETA_INLINE float f16_value(uint16_t half) {
#if defined(__F16C__)
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
#else
  uint16_t all[kLanes] = {half};
  return load_f16(all)[0];
#endif
}

/// The lanes combined to one value by f(a, b), which gets vectors and numbers: halves first, so the
/// order is a tree.
template <class Combine>
GRETA_INLINE float fold(F32 v, Combine f) {
#if defined(__AVX512F__)
  const auto eight = f(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                       __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
#else
  const F32 eight = v;
#endif
#if defined(__AVX2__)
  const auto four = f(__builtin_shufflevector(eight, eight, 0, 1, 2, 3),
                      __builtin_shufflevector(eight, eight, 4, 5, 6, 7));
#else
  const F32 four = eight;
#endif
  return f(f(four[0], four[2]), f(four[1], four[3]));
}
GRETA_INLINE float sum(F32 v) {
  return fold(v, [](auto a, auto b) { return a + b; });
}
/// NaN lanes count only by chance: test for NaN first where it matters.
GRETA_INLINE float max_lane(F32 v) {
  return fold(v, [](auto a, auto b) { return a > b ? a : b; });
}

/// e^x of each lane, within 1.01 ulp. Infinite where f32 overflows, +0 below e^−87 (so also for −∞:
/// results that are denormal or nearly so are not made), NaN for NaN.
///
/// x = n·ln 2 + r, n whole, |r| ≤ ln 2 / 2; e^x = 2^n·e^r.
GRETA_INLINE F32 exp(F32 x) {
  constexpr float kLog2E = 0x1.715476p0f;
  constexpr float kRounder = 0x1.8p23f;        // a sum with it has the nearest integer's last bits
  constexpr float kLn2High = 0x1.63p-1f;       // few bits: its product with n is exact
  constexpr float kLn2Low = -0x1.bd0106p-13f;  // ln 2 − kLn2High
  constexpr float kLeast = -87.0f;
  constexpr float kGreatest = 89.0f;  // e^89 is beyond f32; beyond, n would not fit

  x = min(splat(kGreatest), x);
  const F32 rounded = madd(x, splat(kLog2E), splat(kRounder));
  const F32 n = rounded - kRounder;
  F32 r = madd(n, splat(-kLn2High), x);
  r = madd(n, splat(-kLn2Low), r);

  // e^r = 1 + r + r²·p(r), minimax for the relative error: 3.1e-9.
  F32 p = splat(0x1.6a2448p-10f);
  p = madd(p, r, splat(0x1.1239d6p-7f));
  p = madd(p, r, splat(0x1.5558f2p-5f));
  p = madd(p, r, splat(0x1.555492p-3f));
  p = madd(p, r, splat(0x1.fffffcp-2f));
  const F32 power = madd(p, r * r, r) + 1.0f;

  // 2^(n − 1), since 2^128 is not a number: twice the power makes up for it.
  const F32 scale = from_bits((bits(rounded) << 23) + (126u << 23));
  const F32 result = (power + power) * scale;
  return x < kLeast ? F32{} : result;
}

}  // namespace greta::GRETA_ISA
