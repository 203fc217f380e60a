#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/lane_x.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/weight_planes.h"
#include "kernels/matrix.h"

// What one lane does in a product: its share of a row, for every weight type. Device code.
//
// A team of kTeam lanes walks over a row in steps; LaneDot<type> says which columns of a step are a
// lane's, how their weights get into registers, and how they are multiplied with activations, which
// lie in shared memory (kernels/gpu/lane_x.h):
//
//   kColumns             of a lane in a step, a multiple of 4
//   Units                FloatUnits or DigitUnits: the form of the activations
//   present(...)         whether the lane has columns in a step; else add() is not called
//   group_place(g)       of columns 4g .. 4g + 3 of a step: whose they are, and which of its groups
//   Raw                  the bytes of a lane's weights in one row
//   kRowMultiple         columns: rows of so many, or a multiple, begin where wide loads can
//   load<kAligned>(...)  reads them, if present; beyond the row's end are zeros. kAligned: whether
//                        the row is such a multiple
//   add(raw, x, sums)    sums[row][token] += its part of the product
//
// With DigitUnits, chunks are 16 columns whose weights make four words of signed bytes:
//
//   kSlots, kHasMins     as DigitUnits explains
//   words(raw, c, w)     chunk c's
//   scale(raw, lane, s)  of slot s: weight = scale·byte − min

namespace greta {

template <int kRows, int kTokens>
using LaneSums = float[kRows][kTokens];

namespace lane_dot_detail {

// Loads of weights, in this order with what is volatile: before waiting for earlier kernels.
// load_once() keeps what is read once out of the first-level cache; the others are of fields that
// several lanes read.
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
__device__ inline Words4 load_once(const std::byte* address) {
  Words4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(address));
  return v;
}
__device__ inline Words4 load_shared_field(const std::byte* address) {
  Words4 v;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(address));
  return v;
}
__device__ inline Words2 load_pair(const std::byte* address) {
  Words2 v;
  asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.word[0]), "=r"(v.word[1])
               : "l"(address));
  return v;
}
__device__ inline uint32_t load_word(const std::byte* address) {
  uint32_t v;
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(address));
  return v;
}
__device__ inline uint16_t load_half(const std::byte* address) {
  uint16_t v;
  asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(address));
  return v;
}
#else
__device__ inline Words4 load_once(const std::byte* address) { return load_as<Words4>(address); }
__device__ inline Words4 load_shared_field(const std::byte* address) {
  return load_as<Words4>(address);
}
__device__ inline Words2 load_pair(const std::byte* address) { return load_as<Words2>(address); }
__device__ inline uint32_t load_word(const std::byte* address) {
  return load_as<uint32_t>(address);
}
__device__ inline uint16_t load_half(const std::byte* address) {
  return load_as<uint16_t>(address);
}
#endif

struct Scale {
  float scale, min;
};

/// The part of LaneDot that types with DigitUnits share.
template <class Dot>
struct DigitDot {
  using Units = DigitUnits<Dot>;

  template <class Raw, int kRows, int kTokens>
  __device__ static void add(const Raw (&raw)[kRows], uint32_t lane, const LaneX<kTokens>& x,
                             LaneSums<kRows, kTokens>& sums);
};

template <class Dot>
template <class Raw, int kRows, int kTokens>
__device__ void DigitDot<Dot>::add(const Raw (&raw)[kRows], uint32_t lane, const LaneX<kTokens>& x,
                                   LaneSums<kRows, kTokens>& sums) {
  constexpr int kChunks = Units::kChunks / Dot::kSlots;  // of a slot
  GRETA_UNROLL
  for (int slot = 0; slot < Dot::kSlots; ++slot) {
    DigitSums parts[kRows][kTokens];
    GRETA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      GRETA_UNROLL
      for (int t = 0; t < kTokens; ++t) parts[r][t].clear();
    }
    GRETA_UNROLL
    for (int chunk = slot * kChunks; chunk < (slot + 1) * kChunks; ++chunk) {
      uint32_t words[kRows][4];
      GRETA_UNROLL
      for (int r = 0; r < kRows; ++r) Dot::words(raw[r], chunk, words[r]);
      GRETA_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        Words4 digits[kDigits];
        Units::chunk(x, chunk, t, digits);
        GRETA_UNROLL
        for (int r = 0; r < kRows; ++r) {
          GRETA_UNROLL
          for (int i = 0; i < 4; ++i) parts[r][t].add(words[r][i], digits, i);
        }
      }
    }
    GRETA_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      const auto worth = Units::worth(x, t);
      GRETA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const Scale s = Dot::scale(raw[r], lane, slot);
        sums[r][t] = fmaf(s.scale, parts[r][t].total() * worth.of_slot(slot), sums[r][t]);
        if constexpr (Dot::kHasMins) {
          sums[r][t] = fmaf(-s.min, worth.sum(slot), sums[r][t]);
        }
      }
    }
  }
}

