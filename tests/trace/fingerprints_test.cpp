// Fingerprints of the C API are those of the CPU, to the bit, whatever the values' type.
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "kernels/blocks.h"
#include "kernels/fingerprint/fingerprint.h"
#include "tests/trace/trace_fixture.h"

namespace greta {
namespace {

greta_fingerprint of(greta_dtype dtype, const void* values, size_t n) {
  greta_fingerprint print = GRETA_FINGERPRINT_INIT;
  EXPECT_EQ(greta_fingerprint_values(dtype, values, n, &print), GRETA_OK) << greta_error_text();
  return print;
}

/// Bit by bit: NaN too.
void expect_equal(const greta_fingerprint& api, const Fingerprint& cpu) {
  greta_fingerprint expected = GRETA_FINGERPRINT_INIT;
  expected.n = cpu.n;
  expected.hash = cpu.hash;
  expected.min = cpu.min;
  expected.max = cpu.max;
  expected.mean = cpu.mean;
  expected.abs_sum = cpu.abs_sum;
  expected.sum_sq = cpu.sum_sq;
  expected.nan = cpu.nan;
  expected.inf = cpu.inf;
  expected.nz_count = cpu.nz_count;
  std::copy(cpu.sketch.begin(), cpu.sketch.end(), expected.sketch);
  EXPECT_EQ(std::memcmp(&api, &expected, sizeof api), 0);
}

TEST(TraceFingerprints, TenThousandRandomRowsOfAnyBits) {
  std::mt19937_64 random(17);
  std::vector<float> row;
  for (int i = 0; i < 10'000; ++i) {
    row.resize(random() % 300);
    // Some rows of any bits, others of one magnitude, as engines have them.
    for (float& x : row) {
      const auto bits = static_cast<uint32_t>(random());
      x = i % 2 == 0 ? std::bit_cast<float>(bits) : static_cast<float>(bits) * 0x1p-31f - 1;
    }
    expect_equal(of(GRETA_F32, row.data(), row.size()),
                 fingerprint_sums(row, Isa::kBaseline).finish());
    if (HasFailure()) return;
  }
}

TEST(TraceFingerprints, SixteenBitsAreTheValuesThatTheyAre) {
  std::vector<uint16_t> halves(65'536 + 3);
  std::vector<float> of_f16, of_bf16;
  for (size_t i = 0; i < halves.size(); ++i) {
    halves[i] = static_cast<uint16_t>(i);
    of_f16.push_back(f16_to_f32(halves[i]));
    of_bf16.push_back(std::bit_cast<float>(static_cast<uint32_t>(halves[i]) << 16));
  }
  expect_equal(of(GRETA_F16, halves.data(), halves.size()), fingerprint(of_f16));
  expect_equal(of(GRETA_BF16, halves.data(), halves.size()), fingerprint(of_bf16));
}

TEST(TraceFingerprints, EveryInstructionSetWidensAlike) {
  std::vector<uint16_t> halves(65'536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  std::vector<float> wide(halves.size()), expected(halves.size());
  for (const ValueType type : {ValueType::kF16, ValueType::kBf16}) {
    widen(type, halves.data(), halves.size(), expected.data(), Isa::kBaseline);
    for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
      if (isa > best_isa()) continue;
      widen(type, halves.data(), halves.size(), wide.data(), isa);
      for (size_t i = 0; i < wide.size(); ++i) {
        const bool same = std::bit_cast<uint32_t>(wide[i]) == std::bit_cast<uint32_t>(expected[i]);
        ASSERT_TRUE(same || (std::isnan(wide[i]) && std::isnan(expected[i]))) << i;
      }
    }
  }
}

TEST(TraceFingerprints, ValuesMayLieAnywhere) {
  std::vector<float> row(1000);
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i) * 0.37f - 100;
  std::vector<char> shifted(row.size() * 4 + 1);
  std::memcpy(shifted.data() + 1, row.data(), row.size() * 4);
  expect_equal(of(GRETA_F32, shifted.data() + 1, row.size()), fingerprint(row));
}

}  // namespace
}  // namespace greta
