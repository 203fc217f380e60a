// What stored bytes mean: halves, the scales of blocks, every type.
#include <cmath>
#include <cstring>

#include "kernels/blocks.h"
#include "kernels/fingerprint/fingerprint.h"
#include "tests/kernels/random_blocks.h"

namespace greta {
namespace {

// ---- The layouts once more, as bit addresses in the block and numbers in double.

double half_value(const uint8_t* at) {
  const int half = at[0] | at[1] << 8;
  const int field = half >> 10 & 31, mantissa = half & 1023;
  const double sign = half >> 15 != 0 ? -1 : 1;
  if (field == 31) return mantissa != 0 ? std::nan("") : sign * HUGE_VAL;
  return sign * std::ldexp(field == 0 ? mantissa : 1024 + mantissa, std::max(field, 1) - 25);
}

int bits_at(const uint8_t* bytes, int bit, int width) {
  int value = 0;
  for (int i = 0; i < width; ++i) value |= (bytes[(bit + i) / 8] >> (bit + i) % 8 & 1) << i;
  return value;
}

// Sub-block s of 8: six bits at byte s, or four at byte s + 4 and two on top of byte s − 4; the
// mins lie four bytes further, with their nibble above the scales'.
int packed_scale(const uint8_t* scales, int s) {
  if (s < 4) return bits_at(scales, 8 * s, 6);
  return bits_at(scales, 8 * (s + 4), 4) + 16 * bits_at(scales, 8 * (s - 4) + 6, 2);
}
int packed_min(const uint8_t* scales, int s) {
  if (s < 4) return bits_at(scales, 8 * (s + 4), 6);
  return bits_at(scales, 8 * (s + 4) + 4, 4) + 16 * bits_at(scales, 8 * s + 6, 2);
}

// The same of q3_k, of 16 sub-blocks: four bits at the nibbles of eight bytes, the low ones first,
// and two, four sub-blocks' beside each other, in the four bytes behind.
int packed_scale_of_16(const uint8_t* scales, int s) {
  return bits_at(scales, 8 * (s % 8) + s / 8 * 4, 4) +
         16 * bits_at(scales, 64 + 8 * (s % 4) + s / 4 * 2, 2);
}

double reference_value(WeightType type, const uint8_t* block, int i) {
  switch (type) {
    case WeightType::kF32: {
      float value;
      std::memcpy(&value, block, sizeof value);
      return value;
    }
    case WeightType::kF16:
      return half_value(block);
    case WeightType::kBF16: {
      const uint32_t bits = static_cast<uint32_t>(bits_at(block, 0, 16)) << 16;
      float value;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    }
    case WeightType::kQ4_0:
      return half_value(block) * (bits_at(block + 2, 8 * (i % 16) + i / 16 * 4, 4) - 8);
    case WeightType::kQ4_1:
      return half_value(block) * bits_at(block + 4, 8 * (i % 16) + i / 16 * 4, 4) +
             half_value(block + 2);
    case WeightType::kQ5_0:
      return half_value(block) * (bits_at(block + 6, 8 * (i % 16) + i / 16 * 4, 4) +
                                  16 * bits_at(block + 2, i, 1) - 16);
    case WeightType::kQ5_1:
      return half_value(block) * (bits_at(block + 8, 8 * (i % 16) + i / 16 * 4, 4) +
                                  16 * bits_at(block + 4, i, 1)) +
             half_value(block + 2);
    case WeightType::kIQ4_NL: {
      constexpr int kLevels[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};
      return half_value(block) * kLevels[bits_at(block + 2, 8 * (i % 16) + i / 16 * 4, 4)];
    }
    case WeightType::kQ8_0:
      return half_value(block) * static_cast<int8_t>(block[2 + i]);
    case WeightType::kQ2_K: {
      const int q = bits_at(block + 16, 8 * (i / 128 * 32 + i % 32) + i % 128 / 32 * 2, 2);
      return half_value(block + 80) * bits_at(block, 8 * (i / 16), 4) * q -
             half_value(block + 82) * bits_at(block, 8 * (i / 16) + 4, 4);
    }
    case WeightType::kQ3_K: {
      const int low = bits_at(block + 32, 8 * (i / 128 * 32 + i % 32) + i % 128 / 32 * 2, 2);
      const int high = bits_at(block, 8 * (i % 32) + i / 32, 1);
      return half_value(block + 108) * (packed_scale_of_16(block + 96, i / 16) - 32) *
             (low + 4 * high - 4);
    }
    case WeightType::kQ4_K:
    case WeightType::kQ5_K: {
      const bool five = type == WeightType::kQ5_K;
      const int s = i / 32, j = i % 32;
      int q = bits_at(block + (five ? 48 : 16), 8 * (s / 2 * 32 + j) + s % 2 * 4, 4);
      if (five) q += 16 * bits_at(block + 16, 8 * j + s, 1);
      return half_value(block) * packed_scale(block + 4, s) * q -
             half_value(block + 2) * packed_min(block + 4, s);
    }
    case WeightType::kQ6_K: {
      const int half = i / 128, j = i % 128;
      const int low = bits_at(block, 8 * (half * 64 + j % 64) + j / 64 * 4, 4);
      const int high = bits_at(block + 128, 8 * (half * 32 + j % 32) + j / 32 * 2, 2);
      return half_value(block + 208) * static_cast<int8_t>(block[192 + i / 16]) *
             (low + 16 * high - 32);
    }
  }
  return 0;
}

TEST(Blocks, EveryHalfConvertsExactlyAndBack) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const uint8_t bytes[] = {static_cast<uint8_t>(half), static_cast<uint8_t>(half >> 8)};
    const double expected = half_value(bytes);
    const float value = f16_to_f32(static_cast<uint16_t>(half));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_GT(f32_to_f16(value) & 0x7fff, 0x7c00);
      continue;
    }
    ASSERT_EQ(value, expected) << half;
    ASSERT_EQ(std::signbit(value), half >= 0x8000) << half;
    ASSERT_EQ(f32_to_f16(value), half);
  }
}

