#pragma once

#include "kernels/blocks.h"
#include "kernels/cpu/matmul_weights.h"
#include "kernels/matrix.h"
#include "kernels/simd/simd.h"

// How the vector kernels read quantised rows. Only for *_simd.cpp.
//
// A row is a sequence of spans of up to 8 sub-blocks of 32 values (q2_k, q3_k, q6_k: 16 of 16): one
// block of a k-type, 8 blocks of the others. A sub-block has one scale and, in some types, one min:
//   weight = scale · q − min,  q an integer
// What is read is the weight in f32, rounded once at most. Types without mins store q from 0 on and
// mean q − kZero.
//
// Each type offers
//   kBlockBytes, kBlockValues     of a stored block
//   kGroup, kSpanGroups           values of a sub-block, sub-blocks of a span
//   kHasMin
//   scales(p, s, n, numbers)      of s spans of n sub-blocks at p, any alignment: span i's scales
//                                 in numbers[i][0 .. n), −min of each, if any, from
//                                 numbers[i][kSpanGroups] on
//   visit(p, n, numbers, f)       calls f(g, w) in order for each sub-block of a span, whose
//                                 numbers these are; w: its weights, kGroup / kLanes vectors

namespace greta::GRETA_ISA {

constexpr int kSpanValues = 256;

/// Bytes that hold several small integers are taken apart as bytes, where a vector holds four times
/// as many, when more than a shift is needed for it.
constexpr int kStep = kLanes == 16 ? 64 : kLanes == 8 ? 32 : 16;
typedef uint8_t Packed __attribute__((vector_size(kStep)));
typedef uint16_t Words __attribute__((vector_size(kStep)));

/// kStep bytes of 32 that repeat without end, from byte i on; i a multiple of kStep.
GRETA_INLINE Packed load_repeated(const uint8_t* p, int i) {
#if defined(__AVX512F__)
  (void)i;
  return reinterpret_cast<Packed>(
      _mm512_maskz_broadcast_i64x4(0xff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
#else
  return load<Packed>(p + i % 32);
#endif
}

/// Bytes shifted by one number in each even group of 32, another in each odd one. `i` as above.
/// What crosses from byte to byte is for the caller to mask.
enum class Direction { kLeft, kRight };
template <Direction kDirection>
GRETA_INLINE Packed shift_bytes(Packed v, int i, int even, int odd) {
  Words count = {};
  for (int word = 0; word < kStep / 2; ++word) {
    count[word] = static_cast<uint16_t>((i + 2 * word) / 32 % 2 == 0 ? even : odd);
  }
  const Words words = reinterpret_cast<Words>(v);
  return reinterpret_cast<Packed>(kDirection == Direction::kLeft ? words << count : words >> count);
}

struct Q8_0 {
  static constexpr int kBlockBytes = sizeof(BlockQ8_0), kBlockValues = 32;
  static constexpr int kGroup = 32, kSpanGroups = 8;
  static constexpr bool kHasMin = false;

  GRETA_INLINE void scales(const uint8_t* p, int n_spans, int n_groups, Numbers* numbers) {
    for (int i = 0; i < n_spans; ++i) {
      leading_scales(p + i * kSpanGroups * kBlockBytes, n_groups, kBlockBytes, numbers[i]);
    }
  }

  template <class F>
  GRETA_INLINE void visit(const uint8_t* p, int n, const Numbers& numbers, F f) {
#pragma GCC unroll 8
    for (int g = 0; g < n; ++g) {
      const uint8_t* qs = p + g * kBlockBytes + offsetof(BlockQ8_0, qs);
      f(g, weights_of<Q8_0>(reinterpret_cast<const int8_t*>(qs), numbers, g));
    }
  }
};

template <class Block>
struct NibbleMeaning : NibbleNumbers<kHasMin<Block>         ? 0
                                     : kHasFifthBits<Block> ? 16
                                                            : 8> {};
template <>
struct NibbleMeaning<BlockIQ4NL> : NibbleLevels {};

/// Blocks of 32 whose nibbles lie as in q4_0.
template <class Block>
struct Nibbles {
  static constexpr int kBlockBytes = sizeof(Block), kBlockValues = 32;
  static constexpr int kGroup = 32, kSpanGroups = 8;
  static constexpr bool kHasMin = greta::kHasMin<Block>;

  GRETA_INLINE void scales(const uint8_t* p, int n_spans, int n_groups, Numbers* numbers) {
    for (int i = 0; i < n_spans; ++i, p += kSpanGroups * kBlockBytes) {
      if constexpr (kHasMin) {
        leading_scales_and_offsets(p, n_groups, kBlockBytes, numbers[i]);
      } else {
        leading_scales(p, n_groups, kBlockBytes, numbers[i]);
      }
    }
  }

  template <class F>
  GRETA_INLINE void visit(const uint8_t* p, int n, const Numbers& numbers, F f) {
#pragma GCC unroll 8
    for (int g = 0; g < n; ++g, p += kBlockBytes) {
      const NibbleWeights<Nibbles, NibbleMeaning<Block>, kFifths> weights(numbers, g);
      GroupVectors<kGroup> w;
      for (int i = 0; i < w.kCount / 2; ++i) {
        const I32 pair = load_u8(p + offsetof(Block, qs) + i * kLanes);
        if constexpr (kFifths) {
          const auto fifths = load<uint32_t>(p + offsetof(Block, qh));
          w.v[i] = weights.of(pair, fifths, i * kLanes);
          w.v[i + w.kCount / 2] = weights.of(pair >> 4, fifths, 16 + i * kLanes);
        } else {
          w.v[i] = weights.of(pair);
          w.v[i + w.kCount / 2] = weights.of(pair >> 4);
        }
      }
      f(g, w);
    }
  }

 private:
  static constexpr bool kFifths = kHasFifthBits<Block>;
};

/// q4_k, q5_k: 8 sub-blocks of 32, with scales and mins.
template <class Block>
struct ScaleMinBlock {
  static constexpr int kBlockBytes = sizeof(Block), kBlockValues = 256;
  static constexpr int kGroup = 32, kSpanGroups = 8;
  static constexpr bool kHasMin = true;

  GRETA_INLINE void scales(const uint8_t* p, int n_spans, int, Numbers* numbers) {
    scales_and_offsets(p, n_spans, kBlockBytes, numbers);
  }
};

struct Q4K : ScaleMinBlock<BlockQ4K> {
  template <class F>
  GRETA_INLINE void visit(const uint8_t* p, int, const Numbers& numbers, F f) {
    using Weights = NibbleWeights<Q4K, NibbleNumbers<0>>;
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const uint8_t* qs = p + offsetof(BlockQ4K, qs) + 32 * j;
      const Weights low_weights(numbers, 2 * j), high_weights(numbers, 2 * j + 1);
      GroupVectors<kGroup> low, high;
      for (int i = 0; i < low.kCount; ++i) {
        const I32 pair = load_u8(qs + i * kLanes);
        low.v[i] = low_weights.of(pair);
        high.v[i] = high_weights.of(pair >> 4);
      }
      f(2 * j, low);
      f(2 * j + 1, high);
    }
  }
};

struct Q5K : ScaleMinBlock<BlockQ5K> {
  template <class F>
  GRETA_INLINE void visit(const uint8_t* p, int, const Numbers& numbers, F f) {
    alignas(64) int8_t q[256];
    integers(p, q);
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
      const auto line = line_of<Q5K>(numbers, g);
      GroupVectors<kGroup> w;
      for (int i = 0; i < w.kCount; ++i) {
        w.v[i] = line.at(to_f32(load_i8(q + place(g, i * kLanes))));
      }
      f(g, w);
    }
  }

 private:
  // Each kStep bytes of qs give kStep low nibbles and then as many high ones.
  static constexpr int place(int g, int i) {
    const int byte = g / 2 * 32 + i;
    return byte / kStep * kStep * 2 + g % 2 * kStep + byte % kStep;
  }

  GRETA_INLINE void integers(const uint8_t* p, int8_t* q) {
#pragma GCC unroll 8
    for (int i = 0; i < 128; i += kStep) {
      const Packed nibbles = load<Packed>(p + offsetof(BlockQ5K, qs) + i);
      const Packed fifths = load_repeated(p + offsetof(BlockQ5K, qh), i);
      // Bits 0 2 | 4 6 belong to the low nibbles of the four groups of 32 bytes, 1 3 | 5 7 to the
      // high ones.
      const bool first = i < 64;
      const Packed low = first ? shift_bytes<Direction::kLeft>(fifths, i, 4, 2)
                               : shift_bytes<Direction::kRight>(fifths, i, 0, 2);
      const Packed high = first ? shift_bytes<Direction::kLeft>(fifths, i, 3, 1)
                                : shift_bytes<Direction::kRight>(fifths, i, 1, 3);
      store(q + 2 * i, (nibbles & 15) | (low & 16));
      store(q + 2 * i + kStep, (nibbles >> 4) | (high & 16));
    }
  }
};

/// Bits 2g and 2g + 1 of each byte.
GRETA_INLINE Packed pairs_of(Packed v, int i, int g) {
  return shift_bytes<Direction::kRight>(v, i, 2 * g, 2 * g) & 3;
}

/// q2_k, q3_k: 16 sub-blocks of 16, of which kStep bytes give as many integers of each g. Type has
/// integers(p, q): q of byte i of qs and of g at 64·g + i.
template <class Type>
struct Pairs {
  static constexpr int kBlockValues = 256;
  static constexpr int kGroup = 16, kSpanGroups = 16;