/// A byte as a float.
template <int kByte>
__device__ inline float byte_value(uint32_t word) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  // The byte under the upper bytes of 2^23: faster than a conversion.
  uint32_t bits;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bits) : "r"(word), "r"(0x4b000000), "n"(0x7440 + kByte));
  return bits_as<float>(bits) - 0x1p23f;
#else
  return static_cast<float>(word >> 8 * kByte & 0xff);
#endif
}

/// (word & kMask) ^ kBits. NVIDIA's compiler makes two instructions of two constants.
template <uint32_t kMask, uint32_t kBits>
__device__ inline uint32_t masked_xor(uint32_t word) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(result) : "r"(word), "n"(kMask), "r"(kBits));
  return result;
#else
  return (word & kMask) ^ kBits;
#endif
}

/// High nibbles as signed bytes, 16·(nibble − 8).
__device__ inline uint32_t high_nibbles(uint32_t word) {
  return masked_xor<0xf0f0f0f0u, 0x80808080u>(word);
}

/// The highest bit of each byte, turned over: 128 less, of a signed byte.
__device__ inline uint32_t top_bits(uint32_t word) {
  return masked_xor<0x80808080u, 0x80808080u>(word);
}

/// A lane's columns in a step are kUnits pieces of kUnitColumns, one from each of as many stretches
/// of the step: so neighbours read next to each other.
template <int kUnits, int kUnitColumns>
struct Interleaved {
  static constexpr int kColumns = kUnits * kUnitColumns;
  static constexpr int kUnitGroups = kUnitColumns / 4;
  static constexpr int kRowMultiple = kUnitColumns;

  __device__ static GroupPlace group_place(uint32_t group) {
    const uint32_t unit = group / (kTeam * kUnitGroups);
    return {group / kUnitGroups % kTeam, unit * kUnitGroups + group % kUnitGroups};
  }
  /// Within the row.
  __device__ static uint32_t unit_index(uint32_t step, uint32_t lane, int unit) {
    return (step * kUnits + static_cast<uint32_t>(unit)) * kTeam + lane;
  }
  __device__ static bool present(uint32_t cols, uint32_t step, uint32_t lane) {
    return unit_index(step, lane, 0) * kUnitColumns < cols;
  }
};

// ---- f32, f16, bf16.

template <WeightType kType>
struct FloatDot : Interleaved<4, kType == WeightType::kF32 ? 4 : 8> {
  static constexpr int kUnits = 4;
  static constexpr int kBytes = kType == WeightType::kF32 ? 4 : 2;
  static constexpr int kUnitColumns = 16 / kBytes;
  using Places = Interleaved<kUnits, kUnitColumns>;
  using Units = FloatUnits<FloatDot>;

  struct Raw {
    Words4 unit[kUnits];
  };

  template <bool kAligned>
  __device__ static void load(const DeviceWeights& w, uint32_t row, uint32_t cols, uint32_t step,
                              uint32_t lane, Raw& raw) {
    const std::byte* const begin = w.plane[0] + static_cast<uint64_t>(row) * cols * kBytes;
    GRETA_UNROLL
    for (int u = 0; u < kUnits; ++u) {
      const uint32_t column = Places::unit_index(step, lane, u) * kUnitColumns;
      if constexpr (kAligned) {
        raw.unit[u] =
            column < cols ? load_once(begin + static_cast<uint64_t>(column) * kBytes) : Words4{};
      } else {
        raw.unit[u] = load_part(begin, column, cols);
      }
    }
  }

  template <int kRows, int kTokens>
  __device__ static void add(const Raw (&raw)[kRows], uint32_t, const LaneX<kTokens>& lane_x,
                             LaneSums<kRows, kTokens>& sums) {
    GRETA_UNROLL
    for (int group = 0; group < Places::kColumns / 4; ++group) {
      float q[kRows][4];
      GRETA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        values(raw[r].unit[group / Places::kUnitGroups], group % Places::kUnitGroups, q[r]);
      }
      GRETA_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        const Floats4 x = Units::group(lane_x, group, t);
        GRETA_UNROLL
        for (int r = 0; r < kRows; ++r) {
          GRETA_UNROLL
          for (int i = 0; i < 4; ++i) sums[r][t] = fmaf(q[r][i], x.value[i], sums[r][t]);
        }
      }
    }
  }

 private:
  __device__ static Words4 load_part(const std::byte* begin, uint32_t column, uint32_t cols) {
#if defined(GRETA_AMD) && defined(__HIP_DEVICE_COMPILE__)
    // Its compiler would keep the comparisons for the next row, and run out of registers.
    asm volatile("" : "+v"(column));
#endif
    Words4 words{};
    GRETA_UNROLL
    for (uint32_t i = 0; i < kUnitColumns; ++i) {
      if (column + i >= cols) continue;
      const std::byte* const at = begin + (static_cast<uint64_t>(column) + i) * kBytes;
      if constexpr (kBytes == 4) {
        words.word[i] = load_as<uint32_t>(at);
      } else {
        words.word[i / 2] |= static_cast<uint32_t>(load_as<uint16_t>(at)) << i % 2 * 16;
      }
    }
    return words;
  }

  __device__ static void values(const Words4& words, int group, float (&q)[4]) {
    if constexpr (kType == WeightType::kF32) {
      GRETA_UNROLL
      for (int i = 0; i < 4; ++i) {
        const uint32_t bits = words.word[i];
        q[i] = bits_as<float>(bits);
      }
    } else {
      const uint32_t first = words.word[2 * group], second = words.word[2 * group + 1];
      const float2 low = kType == WeightType::kF16 ? f16_pair(first) : bf16_pair(first);
      const float2 high = kType == WeightType::kF16 ? f16_pair(second) : bf16_pair(second);
      q[0] = low.x;
      q[1] = low.y;
      q[2] = high.x;
      q[3] = high.y;
    }
  }
};