TEST(Blocks, HalvesRoundToNearestEven) {
  for (uint16_t half = 0; half < 0x7bff; ++half) {
    const float low = f16_to_f32(half), high = f16_to_f32(static_cast<uint16_t>(half + 1));
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(f32_to_f16(middle), half + half % 2) << half;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), half);
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, kInf)), half + 1);
    ASSERT_EQ(f32_to_f16(-middle), 0x8000 + half + half % 2);
  }
  EXPECT_EQ(f32_to_f16(65519.99f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(Blocks, Bf16RoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0xff7f8000u)), 0xff80);  // to minus infinity
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x00018000u)), 0x0002);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const float value = bf16_to_f32(static_cast<uint16_t>(half));
    if (std::isnan(value)) continue;
    ASSERT_EQ(f32_to_bf16(value), half);
  }
}

TEST(Blocks, SixBitScalesByHand) {
  // Scales 0x3f 0x01 0x02 0x20 | 0x10 0x2f 0x08 0x3f, mins 0x04 0x15 0x3f 0x00 | 0x3f 0x01 0x20
  // 0x1a.
  const uint8_t packed[12] = {0x7f, 0x81, 0x02, 0xe0, 0xc4, 0x15,
                              0xbf, 0x40, 0xf0, 0x1f, 0x08, 0xaf};
  const int scales[] = {0x3f, 0x01, 0x02, 0x20, 0x10, 0x2f, 0x08, 0x3f};
  const int mins[] = {0x04, 0x15, 0x3f, 0x00, 0x3f, 0x01, 0x20, 0x1a};
  ScaleMin pairs[8];
  for (int s = 0; s < 8; ++s) {
    pairs[s] = unpack_scale_min(packed, s);
    EXPECT_EQ(pairs[s].scale, scales[s]) << s;
    EXPECT_EQ(pairs[s].min, mins[s]) << s;
  }
  uint8_t again[12];
  pack_scale_mins(pairs, again);
  EXPECT_TRUE(std::equal(packed, packed + 12, again));
}