  template <class F>
  GRETA_INLINE void visit(const uint8_t* p, int, const Numbers& numbers, F f) {
    alignas(64) int8_t q[256];
    Type::integers(p, q);
#pragma GCC unroll 16
    for (int g = 0; g < kSpanGroups; ++g) {
      f(g, weights_of<Type>(q + g % 8 / 2 * 64 + g / 8 * 32 + g % 2 * kGroup, numbers, g));
    }
  }
};

struct Q2K : Pairs<Q2K> {
  static constexpr int kBlockBytes = sizeof(BlockQ2K);
  static constexpr bool kHasMin = true;

  GRETA_INLINE void scales(const uint8_t* p, int n_spans, int, Numbers* numbers) {
    for (int i = 0; i < n_spans; ++i, p += kBlockBytes) {
      const F32 last = load_f16(p + sizeof(BlockQ2K) - sizeof(F32) / 2);  // d and dmin end a block
      const F32 d = splat(last[kLanes - 2]), dmin = splat(last[kLanes - 1]);
      for (int g = 0; g < kSpanGroups; g += kLanes) {
        const I32 pair = load_u8(p + offsetof(BlockQ2K, scales) + g);
        store(numbers[i] + g, d * to_f32(pair & 15));
        store(numbers[i] + kSpanGroups + g, -dmin * to_f32(pair >> 4));
      }
    }
  }

