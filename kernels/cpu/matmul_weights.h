#pragma once

#include "kernels/blocks.h"
#include "kernels/simd/simd.h"

// Scales and mins of quantised blocks as vectors (kernels/cpu/matmul_blocks.h says what of). Only
// for *_simd.cpp.

namespace greta::GRETA_ISA {

/// Numbers of a span beside its integers: see scales().
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

/// For each header the eight scales, then the eight mins, a byte each: 6 bits that blocks.h says
/// how to put together.
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

// ---- How the integers of a sub-block become its weights.

template <int kGroup>
struct GroupVectors {
  static constexpr int kCount = kGroup / kLanes;
  F32 v[kCount];
};

/// What the integers of a sub-block mean.
template <bool kHasMin>
struct Line {
  F32 scale, offset;

  __attribute__((always_inline)) inline F32 at(F32 q) const {
    if constexpr (kHasMin) return madd(q, scale, offset);
    return q * scale;
  }
};
template <class Type>
GRETA_INLINE Line<Type::kHasMin> line_of(const Numbers& numbers, int g) {
  if constexpr (Type::kHasMin) return {splat(numbers[g]), splat(numbers[Type::kSpanGroups + g])};
  return {splat(numbers[g]), F32{}};
}

/// What four bits mean: their number, or with a fifth bit that and sixteen more, minus kZero.
template <int kZero>
struct NibbleNumbers {
  GRETA_INLINE F32 all(int first) {  // of sixteen, or as many as a vector has lanes, in their order
    F32 values = {};
    for (int i = 0; i < kLanes; ++i) values[i] = static_cast<float>(first + i - kZero);
    return values;
  }
  GRETA_INLINE F32 of(I32 nibbles) { return to_f32((nibbles & 15) - kZero); }
};

/// The same by the levels of iq4_nl.
struct NibbleLevels {
  GRETA_INLINE F32 all(int first) {
    F32 values = {};
    for (int i = 0; i < kLanes; ++i) values[i] = kIq4Levels[first + i];
    return values;
  }
  GRETA_INLINE F32 of(I32 nibbles) {
#if defined(__AVX2__) && !defined(__AVX512F__)
    const auto place = reinterpret_cast<__m256i>(nibbles);
    const __m256 low = _mm256_permutevar8x32_ps(reinterpret_cast<__m256>(all(0)), place);
    const __m256 high = _mm256_permutevar8x32_ps(reinterpret_cast<__m256>(all(kLanes)), place);
    return reinterpret_cast<F32>(
        _mm256_blendv_ps(low, high, reinterpret_cast<__m256>(nibbles << 28)));
#else
    F32 levels = {};
    for (int i = 0; i < kLanes; ++i) levels[i] = kIq4Levels[nibbles[i] & 15];
    return levels;
#endif
  }
};

/// The weights of a sub-block by four bits of each lane, or five, which mean what Meaning says.
/// Where a vector has room for sixteen, all are worked out once and then looked up.
template <class Type, class Meaning, bool kFifths = false>
class NibbleWeights {
 public:
  __attribute__((always_inline)) inline NibbleWeights(const Numbers& numbers, int g)
      : line_(line_of<Type>(numbers, g)) {
    if constexpr (kLanes == 16) all_[0] = line_.at(Meaning::all(0));
    if constexpr (kLanes == 16 && kFifths) all_[1] = line_.at(Meaning::all(16));
  }

  /// By the low four bits of each lane; other bits are ignored.
  __attribute__((always_inline)) inline F32 of(I32 nibbles) const {
#if defined(__AVX512F__)
    return reinterpret_cast<F32>(_mm512_maskz_permutexvar_ps(
        kAll, reinterpret_cast<__m512i>(nibbles), reinterpret_cast<__m512>(all_[0])));
#else
    return line_.at(Meaning::of(nibbles));
#endif
  }

  /// By these and a fifth bit: of lane i bit first + i of `fifths`.
  __attribute__((always_inline)) inline F32 of(I32 nibbles, uint32_t fifths, int first) const {
#if defined(__AVX512F__)
    return reinterpret_cast<F32>(_mm512_mask_permutexvar_ps(
        reinterpret_cast<__m512>(of(nibbles)), static_cast<__mmask16>(fifths >> first),
        reinterpret_cast<__m512i>(nibbles), reinterpret_cast<__m512>(all_[1])));
#else
    U32 own = {};
    for (int i = 0; i < kLanes; ++i) own[i] = uint32_t{1} << (first + i);
    const auto sixteen = ((fifths - U32{}) & own) != 0 ? splat(16) : F32{};
    return line_.at(Meaning::of(nibbles) + sixteen);
#endif
  }

 private:
  const Line<Type::kHasMin> line_;
  F32 all_[kFifths ? 2 : 1] = {};
};

/// Weights that are stored as signed bytes q.
template <class Type>
GRETA_INLINE GroupVectors<Type::kGroup> weights_of(const int8_t* q, const Numbers& numbers, int g) {
  const auto line = line_of<Type>(numbers, g);
  GroupVectors<Type::kGroup> w;
  for (int i = 0; i < w.kCount; ++i) w.v[i] = line.at(to_f32(load_i8(q + i * kLanes)));
  return w;
}

}  // namespace greta::GRETA_ISA
