#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "kernels/matrix.h"

// Blocks of the quantised storage types and their packed numbers, as the bytes of a GGUF file.
// constexpr, so that host and device code share them. Source: ggml's published block layouts.

namespace greta {

/// 32 values: x[i] = d·(q[i] − 8).
struct BlockQ4_0 {
  uint16_t d;      ///< f16
  uint8_t qs[16];  ///< byte i: q[i] in the low nibble, q[i + 16] in the high one
};

/// 32 values: x[i] = d·q[i] + m.
struct BlockQ4_1 {
  uint16_t d, m;   ///< f16
  uint8_t qs[16];  ///< as in q4_0
};

/// 32 values: x[i] = d·(q[i] − 16), q of 5 bits.
struct BlockQ5_0 {
  uint16_t d;      ///< f16
  uint8_t qh[4];   ///< bit i % 8 of byte i / 8: the fifth bit of q[i]
  uint8_t qs[16];  ///< the low four bits, as in q4_0
};

/// As q4_1 with q of 5 bits.
struct BlockQ5_1 {
  uint16_t d, m;
  uint8_t qh[4];  ///< as in q5_0
  uint8_t qs[16];
};

/// 32 values: x[i] = d·kIq4Levels[q[i]].
struct BlockIQ4NL {
  uint16_t d;      ///< f16
  uint8_t qs[16];  ///< as in q4_0
};

/// What the 16 numbers of iq4_nl mean: closer to each other where weights are many.
inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

/// 32 values: x[i] = d·q[i].
struct BlockQ8_0 {
  uint16_t d;  ///< f16
  int8_t qs[32];
};

/// What tells blocks of 32 apart whose nibbles lie as in q4_0.
template <class Block>
inline constexpr bool kHasFifthBits = requires(Block block) {
  block.qh;
};
template <class Block>
inline constexpr bool kHasMin = requires(Block block) {
  block.m;
};

/// 256 values in 16 sub-blocks of 16: x = (d·scale)·q − dmin·min, q of 2 bits.
struct BlockQ2K {
  uint8_t scales[16];  ///< scale in the low nibble, min in the high one
  uint8_t qs[64];      ///< 32 bytes for each half of 128 values. Bits 2g and 2g + 1 of byte i:
                       ///< value 32g + i of the half
  uint16_t d, dmin;    ///< f16, of the scales and of the mins
};

/// 256 values in 16 sub-blocks of 16: x = (d·(scale − 32))·(q − 4), q of 3 bits.
struct BlockQ3K {
  uint8_t hmask[32];   ///< bit 4h + g of byte i: the third bit of value 32g + i of half h
  uint8_t qs[64];      ///< the low two bits, as in q2_k
  uint8_t scales[12];  ///< 6 bits each: unpack_scale()
  uint16_t d;          ///< f16
};

/// 256 values in 8 sub-blocks of 32: x = (d·scale)·q − dmin·min, q of 4 bits.
struct BlockQ4K {
  uint16_t d, dmin;    ///< f16, of the scales and of the mins
  uint8_t scales[12];  ///< 6 bits each: unpack_scale_min()
  uint8_t qs[128];     ///< byte 32c + i: q[64c + i] in the low nibble, q[64c + 32 + i] in the high
};

/// As q4_k with q of 5 bits.
struct BlockQ5K {
  uint16_t d, dmin;
  uint8_t scales[12];
  uint8_t qh[32];   ///< bit s of byte i: the fifth bit of value i of sub-block s
  uint8_t qs[128];  ///< the low four bits, as in q4_k
};

/// True of q4_k and q5_k, which differ in the fifth bits alone.
template <class Block>
inline constexpr bool kHasScaleMins =
    std::is_same_v<Block, BlockQ4K> || std::is_same_v<Block, BlockQ5K>;

/// 256 values in 16 sub-blocks of 16: x = (d·scale)·(q − 32), q of 6 bits.
struct BlockQ6K {
  /// Low four bits, 64 bytes for each half of 128 values. Within a half, byte i: value i low and
  /// value 64 + i high.
  uint8_t ql[128];
  /// High two bits, 32 bytes for each half. Bits 2g and 2g + 1 of byte i: value 32g + i of the
  /// half.
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;  ///< f16
};

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22 &&
              sizeof(BlockQ5_1) == 24 && sizeof(BlockIQ4NL) == 18 && sizeof(BlockQ8_0) == 34 &&
              sizeof(BlockQ2K) == 84 && sizeof(BlockQ3K) == 110 && sizeof(BlockQ4K) == 144 &&
              sizeof(BlockQ5K) == 176 && sizeof(BlockQ6K) == 210);

