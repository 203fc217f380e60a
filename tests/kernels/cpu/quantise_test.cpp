// What comes back of values that are stored, and what is refused.
#include "kernels/cpu/quantise.h"

#include <cmath>
#include <functional>
#include <stdexcept>

#include "kernels/blocks.h"
#include "kernels/fingerprint/fingerprint.h"
#include "tests/kernels/random_blocks.h"

namespace greta {
namespace {

size_t stored_bytes(const WeightTypeInfo& info, size_t n) {
  return n / info.block_values * info.block_bytes;
}

Bytes store(WeightType type, const Values& values) {
  Bytes data(stored_bytes(weight_type_info(type), values.size()));
  quantise(type, values, data);
  return data;
}

Values round_trip(WeightType type, const Values& values) {
  return expand(type, store(type, values), values.size());
}

// Roughly normal with deviation 1, from integers.
float normal_value(uint64_t i) {
  double sum = -6;
  for (uint64_t k = 0; k < 12; ++k) sum += static_cast<double>(mix64(i * 16 + k) >> 11) * 0x1p-53;
  return static_cast<float>(sum);
}

Values make_values(size_t n, const std::function<float(uint64_t)>& value) {
  Values values(n);
  for (size_t i = 0; i < n; ++i) values[i] = value(i);
  return values;
}

double relative_error(const Values& a, const Values& b) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    norm += static_cast<double>(a[i]) * a[i];
  }
  return std::sqrt(error / norm);
}

uint64_t hash_of(const Bytes& data) {
  uint64_t hash = 0;
  for (const std::byte byte : data) hash = mix64(hash ^ static_cast<uint64_t>(byte)) + 1;
  return hash;
}

class EveryType : public testing::TestWithParam<WeightTypeInfo> {};
INSTANTIATE_TEST_SUITE_P(Quants, EveryType, testing::ValuesIn(kWeightTypes),
                         [](const auto& type) { return std::string(type.param.name); });

TEST_P(EveryType, BlocksMayLieAtAnyAddress) {
  const WeightTypeInfo& info = GetParam();
  const Values values = make_values(512, normal_value);
  const Bytes data = store(info.type, values);
  const Values expected = expand(info.type, data, values.size());
  for (size_t shift = 1; shift < 8; ++shift) {
    Bytes moved(data.size() + 8);
    const std::span<std::byte> at = std::span(moved).subspan(shift, data.size());
    quantise(info.type, values, at);
    ASSERT_TRUE(std::equal(data.begin(), data.end(), at.begin()));
    Values out(values.size() + 1);
    dequantise(info.type, at, std::span(out).subspan(1));
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), out.begin() + 1));
  }
}

TEST_P(EveryType, SizesThatDoNotMatchAreRefused) {
  const WeightTypeInfo& info = GetParam();
  Bytes data(2 * info.block_bytes);
  Values values(2 * info.block_values);
  EXPECT_NO_THROW(dequantise(info.type, data, values));
  EXPECT_NO_THROW(dequantise(info.type, {}, {}));
  EXPECT_NO_THROW(quantise(info.type, {}, {}));
  const std::span all(data);
  EXPECT_THROW(dequantise(info.type, all.first(data.size() - 1), values), std::invalid_argument);
  EXPECT_THROW(dequantise(info.type, all.first(info.block_bytes), values), std::invalid_argument);
  EXPECT_THROW(quantise(info.type, values, all.first(info.block_bytes)), std::invalid_argument);
  if (info.block_values == 1) return;
  values.pop_back();
  EXPECT_THROW(dequantise(info.type, data, values), std::invalid_argument);
  EXPECT_THROW(quantise(info.type, values, data), std::invalid_argument);
}

TEST_P(EveryType, ValuesThatAreNotFiniteAreRefused) {
  const WeightTypeInfo& info = GetParam();
  for (const float bad : {kNan, kInf, -kInf}) {
    for (const size_t at : {size_t{0}, size_t{100}, size_t{511}}) {
      Values values = make_values(512, normal_value);
      values[at] = bad;
      try {
        store(info.type, values);
        FAIL() << bad << " at " << at;
      } catch (const std::invalid_argument& error) {
        EXPECT_NE(std::string(error.what()).find("at index " + std::to_string(at)),
                  std::string::npos)
            << error.what();
      }
    }
  }
}

TEST_P(EveryType, ZerosStayZeros) {
  const Values zeros(512, 0.0f);
  EXPECT_EQ(round_trip(GetParam().type, zeros), zeros);
}

