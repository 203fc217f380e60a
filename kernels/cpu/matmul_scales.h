#pragma once

#include "kernels/blocks.h"
#include "kernels/simd/simd.h"

// Scales and mins of quantised blocks as vectors (kernels/cpu/matmul_blocks.h says what of). Only
// for *_simd.cpp.

namespace greta::GRETA_ISA {

/// What a span has beside its integers: see scales().
typedef float Numbers[32];

/// The half-precision number at p; eight bytes may be read.
GRETA_INLINE float f16_at(const uint8_t* p) {
#if defined(__F16C__)
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  return load_f16(p)[0];
#endif
}

/// Scales of n ≤ 8 consecutive blocks that begin with an f16.
GRETA_INLINE void leading_scales(const uint8_t* p, int n, int block_bytes, Numbers& scale) {
#pragma GCC unroll 8
  for (int g = 0; g < n; ++g) scale[g] = f16_at(p + g * block_bytes);
}

/// The same where an m follows, which is put from numbers[8] on.
GRETA_INLINE void leading_scales_and_offsets(const uint8_t* p, int n, int block_bytes,
                                             Numbers& numbers) {
  uint32_t pairs[8] = {};  // of d and m
#pragma GCC unroll 8
  for (int g = 0; g < n; ++g) pairs[g] = load<uint32_t>(p + g * block_bytes);
#if defined(__AVX512F__)
  const F32 v = load_f16(pairs);
  store(numbers,
        __builtin_shufflevector(v, v, 0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
#else
  for (int i = 0; i < 8; i += kLanes) {
    const F32 v = load_f16(pairs + i), w = load_f16(pairs + i + kLanes / 2);
#if defined(__AVX2__)
    store(numbers + i, __builtin_shufflevector(v, w, 0, 2, 4, 6, 8, 10, 12, 14));
    store(numbers + 8 + i, __builtin_shufflevector(v, w, 1, 3, 5, 7, 9, 11, 13, 15));
#else
    store(numbers + i, __builtin_shufflevector(v, w, 0, 2, 4, 6));
    store(numbers + 8 + i, __builtin_shufflevector(v, w, 1, 3, 5, 7));
#endif
  }
#endif
}

/// The first 16 bytes of kHeaders q4_k or q5_k blocks, each in 128 bits: d and dmin, then the
/// packed scales and mins. Past the last of n blocks that one is repeated.
constexpr int kHeaders = kLanes / 4;
typedef uint32_t Header __attribute__((vector_size(16)));

/// q3_k: what unpack_scale() in blocks.h gives for each of the 16 sub-blocks. In one store: a load
/// of what several have written has to wait for them.
GRETA_INLINE void unpack_six_bits(const uint8_t* packed, uint8_t (&scales)[16]) {
  const uint32_t a = load<uint32_t>(packed), b = load<uint32_t>(packed + 4);
  const uint32_t high = load<uint32_t>(packed + 8);
  const Header low = {a, b, a >> 4, b >> 4}, top = {high << 4, high << 2, high, high >> 2};
  store(scales, (low & 0x0f0f0f0f) | (top & 0x30303030));
}

GRETA_INLINE U32 load_headers(const uint8_t* p, int n, int block_bytes) {
  const auto header = [&](int i) { return load<Header>(p + (i < n ? i : n - 1) * block_bytes); };
#if defined(__AVX512F__)
  const Header a = header(0), b = header(1), c = header(2), d = header(3);
  const auto ab = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
  const auto cd = __builtin_shufflevector(c, d, 0, 1, 2, 3, 4, 5, 6, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#elif defined(__AVX2__)
  return __builtin_shufflevector(header(0), header(1), 0, 1, 2, 3, 4, 5, 6, 7);
#else
  return header(0);
#endif
}

GRETA_INLINE U32 in_each_header(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  const uint32_t four[4] = {a, b, c, d};
  U32 v = {};
  for (int i = 0; i < kLanes; ++i) v[i] = four[i % 4];
  return v;
}

/// Of each header the eight scales, then the eight mins, a byte each: 6 bits that blocks.h says how
/// to put together.
GRETA_INLINE U32 unpack_headers(U32 v) {
#if defined(__AVX512F__)
  const U32 p = __builtin_shufflevector(v, v, 1, 1, 2, 2, 5, 5, 6, 6, 9, 9, 10, 10, 13, 13, 14, 14);
  const U32 q =
      __builtin_shufflevector(v, v, 3, 3, 3, 3, 7, 7, 7, 7, 11, 11, 11, 11, 15, 15, 15, 15);
#elif defined(__AVX2__)
  const U32 p = __builtin_shufflevector(v, v, 1, 1, 2, 2, 5, 5, 6, 6);
  const U32 q = __builtin_shufflevector(v, v, 3, 3, 3, 3, 7, 7, 7, 7);
#else
  const U32 p = __builtin_shufflevector(v, v, 1, 1, 2, 2);
  const U32 q = __builtin_shufflevector(v, v, 3, 3, 3, 3);
#endif
  constexpr uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTopTwo = 0x30303030;
  return (p & in_each_header(kSix, 0, kSix, 0)) |
         ((p >> 2) & in_each_header(0, kTopTwo, 0, kTopTwo)) |
         (q & in_each_header(0, kFour, 0, 0)) | ((q >> 4) & in_each_header(0, 0, 0, kFour));
}

/// Of a block: d·scale of its eight sub-blocks, then −dmin·min. integers: as unpack_headers()
/// leaves them.
GRETA_INLINE void scales_and_offsets(const uint8_t* block, const uint8_t* integers,
                                     Numbers& numbers) {
  static_assert(offsetof(BlockQ4K, d) == 0 && offsetof(BlockQ4K, dmin) == 2);
  const F32 units = load_f16(block);  // d, dmin, and what follows them
#if defined(__AVX512F__)
  const F32 both = __builtin_shufflevector(units, -units, 0, 0, 0, 0, 0, 0, 0, 0,  //
                                           17, 17, 17, 17, 17, 17, 17, 17);
  store(numbers, both * to_f32(load_u8(integers)));
#else
  for (int i = 0; i < 8; i += kLanes) {
    store(numbers + i, splat(units[0]) * to_f32(load_u8(integers + i)));
    store(numbers + 8 + i, splat(-units[1]) * to_f32(load_u8(integers + 8 + i)));
  }
#endif
}

/// The same of n blocks.
GRETA_INLINE void scales_and_offsets(const uint8_t* p, int n, int block_bytes, Numbers* numbers) {
  for (int i = 0; i < n; i += kHeaders) {
    uint8_t integers[4 * kLanes];
    store(integers, unpack_headers(load_headers(p + i * block_bytes, n - i, block_bytes)));
    for (int j = 0; j < kHeaders; ++j) {
      if (i + j < n) {
        scales_and_offsets(p + (i + j) * block_bytes, integers + 16 * j, numbers[i + j]);
      }
    }
  }
}

}  // namespace greta::GRETA_ISA
