#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gpu_math.h"
#include "kernels/gpu_runtime.h"
#include "kernels/matrix.h"
#include "kernels/weight_planes.h"

// What one lane does in a product: its share of a row, for every weight type. Device code.
//
// A team of kTeam lanes walks over a row in steps; LaneDot<type> says which columns of a step are a
// lane's, how their weights get into registers, and how they are multiplied with activations:
//
//   kColumns             of a lane in a step, a multiple of 4
//   kHasMins             whether sums of x over sub-blocks of 32 are wanted
//   present(...)         whether the lane has columns in a step; else add() is not called
//   group_place(g)       of columns 4g .. 4g + 3 of a step: whose they are, and which of its groups
//   Raw                  the bytes of a lane's weights in one row
//   kRowMultiple         columns: rows of so many, or a multiple, begin where wide loads can
//   load<kAligned>(...)  reads them, if present; beyond the row's end are zeros. kAligned: whether
//                        the row is such a multiple
//   add(raw, x, sums)    sums[row][token] += its part of the product
//
// Integers become floats without conversion instructions: put into the mantissa of a power of two
// they differ from the number wanted by a constant. Products of integers and x are summed up first
// and scaled once per sub-block, so a weight costs about three instructions.

namespace greta {

inline constexpr int kTeam = 64;

/// Where a group of four activations is kept for the lane that needs it.
struct GroupPlace {
  int lane, group;
};
/// Groups `group` of all lanes, one after the other, begin kGroupStride groups apart: one more than
/// there are, so that neither writing in the order of columns nor reading meets in one bank.
inline constexpr int kGroupStride = kTeam + 1;

/// The activations of a lane's columns, in shared memory.
template <int kTokens>
struct LaneX {
  const Floats4* groups;  ///< of token 0
  const float2* sums;     ///< over the columns' two sub-blocks, of token 0
  int token_groups;       ///< from one token to the next
  int token_sums;

  __device__ void load(int group, Floats4 (&x)[kTokens]) const {
    int from = group * kGroupStride;
#if defined(GRETA_AMD) && defined(__HIP_DEVICE_COMPILE__)
    // Its compiler would begin with the loads of all groups, and run out of registers.
    if (group % 4 == 0) asm volatile("" : "+v"(from)::"memory");
#endif
    GRETA_UNROLL
    for (int t = 0; t < kTokens; ++t) x[t] = groups[t * token_groups + from];
  }
  __device__ float2 sum(int token) const { return sums[token * token_sums]; }
};

template <int kRows, int kTokens>
using LaneSums = float[kRows][kTokens];

template <WeightType kType>
struct LaneDot;

namespace lane_dot_detail {

/// 16 bytes of weights: read once, so kept out of the first-level cache, and in this order with
/// what is volatile: before waiting for earlier kernels.
__device__ inline Words4 load_once(const std::byte* address) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  Words4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(address));
  return v;
#else
  return load_as<Words4>(address);
#endif
}

/// Fields that several lanes read.
__device__ inline Words4 load_shared_field(const std::byte* address) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  Words4 v;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(address));
  return v;
#else
  return load_as<Words4>(address);
#endif
}
__device__ inline uint32_t load_word(const std::byte* address) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  uint32_t v;
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(address));
  return v;
#else
  return load_as<uint32_t>(address);
#endif
}
struct alignas(8) Words2 {
  uint32_t word[2];
};
__device__ inline Words2 load_pair(const std::byte* address) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  Words2 v;
  asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.word[0]), "=r"(v.word[1])
               : "l"(address));
  return v;
#else
  return load_as<Words2>(address);
#endif
}
__device__ inline uint16_t load_half(const std::byte* address) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  uint16_t v;
  asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(address));
  return v;
#else
  return load_as<uint16_t>(address);
#endif
}

/// (word & kMask) | kBits. NVIDIA's compiler makes two instructions of two constants.
template <uint32_t kMask, uint32_t kBits>
__device__ inline uint32_t masked_or(uint32_t word) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(word), "n"(kMask), "r"(kBits));
  return result;
#else
  return (word & kMask) | kBits;
#endif
}

/// The number in bits kShift .. kShift + kBits − 1 of word, minus kZero; exact.
template <int kBits, int kShift, int kZero>
__device__ inline float field(uint32_t word) {
  if constexpr (kShift + kBits > 23) {
    // Not all of it lies in a mantissa's place. Twelve bits down every nibble and byte does.
    constexpr int kDown = kBits == 4 ? 12 : 8;
    return field<kBits, kShift - kDown, kZero>(word >> kDown);
  } else {
    constexpr uint32_t kMask = ((1u << kBits) - 1) << kShift;
    constexpr uint32_t kUnit = static_cast<uint32_t>(127 + 23 - kShift) << 23;  // 2^(23 − kShift)
    constexpr float kOffset = static_cast<float>((1 << (23 - kShift)) + kZero);
    return bits_as<float>(masked_or<kMask, kUnit>(word)) - kOffset;
  }
}

