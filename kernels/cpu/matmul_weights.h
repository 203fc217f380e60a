#pragma once

#include "kernels/blocks.h"
#include "kernels/cpu/matmul_scales.h"
#include "kernels/simd/simd.h"

// How the integers of a sub-block become its weights (kernels/cpu/matmul_blocks.h says which). Only
// for *_simd.cpp.

namespace greta::GRETA_ISA {

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