TEST_P(EveryType, ExtremesNeitherClipNorBecomeNonFinite) {
  const WeightTypeInfo& info = GetParam();
  for (int exponent = -149; exponent < 128; ++exponent) {
    const float unit = std::ldexp(1.0f, exponent);
    const Values values =
        make_values(256, [&](uint64_t i) { return (static_cast<float>(i % 17) - 8) / 8 * unit; });
    Values again;
    try {
      again = round_trip(info.type, values);
    } catch (const std::invalid_argument&) {
      // The greatest scale of an f16 is 65504; no type may refuse what one q can reach.
      EXPECT_GT(unit, 65504.0f * 7 / 8) << info.name;
      continue;
    }
    // Half a step, with room for the scale: the steps of two bits are two thirds of the unit.
    const float most = (info.type == WeightType::kQ2_K ? 0.4f : 0.25f) * unit + 0x1p-14f;
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_LE(std::fabs(again[i] - values[i]), most) << info.name << exponent;
    }
  }
}

TEST_P(EveryType, ValuesThatTheTypeHoldsExactlyComeBackExactly) {
  const WeightTypeInfo& info = GetParam();
  // Multiples of 1/64 from −8/64 to 7/64: within 4 bits, each run has its extremes. Fewer of them,
  // or the levels, where a type has no such numbers.
  const Values values = make_values(512, [&](uint64_t i) {
    if (info.type == WeightType::kIQ4_NL) return static_cast<float>(kIq4Levels[i * 7 % 16]) / 1024;
    const uint64_t n = info.type == WeightType::kQ2_K ? 4 : info.type == WeightType::kQ3_K ? 8 : 16;
    return (static_cast<float>(i * 7 % n) - static_cast<float>(n) / 2) / 64;
  });
  // 8-bit scales are not powers of two when the greatest of 127 steps is 8/64.
  const float tolerance = info.type == WeightType::kQ8_0 ? 0x1p-11f : 0x1p-14f;
  const Values again = round_trip(info.type, values);
  for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(again[i], values[i], tolerance) << i;
}

struct Bound {
  WeightType type;
  double bell, skewed, positive;  // relative L2 error
  uint64_t hash;                  // of 4,096 normal values' bytes
};
constexpr Bound kBounds[] = {
    {WeightType::kF32, 0, 0, 0, 9955695971004778635u},
    {WeightType::kF16, 2.2e-4, 2.2e-4, 1.9e-4, 11347156429300659582u},
    {WeightType::kBF16, 1.7e-3, 1.7e-3, 1.6e-3, 339730758520611127u},
    {WeightType::kQ4_0, 0.081, 0.109, 0.0392, 4677686350721650012u},
    {WeightType::kQ4_1, 0.0696, 0.0845, 7.8e-3, 3964662760538458436u},
    {WeightType::kQ5_0, 0.0399, 0.0587, 0.0198, 9325128876119273959u},
    {WeightType::kQ5_1, 0.0336, 0.0439, 3.8e-3, 215813212985194723u},
    {WeightType::kIQ4_NL, 0.0741, 0.0904, 0.0538, 111844423271384545u},
    {WeightType::kQ2_K, 0.264, 0.245, 0.0935, 6888040047377321836u},
    {WeightType::kQ3_K, 0.143, 0.148, 0.0716, 17929601718355617669u},
    {WeightType::kQ8_0, 5.4e-3, 8.7e-3, 2.8e-3, 4674287023105391118u},
    {WeightType::kQ4_K, 0.0703, 0.087, 0.0214, 4891836427052280148u},
    {WeightType::kQ5_K, 0.0346, 0.046, 0.0106, 1732971393033282218u},
    {WeightType::kQ6_K, 0.0172, 0.024, 9.3e-3, 5079762588141573622u},
};

TEST(Quantise, ErrorsStayWithinTheirBounds) {
  constexpr size_t kValues = 1 << 16;
  const Values bell = make_values(kValues, normal_value);
  const Values skewed = make_values(
      kValues, [](uint64_t i) { return normal_value(i) * normal_value(i) * normal_value(i); });
  const Values positive = make_values(kValues, [](uint64_t i) { return 3 + normal_value(i) / 3; });
  for (const Bound& bound : kBounds) {
    SCOPED_TRACE(weight_type_info(bound.type).name);
    EXPECT_LE(relative_error(bell, round_trip(bound.type, bell)), bound.bell);
    EXPECT_LE(relative_error(skewed, round_trip(bound.type, skewed)), bound.skewed);
    EXPECT_LE(relative_error(positive, round_trip(bound.type, positive)), bound.positive);
  }
}

TEST(Quantise, TheSameBytesEverywhere) {
  const Values bell = make_values(1 << 12, normal_value);
  for (const Bound& bound : kBounds) {
    EXPECT_EQ(hash_of(store(bound.type, bell)), bound.hash) << weight_type_info(bound.type).name;
  }
}

}  // namespace
}  // namespace greta
