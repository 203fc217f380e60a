#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// The activations of a product in shared memory, in the order in which lanes want them. Device
// code.
//
// A team of kTeam lanes walks over a row in steps. Where the columns of a step go is said by a
// LaneDot (kernels/gpu/lane_dot.h); here is in what form. For weights that are floats activations
// stay floats. For the others, which are small whole numbers, they become whole numbers as well, so
// that four products and their sum are one instruction. The 32 activations of a sub-block are
// rounded to multiples of a `unit`, a power of two, the smallest with which the largest of them
// stays below 2^22 units with room to round; a multiple is written in three digits to the base 256,
// −128 .. 127. Sums of products of digits and weights are exact. What is lost is half a unit at
// most, about 2^−22 of the sub-block's largest magnitude.

namespace greta {

inline constexpr int kTeam = 64;
inline constexpr int kDigits = 3;

/// Where four columns go: to which lane, and which four of its.
struct GroupPlace {
  uint32_t lane, group;
};

/// What a lane reads, in units of 16 bytes; those of all lanes lie next to each other.
template <int kTokens>
struct LaneX {
  const std::byte* own;  ///< the lane's first unit, of token 0
  uint32_t token_bytes;  ///< from one token to the next

  template <class T>
  __device__ T load(int unit, int token) const {
    static_assert(sizeof(T) == 16);
    return load_as<T>(own + token * token_bytes + unit * 16);
  }
};

// ---- Floats: a unit is a group.

template <class Dot>
struct FloatUnits {
  /// From one group of a lane to the next, in units: more than there are lanes, so that writing in
  /// the order of columns does not meet in one bank.
  static constexpr int kStride = kTeam + 4;
  static constexpr int kStepBytes = Dot::kColumns / 4 * kStride * 16;

  /// Stores the four x of group `group` of a step.
  __device__ static void put(std::byte* step, uint32_t group, const Floats4& x) {
    const GroupPlace place = Dot::group_place(group);
    store_as(step + (place.group * kStride + place.lane) * 16, x);
  }
  template <int kTokens>
  __device__ static Floats4 group(const LaneX<kTokens>& x, int group, int token) {
    return x.template load<Floats4>(group * kStride, token);
  }
};

// ---- Digits: a unit has a digit of 16 columns.

namespace lane_x_detail {

/// The bytes k0 .. k3 of a (0 .. 3) and b (4 .. 7).
template <int k0, int k1, int k2, int k3>
__device__ inline uint32_t pick_bytes(uint32_t a, uint32_t b) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  return __byte_perm(a, b, k3 << 12 | k2 << 8 | k1 << 4 | k0);
#elif defined(GRETA_AMD) && defined(__HIP_DEVICE_COMPILE__)
  return __builtin_amdgcn_perm(b, a, k3 << 24 | k2 << 16 | k1 << 8 | k0);
#else
  const auto byte = [&](int k) { return (k < 4 ? a >> 8 * k : b >> 8 * (k - 4)) & 0xff; };
  return byte(k0) | byte(k1) << 8 | byte(k2) << 16 | byte(k3) << 24;
#endif
}

/// The larger magnitude; NaN when one is.
struct LargerMagnitude {
  __device__ float operator()(float a, float b) const {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(fabsf(a)), "f"(fabsf(b)));
    return result;
#else
    const uint32_t left = bits_as<uint32_t>(a) & 0x7fffffffu;
    const uint32_t right = bits_as<uint32_t>(b) & 0x7fffffffu;
    const uint32_t larger = left > right ? left : right;
    return bits_as<float>(larger);
#endif
  }
};

/// The exponent, as a float has it, that `unit` is 2^21 below: of `largest` with room for rounding
/// and for the digits' offsets. So large that the unit is a normal number.
__device__ inline uint32_t shared_exponent(float largest) {
  const uint32_t exponent = bits_as<uint32_t>(largest * 0x1.04p0f) >> 23;
  return exponent > 22 ? exponent : 22;
}
__device__ inline float unit_of(uint32_t exponent, float largest) {
  const uint32_t bits =
      bits_as<uint32_t>(largest) < 0x7f800000u ? (exponent - 21) << 23 : 0x7fc00000u;
  return bits_as<float>(bits);
}

/// Byte i of word d: digit d of x[i].
struct Digits4 {
  uint32_t word[kDigits];
};
__device__ inline Digits4 digits_of(const Floats4& x, uint32_t exponent) {
  const uint32_t units_bits = (275 - exponent) << 23;
  const auto per_unit = bits_as<float>(units_bits);
  // Added to a number's units: its digits are the three bytes of the mantissa, less 128, 128, 64.
  constexpr float kOffset = 0x1.8p23f + 0x8080;
  uint32_t v[4];
  GRETA_UNROLL
  for (int i = 0; i < 4; ++i) {
    const float sum = fmaf(x.value[i], per_unit, kOffset);
    v[i] = bits_as<uint32_t>(sum);
  }
  const uint32_t low01 = pick_bytes<0, 4, 1, 5>(v[0], v[1]);
  const uint32_t low23 = pick_bytes<0, 4, 1, 5>(v[2], v[3]);
  const uint32_t high01 = pick_bytes<2, 6, 2, 6>(v[0], v[1]);
  const uint32_t high23 = pick_bytes<2, 6, 2, 6>(v[2], v[3]);
  return {{pick_bytes<0, 1, 4, 5>(low01, low23) ^ 0x80808080u,
           pick_bytes<2, 3, 6, 7>(low01, low23) ^ 0x80808080u,
           ((pick_bytes<0, 1, 4, 5>(high01, high23) | 0x80808080u) - 0x40404040u) ^ 0x80808080u}};
}

}  // namespace lane_x_detail