/// The four fields of kBits bits that begin kShift bits into each byte.
template <int kBits, int kShift, int kZero>
__device__ inline void fields(uint32_t word, float (&q)[4]) {
  q[0] = field<kBits, kShift, kZero>(word);
  q[1] = field<kBits, kShift + 8, kZero>(word);
  q[2] = field<kBits, kShift + 16, kZero>(word);
  q[3] = field<kBits, kShift + 24, kZero>(word);
}

/// Byte kByte as an unsigned number, minus kZero.
template <int kByte, int kZero>
__device__ inline float byte_field(uint32_t word) {
#if defined(GRETA_AMD)
  return static_cast<float>(word >> 8 * kByte & 0xff) - static_cast<float>(kZero);
#elif defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  // The byte under the upper bytes of 2^23.
  const uint32_t bits = __byte_perm(word, 0x4b000000u, 0x7440 + kByte);
  return bits_as<float>(bits) - static_cast<float>((1 << 23) + kZero);
#else
  return field<8, 0, kZero>(word >> 8 * kByte);
#endif
}
template <int kZero>
__device__ inline void byte_fields(uint32_t word, float (&q)[4]) {
  q[0] = byte_field<0, kZero>(word);
  q[1] = byte_field<1, kZero>(word);
  q[2] = byte_field<2, kZero>(word);
  q[3] = byte_field<3, kZero>(word);
}

/// The low nibbles of `low` under the other bits of `high`.
__device__ inline uint32_t join(uint32_t low, uint32_t high) {
  return (low & 0x0f0f0f0fu) | (high & 0xf0f0f0f0u);
}

template <int kTokens>
__device__ inline void add_products(const float (&q)[4], const Floats4 (&x)[kTokens],
                                    float (&sums)[kTokens]) {
  GRETA_UNROLL
  for (int t = 0; t < kTokens; ++t) {
    GRETA_UNROLL
    for (int i = 0; i < 4; ++i) sums[t] = fmaf(q[i], x[t].value[i], sums[t]);
  }
}

template <int kTokens>
__device__ inline void add_scaled(float scale, const float (&parts)[kTokens],
                                  float (&sums)[kTokens]) {
  GRETA_UNROLL
  for (int t = 0; t < kTokens; ++t) sums[t] = fmaf(scale, parts[t], sums[t]);
}

/// A lane's columns in a step are kUnits pieces of kUnitColumns, one from each of as many stretches
/// of the step: so neighbours read next to each other.
template <int kUnits, int kUnitColumns>
struct Interleaved {
  static constexpr int kColumns = kUnits * kUnitColumns;
  static constexpr int kUnitGroups = kUnitColumns / 4;
  static constexpr int kRowMultiple = kUnitColumns;

  __device__ static GroupPlace group_place(int group) {
    const int unit = group / (kTeam * kUnitGroups);
    return {group / kUnitGroups % kTeam, unit * kUnitGroups + group % kUnitGroups};
  }
  /// Within the row.
  __device__ static uint32_t unit_index(int step, int lane, int unit) {
    return static_cast<uint32_t>((step * kUnits + unit) * kTeam + lane);
  }
  __device__ static bool present(uint32_t cols, int step, int lane) {
    return unit_index(step, lane, 0) * kUnitColumns < cols;
  }
};

// ---- f32, f16, bf16.

template <WeightType kType>
struct FloatDot : Interleaved<4, kType == WeightType::kF32 ? 4 : 8> {
  static constexpr int kUnits = 4;
  static constexpr int kBytes = kType == WeightType::kF32 ? 4 : 2;
  static constexpr int kUnitColumns = 16 / kBytes;
  static constexpr bool kHasMins = false;
  using Places = Interleaved<kUnits, kUnitColumns>;

  struct Raw {
    Words4 unit[kUnits];
  };