TEST(Blocks, EveryBitOfTheScalesIsItsOwn) {
  for (int bit = 0; bit < 96; ++bit) {
    uint8_t packed[12] = {};
    packed[bit / 8] = static_cast<uint8_t>(1 << bit % 8);
    ScaleMin pairs[8];
    int set = 0;
    for (int s = 0; s < 8; ++s) {
      pairs[s] = unpack_scale_min(packed, s);
      EXPECT_EQ(pairs[s].scale, packed_scale(packed, s));
      EXPECT_EQ(pairs[s].min, packed_min(packed, s));
      set += std::popcount(pairs[s].scale) + std::popcount(pairs[s].min);
    }
    EXPECT_EQ(set, 1) << bit;
    uint8_t again[12];
    pack_scale_mins(pairs, again);
    EXPECT_TRUE(std::equal(packed, packed + 12, again)) << bit;
  }
}

TEST(Blocks, EveryBitOfTheSixteenScalesIsItsOwn) {
  for (int bit = 0; bit < 96; ++bit) {
    uint8_t packed[12] = {};
    packed[bit / 8] = static_cast<uint8_t>(1 << bit % 8);
    uint8_t scales[16];
    int set = 0;
    for (int s = 0; s < 16; ++s) {
      scales[s] = static_cast<uint8_t>(unpack_scale(packed, s));
      EXPECT_EQ(scales[s], packed_scale_of_16(packed, s));
      set += std::popcount(scales[s]);
    }
    EXPECT_EQ(set, 1) << bit;
    uint8_t again[12];
    pack_scales(scales, again);
    EXPECT_TRUE(std::equal(packed, packed + 12, again)) << bit;
  }
}

// A pattern that no random bytes may have missed: all of a nibble with either fifth bit, at every
// place of a block; all of two bits with either third.
TEST(Dequantise, EveryPatternOfAField) {
  for (const WeightType type :
       {WeightType::kQ4_0, WeightType::kQ4_1, WeightType::kQ5_0, WeightType::kQ5_1,
        WeightType::kIQ4_NL, WeightType::kQ2_K, WeightType::kQ3_K}) {
    const WeightTypeInfo& info = weight_type_info(type);
    for (unsigned pattern = 0; pattern < 256; ++pattern) {
      for (const unsigned high : {0x00u, 0xffu, 0x55u, 0xaau}) {
        Bytes data(info.block_bytes, static_cast<std::byte>(pattern));
        auto* bytes = reinterpret_cast<uint8_t*>(data.data());
        const auto fill = [&](size_t from, size_t n, unsigned value) {
          std::fill(bytes + from, bytes + from + n, static_cast<uint8_t>(value));
        };
        switch (type) {
          case WeightType::kQ2_K:
            fill(0, 16, high ^ pattern);
            fill(80, 4, 0x35);
            break;
          case WeightType::kQ3_K:
            fill(0, 32, high);
            fill(96, 12, high ^ pattern);
            fill(108, 2, 0x35);
            break;
          default:
            fill(0, 4, high);
            fill(4, info.block_bytes == 24 ? 4 : 0, high);
            fill(0, info.block_bytes == 20 || info.block_bytes == 24 ? 4 : 2, 0x35);
        }
        const Values values = expand(type, data, info.block_values);
        for (size_t i = 0; i < values.size(); ++i) {
          ASSERT_EQ(values[i],
                    static_cast<float>(reference_value(type, bytes, static_cast<int>(i))))
              << info.name << " " << pattern << " " << high << " " << i;
        }
      }
    }
  }
}

class EveryStoredType : public testing::TestWithParam<WeightTypeInfo> {};
INSTANTIATE_TEST_SUITE_P(Quants, EveryStoredType, testing::ValuesIn(kWeightTypes),
                         [](const auto& type) { return std::string(type.param.name); });

TEST_P(EveryStoredType, AnyBytesGiveTheExactValueRoundedOnce) {
  const WeightTypeInfo& info = GetParam();
  constexpr size_t kBlocks = 300;
  Bytes data(kBlocks * info.block_bytes);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(mix64(i) >> 20);
  const Values values = expand(info.type, data, kBlocks * info.block_values);
  size_t n_finite = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto* block =
        reinterpret_cast<const uint8_t*>(&data[i / info.block_values * info.block_bytes]);
    const double expected =
        reference_value(info.type, block, static_cast<int>(i % info.block_values));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(values[i])) << i;
    } else {
      ASSERT_EQ(values[i], static_cast<float>(expected)) << i;
      n_finite += std::isfinite(expected) ? 1 : 0;
    }
  }
  EXPECT_GT(n_finite, values.size() / 2);
}

}  // namespace
}  // namespace greta