  GRETA_INLINE void integers(const uint8_t* p, int8_t* q) {
#pragma GCC unroll 4
    for (int i = 0; i < 64; i += kStep) {
      const Packed pairs = load<Packed>(p + offsetof(BlockQ2K, qs) + i);
      for (int g = 0; g < 4; ++g) store(q + 64 * g + i, pairs_of(pairs, i, g));
    }
  }
};

struct Q3K : Pairs<Q3K> {
  static constexpr int kBlockBytes = sizeof(BlockQ3K);
  static constexpr bool kHasMin = false;
  static constexpr int kZero = 4;

  GRETA_INLINE void scales(const uint8_t* p, int n_spans, int, Numbers* numbers) {
    for (int i = 0; i < n_spans; ++i, p += kBlockBytes) {
      const F32 last = load_f16(p + sizeof(BlockQ3K) - sizeof(F32) / 2);  // d is the block's end
      const F32 d = splat(last[kLanes - 1]);
      uint8_t stored[kSpanGroups];
      unpack_six_bits(p + offsetof(BlockQ3K, scales), stored);
      for (int g = 0; g < kSpanGroups; g += kLanes) {
        store(numbers[i] + g, d * to_f32(load_u8(stored + g) - 32));
      }
    }
  }

  GRETA_INLINE void integers(const uint8_t* p, int8_t* q) {
#pragma GCC unroll 4
    for (int i = 0; i < 64; i += kStep) {
      const Packed pairs = load<Packed>(p + offsetof(BlockQ3K, qs) + i);
      // Bits g of the first 32 bytes belong to theirs, bits 4 + g to the others'.
      const Packed thirds =
          shift_bytes<Direction::kRight>(load_repeated(p + offsetof(BlockQ3K, hmask), i), i, 0, 4);
      for (int g = 0; g < 4; ++g) {
        const Packed third = shift_bytes<Direction::kRight>(thirds, i, g, g) & 1;
        store(q + 64 * g + i, (pairs_of(pairs, i, g) | (third << 2)) - kZero);
      }
    }
  }
};

struct Q6K {
  static constexpr int kBlockBytes = sizeof(BlockQ6K), kBlockValues = 256;
  static constexpr int kGroup = 16, kSpanGroups = 16;
  static constexpr bool kHasMin = false;