  template <bool kAligned>
  __device__ static void load(const DeviceWeights& w, uint32_t row, uint32_t cols, int step,
                              int lane, Raw& raw) {
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
  __device__ static void add(const Raw (&raw)[kRows], int, const LaneX<kTokens>& lane_x,
                             LaneSums<kRows, kTokens>& sums) {
    GRETA_UNROLL
    for (int group = 0; group < Places::kColumns / 4; ++group) {
      Floats4 x[kTokens];
      lane_x.load(group, x);
      GRETA_UNROLL
      for (int r = 0; r < kRows; ++r) {
        float q[4];
        values(raw[r].unit[group / Places::kUnitGroups], group % Places::kUnitGroups, q);
        add_products(q, x, sums[r]);
      }
    }
  }

 private:
  __device__ static Words4 load_part(const std::byte* begin, uint32_t column, uint32_t cols) {
    Words4 words{};
    GRETA_UNROLL
    for (int i = 0; i < kUnitColumns; ++i) {
      if (column + static_cast<uint32_t>(i) >= cols) continue;
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

// ---- q8_0, q4_0: a unit is half a block, or a whole one.

struct Q8_0Dot : Interleaved<2, 16> {
  static constexpr bool kHasMins = false;

  struct Raw {
    Words4 qs[2];
    uint16_t d[2];
  };

  template <bool>
  __device__ static void load(const DeviceWeights& w, uint32_t row, uint32_t cols, int step,
                              int lane, Raw& raw) {
    constexpr WeightType kType = WeightType::kQ8_0;
    GRETA_UNROLL
    for (int u = 0; u < 2; ++u) {
      const uint32_t unit = unit_index(step, lane, u);
      const bool present = 16 * unit < cols;
      const uint32_t block = row * (cols / 32) + unit / 2;
      raw.qs[u] = present ? load_once(plane_at<kType, 0>(w, block) + unit % 2 * 16) : Words4{};
      raw.d[u] = present ? load_half(plane_at<kType, 1>(w, block)) : uint16_t{0};
    }
  }

  template <int kRows, int kTokens>
  __device__ static void add(const Raw (&raw)[kRows], int, const LaneX<kTokens>& lane_x,
                             LaneSums<kRows, kTokens>& sums) {
    GRETA_UNROLL
    for (int u = 0; u < 2; ++u) {
      LaneSums<kRows, kTokens> parts{};
      GRETA_UNROLL
      for (int i = 0; i < 4; ++i) {
        Floats4 x[kTokens];
        lane_x.load(4 * u + i, x);
        GRETA_UNROLL
        for (int r = 0; r < kRows; ++r) {
          float q[4];
          byte_fields<128>(raw[r].qs[u].word[i] ^ 0x80808080u, q);
          add_products(q, x, parts[r]);
        }
      }
      GRETA_UNROLL
      for (int r = 0; r < kRows; ++r) add_scaled(f16_value(raw[r].d[u]), parts[r], sums[r]);
    }
  }
};

struct Q4_0Dot : Interleaved<2, 32> {
  static constexpr bool kHasMins = false;

  struct Raw {
    Words4 qs[2];
    uint16_t d[2];
  };

  template <bool>
  __device__ static void load(const DeviceWeights& w, uint32_t row, uint32_t cols, int step,
                              int lane, Raw& raw) {
    constexpr WeightType kType = WeightType::kQ4_0;
    GRETA_UNROLL
    for (int u = 0; u < 2; ++u) {
      const uint32_t unit = unit_index(step, lane, u);
      const bool present = 32 * unit < cols;
      const uint32_t block = row * (cols / 32) + unit;
      raw.qs[u] = present ? load_once(plane_at<kType, 0>(w, block)) : Words4{};
      raw.d[u] = present ? load_half(plane_at<kType, 1>(w, block)) : uint16_t{0};
    }
  }

  template <int kRows, int kTokens>
  __device__ static void add(const Raw (&raw)[kRows], int, const LaneX<kTokens>& lane_x,
                             LaneSums<kRows, kTokens>& sums) {
    GRETA_UNROLL
    for (int u = 0; u < 2; ++u) {
      LaneSums<kRows, kTokens> parts{};
      GRETA_UNROLL
      for (int i = 0; i < 4; ++i) {
        Floats4 low_x[kTokens], high_x[kTokens];
        lane_x.load(8 * u + i, low_x);
        lane_x.load(8 * u + 4 + i, high_x);
        GRETA_UNROLL
        for (int r = 0; r < kRows; ++r) {
          float q[4];
          fields<4, 0, 8>(raw[r].qs[u].word[i], q);
          add_products(q, low_x, parts[r]);
          fields<4, 4, 8>(raw[r].qs[u].word[i], q);
          add_products(q, high_x, parts[r]);
        }
      }
      GRETA_UNROLL
      for (int r = 0; r < kRows; ++r) add_scaled(f16_value(raw[r].d[u]), parts[r], sums[r]);
    }
  }
};

}  // namespace lane_dot_detail

template <>
struct LaneDot<WeightType::kF32> : lane_dot_detail::FloatDot<WeightType::kF32> {};
template <>
struct LaneDot<WeightType::kF16> : lane_dot_detail::FloatDot<WeightType::kF16> {};
template <>
struct LaneDot<WeightType::kBF16> : lane_dot_detail::FloatDot<WeightType::kBF16> {};
template <>
struct LaneDot<WeightType::kQ8_0> : lane_dot_detail::Q8_0Dot {};
template <>
struct LaneDot<WeightType::kQ4_0> : lane_dot_detail::Q4_0Dot {};

}  // namespace greta