/// A lane's columns are kSlots sub-blocks, or parts of them. What their digits are worth is one
/// unit or two: the units of the slots and, behind them, where they are wanted, the sums of x over
/// the sub-blocks.
template <class Dot>
struct DigitUnits {
  /// Words of groups that are written together lie in different banks.
  static constexpr int kStride = kTeam + 6;
  static constexpr int kChunks = Dot::kColumns / 16;
  static constexpr int kWorthUnit = kChunks * kDigits * kStride;
  static constexpr int kWorthUnits = (Dot::kSlots * (Dot::kHasMins ? 2 : 1) + 3) / 4;
  static constexpr int kStepBytes = (kWorthUnit + kWorthUnits * kTeam) * 16;
  static constexpr int kSlotGroups = Dot::kColumns / Dot::kSlots / 4;
  static_assert(Dot::kSlots <= 4);

  /// Of a token.
  struct Worth {
    Floats4 unit[kWorthUnits];

    __device__ float of_slot(int slot) const { return unit[0].value[slot]; }
    __device__ float sum(int slot) const {
      return unit[(Dot::kSlots + slot) / 4].value[(Dot::kSlots + slot) % 4];
    }
  };

  /// As above; eight neighbouring lanes have the groups of a sub-block.
  __device__ static void put(std::byte* step, uint32_t group, const Floats4& x) {
    using namespace lane_x_detail;
    constexpr LargerMagnitude kLarger;
    const float largest = wave_reduce<8>(
        kLarger(kLarger(x.value[0], x.value[1]), kLarger(x.value[2], x.value[3])), kLarger);
    const uint32_t exponent = shared_exponent(largest);
    const Digits4 digits = digits_of(x, exponent);
    const GroupPlace place = Dot::group_place(group);
    std::byte* const own = step + place.lane * 16;
    GRETA_UNROLL
    for (int d = 0; d < kDigits; ++d) {
      store_as(own + ((place.group / 4 * kDigits + d) * kStride) * 16 + place.group % 4 * 4,
               digits.word[d]);
    }
    const uint32_t slot = place.group / kSlotGroups;
    const bool first = place.group % kSlotGroups == 0;
    if (first) store_as(worth_at(own, slot), unit_of(exponent, largest));
    if constexpr (Dot::kHasMins) {
      const float own_sum = (x.value[0] + x.value[1]) + (x.value[2] + x.value[3]);
      const float sum = wave_reduce<kSlotGroups>(own_sum, Plus{});
      if (first) store_as(worth_at(own, Dot::kSlots + slot), sum);
    }
  }
  template <int kTokens>
  __device__ static void chunk(const LaneX<kTokens>& x, int chunk, int token,
                               Words4 (&digits)[kDigits]) {
    int first = chunk * kDigits * kStride;
#if defined(GRETA_AMD) && defined(__HIP_DEVICE_COMPILE__)
    // Its compiler would begin with the loads of all chunks, and run out of registers.
    asm volatile("" : "+v"(first)::"memory");
#endif
    GRETA_UNROLL
    for (int d = 0; d < kDigits; ++d) {
      digits[d] = x.template load<Words4>(first + d * kStride, token);
    }
  }
  template <int kTokens>
  __device__ static Worth worth(const LaneX<kTokens>& x, int token) {
    Worth worth;
    GRETA_UNROLL
    for (int i = 0; i < kWorthUnits; ++i) {
      worth.unit[i] = x.template load<Floats4>(kWorthUnit + i * kTeam, token);
    }
    return worth;
  }

 private:
  __device__ static std::byte* worth_at(std::byte* own, uint32_t i) {
    return own + (kWorthUnit + i / 4 * kTeam) * 16 + i % 4 * 4;
  }
};

// ---- Sums of products with digits.

/// Σ weight·digit for each digit, on top of a number whose bits, read as a float, count on in ones.
struct DigitSums {
  int32_t sum[kDigits];

  /// (No initialiser: nvcc 13.0 forgets those of an array in an array.)
  __device__ void clear() {
    GRETA_UNROLL
    for (int d = 0; d < kDigits; ++d) sum[d] = 0x4b400000;  // 1.5·2^23
  }
  __device__ void add(uint32_t weights, const Words4 (&digits)[kDigits], int word) {
    GRETA_UNROLL
    for (int d = 0; d < kDigits; ++d) sum[d] = dot4_i8(weights, digits[d].word[word], sum[d]);
  }
  /// Σ weight·x in units; sums of digits are below 2^22.
  __device__ float total() const {
    constexpr float kZero = 0x1.8p23f;
    const float low = bits_as<float>(sum[0]) - kZero;
    const float middle = fmaf(bits_as<float>(sum[1]) - kZero, 256.0f, low);
    return fmaf(bits_as<float>(sum[2]) - kZero, 65536.0f, middle);
  }
};

}  // namespace greta