  GRETA_INLINE void scales(const uint8_t* p, int n_spans, int, Numbers* numbers) {
    for (int i = 0; i < n_spans; ++i, p += kBlockBytes) {
      const F32 last = load_f16(p + sizeof(BlockQ6K) - sizeof(F32) / 2);  // d is the block's end
      const F32 d = splat(last[kLanes - 1]);
      const auto* stored = reinterpret_cast<const int8_t*>(p + offsetof(BlockQ6K, scales));
      for (int g = 0; g < 16; g += kLanes) store(numbers[i] + g, d * to_f32(load_i8(stored + g)));
    }
  }

  template <class F>
  GRETA_INLINE void visit(const uint8_t* p, int, const Numbers& numbers, F f) {
    alignas(64) int8_t q[256];
    integers(p, q);
#pragma GCC unroll 16
    for (int g = 0; g < 16; ++g) f(g, weights_of<Q6K>(q + g * kGroup, numbers, g));
  }

 private:
  GRETA_INLINE void integers(const uint8_t* p, int8_t* q) {
#pragma GCC unroll 8
    for (int i = 0; i < 128; i += kStep) {
      const int half = i / 64, in_half = i % 64;
      const Packed nibbles = load<Packed>(p + offsetof(BlockQ6K, ql) + i);
      const Packed pairs = load_repeated(p + offsetof(BlockQ6K, qh) + 32 * half, i);
      const Packed low = shift_bytes<Direction::kLeft>(pairs, i, 4, 2);
      const Packed high = shift_bytes<Direction::kRight>(pairs, i, 0, 2);
      int8_t* to = q + 128 * half + in_half;
      store(to, ((nibbles & 15) | (low & 0x30)) - 32);
      store(to + 64, ((nibbles >> 4) | (high & 0x30)) - 32);
    }
  }
};

// ---- Float types: kBytes of a value; values(p) gives kLanes of them, values_part(p, n) the first
// n and zeros.

template <int kValueBytes, F32 (*kLoad)(const void*)>
struct Floats {
  static constexpr int kBytes = kValueBytes;

  GRETA_INLINE F32 values(const uint8_t* p) { return kLoad(p); }