/// Blocks in the order of kWeightTypes, from the first quantised type on.
using Blocks = std::tuple<BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0, BlockIQ4NL,
                          BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K>;
constexpr size_t place_in_blocks(WeightType type) {
  size_t place = 0;
  while (kWeightTypes[place].type != type) ++place;
  return place - (kWeightTypes.size() - std::tuple_size_v<Blocks>);
}
template <WeightType kType>
using BlockOf = std::tuple_element_t<place_in_blocks(kType), Blocks>;
static_assert(std::is_same_v<BlockOf<WeightType::kQ4_0>, BlockQ4_0> &&
              std::is_same_v<BlockOf<WeightType::kIQ4_NL>, BlockIQ4NL>);

/// Scale and min of a sub-block, both below 64.
struct ScaleMin {
  uint8_t scale, min;
};

/// Of sub-block j of 8. The first four pairs lie in the low six bits of bytes j and j + 4; the
/// others have their low nibbles in byte j + 4 and their high two bits on top of bytes j − 4 and j.
constexpr ScaleMin unpack_scale_min(const uint8_t (&packed)[12], int j) {
  if (j < 4) {
    return {static_cast<uint8_t>(packed[j] & 63), static_cast<uint8_t>(packed[j + 4] & 63)};
  }
  return {static_cast<uint8_t>((packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4)),
          static_cast<uint8_t>((packed[j + 4] >> 4) | ((packed[j] >> 6) << 4))};
}

constexpr void pack_scale_mins(const ScaleMin (&pairs)[8], uint8_t (&packed)[12]) {
  for (int j = 0; j < 4; ++j) {
    const ScaleMin first = pairs[j], second = pairs[j + 4];
    packed[j] = static_cast<uint8_t>(first.scale | (second.scale >> 4) << 6);
    packed[j + 4] = static_cast<uint8_t>(first.min | (second.min >> 4) << 6);
    packed[j + 8] = static_cast<uint8_t>((second.scale & 15) | (second.min & 15) << 4);
  }
}

/// q3_k: the scale of sub-block s of 16, still 32 too large. The low four bits of the first eight
/// are the low nibbles of bytes 0 .. 7, those of the others the high ones; the high two lie in
/// bytes 8 .. 11, those of four neighbours at one place in them.
constexpr int unpack_scale(const uint8_t (&packed)[12], int s) {
  return (packed[s % 8] >> (s / 8 * 4) & 15) | (packed[8 + s % 4] >> (s / 4 * 2) & 3) << 4;
}

constexpr void pack_scales(const uint8_t (&scales)[16], uint8_t (&packed)[12]) {
  for (uint8_t& byte : packed) byte = 0;
  for (int s = 0; s < 16; ++s) {
    packed[s % 8] = static_cast<uint8_t>(packed[s % 8] | (scales[s] & 15) << (s / 8 * 4));
    packed[8 + s % 4] = static_cast<uint8_t>(packed[8 + s % 4] | scales[s] >> 4 << (s / 4 * 2));
  }
}

/// f16 (IEEE binary16) to f32: exact; a NaN stays one.
constexpr float f16_to_f32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t field = (half >> 10) & 31;
  const uint32_t mantissa = half & 0x3ff;
  if (field == 0) {  // zero or subnormal, in units of 2^−24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  const uint32_t exponent = field == 31 ? 255 : field + 112;
  return std::bit_cast<float>(sign | exponent << 23 | mantissa << 13);
}

/// f32 to f16, to nearest even; 65520 and above give infinity, a NaN stays one.
constexpr uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t sign = (bits >> 16) & 0x8000u;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Below 2^−14 the unit is 2^−24, which is also f32's unit in [0.5, 1).
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1;
  return static_cast<uint16_t>(sign | (magnitude - (112u << 23) + 0xfff + odd) >> 13);
}

/// bf16, the upper half of an f32.
constexpr float bf16_to_f32(uint16_t half) {
  return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
}

/// f32 to bf16, to nearest even; may give infinity, a NaN stays one.
constexpr uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

}  // namespace greta