// ---- Blocks of 32: a unit is 16 bytes, half a block of q8_0 or a whole one of nibbles.

template <WeightType kType>
struct Block32Dot : Interleaved<2, kType == WeightType::kQ8_0 ? 16 : 32>,
                    DigitDot<Block32Dot<kType>> {
  static constexpr bool kNibbles = kType != WeightType::kQ8_0;
  static constexpr bool kFifths = has_fifth_bits(kType);
  static constexpr int kHeadPlane = kFifths ? 2 : 1;
  static constexpr int kSlots = 2;
  static constexpr bool kHasMins = has_m(kType);
  /// Bytes are so many times q − kZero.
  static constexpr float kUnit = kFifths ? 8 : kNibbles && kType != WeightType::kIQ4_NL ? 16 : 1;
  static constexpr float kZero = kFifths ? 16 : 8;
  using Places = Interleaved<2, kNibbles ? 32 : 16>;

  using Head = std::conditional_t<kHasMins, uint32_t, uint16_t>;  ///< d, and m if there is one

  struct Raw {
    Words4 qs[2];
    uint32_t fifths[2];  ///< where they lie apart
    Head head[2];
  };

  template <bool>
  __device__ static void load(const DeviceWeights& w, uint32_t row, uint32_t cols, uint32_t step,
                              uint32_t lane, Raw& raw) {
    constexpr uint32_t kUnitColumns = kNibbles ? 32 : 16, kBlockUnits = 32 / kUnitColumns;
    GRETA_UNROLL
    for (int u = 0; u < 2; ++u) {
      const uint32_t unit = Places::unit_index(step, lane, u);
      const bool present = kUnitColumns * unit < cols;
      const uint32_t block = row * (cols / 32) + unit / kBlockUnits;
      raw.qs[u] =
          present ? load_once(plane_at<kType, 0>(w, block) + unit % kBlockUnits * 16) : Words4{};
      if constexpr (kFifths) {
        raw.fifths[u] = present ? load_word(plane_at<kType, 1>(w, block)) : 0;
      }
      const std::byte* const head = plane_at<kType, kHeadPlane>(w, block);
      if constexpr (kHasMins) {
        raw.head[u] = present ? load_word(head) : 0;
      } else {
        raw.head[u] = present ? load_half(head) : uint16_t{0};
      }
    }
  }
  __device__ static void words(const Raw& raw, int chunk, uint32_t (&w)[4]) {
    GRETA_UNROLL
    for (int i = 0; i < 4; ++i) {
      if constexpr (kNibbles) {
        const uint32_t word = raw.qs[chunk / 2].word[i];
        if constexpr (kType == WeightType::kIQ4_NL) {
          w[i] = iq4_levels((chunk % 2 == 0 ? word : word >> 4) & 0x0f0f0f0fu);
        } else if constexpr (kFifths) {
          const uint32_t fifths = raw.fifths[chunk / 2] << (7 - (chunk % 2 * 4 + i));
          w[i] = ((chunk % 2 == 0 ? word << 3 : word >> 1) & 0x78787878u) | top_bits(fifths);
        } else {
          w[i] = high_nibbles(chunk % 2 == 0 ? word << 4 : word);
        }
      } else {
        w[i] = raw.qs[chunk].word[i];
      }
    }
  }
  __device__ static Scale scale(const Raw& raw, uint32_t, int slot) {
    if constexpr (kHasMins) {
      const float2 d = f16_pair(raw.head[slot]);
      return {d.x * (1 / kUnit), fmaf(d.x, -kZero, -d.y)};
    } else {
      return {f16_value(raw.head[slot]) * (1 / kUnit), 0.0f};
    }
  }
};

}  // namespace lane_dot_detail

/// Here of the types that are no k-types.
template <WeightType kType>
struct LaneDot : std::conditional_t<is_float_type(kType), lane_dot_detail::FloatDot<kType>,
                                    lane_dot_detail::Block32Dot<kType>> {};

}  // namespace greta