  GRETA_INLINE F32 values_part(const uint8_t* p, int64_t n) {
    uint8_t padded[kLanes * kBytes] = {};
    __builtin_memcpy(padded, p, static_cast<size_t>(n * kBytes));
    return kLoad(padded);
  }
};
using FloatsF32 = Floats<4, load<F32>>;
using FloatsF16 = Floats<2, load_f16>;
using FloatsBF16 = Floats<2, load_bf16>;

/// Bytes of a row.
template <class Type>
constexpr size_t row_bytes_of(int64_t cols) {
  if constexpr (requires { Type::kGroup; }) {
    return static_cast<size_t>(cols / Type::kBlockValues * Type::kBlockBytes);
  } else {
    return static_cast<size_t>(cols * Type::kBytes);
  }
}

/// Calls f with a value of the type that reads weights of type `type`.
template <class F>
GRETA_INLINE void with_type(WeightType type, F f) {
  switch (type) {
    case WeightType::kF32:
      return f(FloatsF32{});
    case WeightType::kF16:
      return f(FloatsF16{});
    case WeightType::kBF16:
      return f(FloatsBF16{});
    case WeightType::kQ4_0:
      return f(Nibbles<BlockQ4_0>{});
    case WeightType::kQ4_1:
      return f(Nibbles<BlockQ4_1>{});
    case WeightType::kQ5_0:
      return f(Nibbles<BlockQ5_0>{});
    case WeightType::kQ5_1:
      return f(Nibbles<BlockQ5_1>{});
    case WeightType::kIQ4_NL:
      return f(Nibbles<BlockIQ4NL>{});
    case WeightType::kQ8_0:
      return f(Q8_0{});
    case WeightType::kQ2_K:
      return f(Q2K{});
    case WeightType::kQ3_K:
      return f(Q3K{});
    case WeightType::kQ4_K:
      return f(Q4K{});
    case WeightType::kQ5_K:
      return f(Q5K{});
    case WeightType::kQ6_K:
      return f(Q6K{});
  }
}

/// n_groups sub-blocks of the span at p; `to` has room for them.
template <class Type>
GRETA_INLINE void expand_span(const uint8_t* p, int n_groups, float* to) {
  alignas(64) Numbers numbers[1];
  Type::scales(p, 1, n_groups, numbers);
  Type::visit(
      p, n_groups,
      numbers[0], [&](int g, const GroupVectors<Type::kGroup>& w) __attribute__((always_inline)) {
        for (int i = 0; i < w.kCount; ++i) store(to + g * Type::kGroup + i * kLanes, w.v[i]);
      });
}

/// Columns [column, column + n_columns) of a row, from a span's first column on and up to the end
/// of a block. `to` has room for whole vectors: behind the last column are zeros.
template <class Type>
GRETA_INLINE void expand_columns(const uint8_t* row, int64_t column, int64_t n_columns, float* to) {
  if constexpr (requires { Type::kGroup; }) {
    constexpr int kSpanBytes = kSpanValues / Type::kBlockValues * Type::kBlockBytes;
    const uint8_t* p = row + column / kSpanValues * kSpanBytes;
    int64_t k = 0;
    for (; k + kSpanValues <= n_columns; k += kSpanValues, p += kSpanBytes) {
      expand_span<Type>(p, Type::kSpanGroups, to + k);
    }
    if constexpr (Type::kBlockValues < kSpanValues) {
      const int n_groups = static_cast<int>(n_columns - k) / Type::kGroup;
      if (n_groups > 0) expand_span<Type>(p, n_groups, to + k);
    }
  } else {
    const uint8_t* p = row + column * Type::kBytes;
    int64_t k = 0;
    for (; k + kLanes <= n_columns; k += kLanes) store(to + k, Type::values(p + k * Type::kBytes));
    if (k < n_columns) store(to + k, Type::values_part(p + k * Type::kBytes, n_columns - k));
  }
}

}  // namespace greta::GRETA_ISA
