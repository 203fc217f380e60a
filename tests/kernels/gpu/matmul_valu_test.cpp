#include "kernels/gpu/matmul_valu.h"

#include <limits>
#include <stdexcept>

#include "kernels/fingerprint/fingerprint.h"
#include "tests/kernels/gpu/weights.h"

namespace greta {
namespace {

/// ‖got − exact‖ / ‖exact‖, with exact = x·wᵀ in double.
double relative_error(const Values& got, const Values& x, const TestWeights& w) {
  double error = 0, norm = 0;
  for (size_t t = 0; t < x.size() / w.cols; ++t) {
    for (size_t r = 0; r < w.rows; ++r) {
      double exact = 0;
      for (size_t k = 0; k < w.cols; ++k) {
        exact +=
            static_cast<double>(w.values[r * w.cols + k]) * static_cast<double>(x[t * w.cols + k]);
      }
      error += std::pow(static_cast<double>(got[t * w.rows + r]) - exact, 2);
      norm += exact * exact;
    }
  }
  return std::sqrt(error / norm);
}

// The values of a product are about as large as the root of the sum of its squared terms. With
// floats a lane adds cols / 64 terms one after the other, each time with half a unit of 2^−24 of
// error at most of what it has so far; for a few hundred terms that is a few 2^−24. With quantised
// weights x is rounded to units of at most 2^−20.9 of the largest of 32, which is about 2.5 times
// their mean: an error of 2.5·2^−20.9/√12 at most. Types with mins add up terms that are about
// twice as large as their weights.
constexpr double kMaxError = 1e-6;

TEST_F(GpuMatmulValu, EveryTypeIsCloseToTheExactProduct) {
  for (const WeightTypeInfo& info : kWeightTypes) {
    for (size_t cols : column_counts(info)) {
      for (size_t n_tokens : {1, 3}) {
        const TestWeights w = bell_weights(info.type, 19, cols, 1, stream_, 0.02);
        const Values x = bell_values(2, n_tokens * cols);
        EXPECT_LT(relative_error(product(x, w), x, w), kMaxError)
            << info.name << " " << cols << " " << n_tokens;
      }
    }
  }
}

TEST_F(GpuMatmulValu, EveryBitPatternOfABlockIsMultiplied) {
  for (const WeightTypeInfo& info : kWeightTypes) {
    if (info.block_values == 1) continue;
    const TestWeights w = random_weights(info.type, 23, 5 * info.block_values, 3, stream_);
    const Values x = bell_values(4, 2 * w.cols);
    EXPECT_LT(relative_error(product(x, w), x, w), kMaxError) << info.name;
  }
}

// One weight at a time: its place cannot be mistaken.
TEST_F(GpuMatmulValu, EveryColumnMeetsItsActivation) {
  for (const WeightTypeInfo& info : kWeightTypes) {
    const size_t cols = info.block_values == 1 ? 37 : std::max<size_t>(info.block_values, 64);
    const TestWeights w = random_weights(info.type, 3, cols, 5, stream_);
    Values x(cols * cols, 0.0f);
    for (size_t k = 0; k < cols; ++k) x[k * cols + k] = 1.0f;
    const Values got = product(x, w);
    for (size_t k = 0; k < cols; ++k) {
      for (size_t r = 0; r < w.rows; ++r) {
        const double exact = w.values[r * cols + k];
        // scale·(q − zero) and min are added in two steps, each rounded; they may be larger than
        // what remains of them.
        const double bound = 64 * 0x1p-24 * (std::fabs(exact) + 126);
        ASSERT_NEAR(got[k * w.rows + r], exact, info.block_values == 1 ? 0 : bound)
            << info.name << " " << r << " " << k;
      }
    }
  }
}

TEST_F(GpuMatmulValu, ATokensBitsDoNotDependOnTheBatch) {
  for (const WeightTypeInfo& info : kWeightTypes) {
    const size_t cols = info.block_values == 1 ? 1004 : 4096 + 2 * info.block_values;
    const size_t n_tokens = 9;
    const TestWeights w = bell_weights(info.type, 5, cols, 1, stream_);
    const Values x = bell_values(2, n_tokens * cols);
    const Values all = product(x, w);
    for (size_t n : {1, 2, 4}) {
      for (size_t first : {0, 3, 5}) {
        EXPECT_EQ(bits_of(product(slice(x, first * cols, n * cols), w)),
                  bits_of(slice(all, first * w.rows, n * w.rows)))
            << info.name << " " << n << " from " << first;
      }
    }
  }
}

TEST_F(GpuMatmulValu, ProductsTogetherHaveTheBitsOfEachAlone) {
  const size_t cols = 512;
  const std::vector<std::vector<WeightType>> cases{
      {WeightType::kF16, WeightType::kF16, WeightType::kF16},
      {WeightType::kQ4_K, WeightType::kQ4_K, WeightType::kQ6_K},
      {WeightType::kQ6_K, WeightType::kBF16, WeightType::kQ6_K},
      {WeightType::kQ8_0, WeightType::kQ4_0},
      {WeightType::kQ5_0, WeightType::kQ5_1, WeightType::kQ5_0},
      {WeightType::kQ2_K, WeightType::kQ3_K, WeightType::kQ2_K},
      {WeightType::kQ4_1, WeightType::kIQ4_NL}};
  for (size_t n_tokens : {1, 3}) {
    const Values x = bell_values(2, n_tokens * cols);
    const auto device_x = upload(x);
    for (const auto& types : cases) {
      std::vector<TestWeights> weights;
      std::vector<DeviceBuffer<float>> outs;
      std::vector<Product> products;
      for (size_t i = 0; i < types.size(); ++i) {
        // The first ends within a block's rows, the others begin there.
        const size_t rows = i == 0 ? 37 : 16 + i;
        weights.push_back(
            bell_weights(types[i], rows, cols, static_cast<uint32_t>(i + 1), stream_));
        outs.push_back(buffer<float>(n_tokens * rows));
        products.push_back({weights[i].device_matrix(), outs[i].data()});
      }
      matmul_valu(device_x.data(), static_cast<int64_t>(n_tokens), products, stream_);
      for (size_t i = 0; i < types.size(); ++i) {
        EXPECT_EQ(bits_of(download(outs[i])), bits_of(product(x, weights[i])))
            << weight_type_info(types[i]).name << " " << i;
      }
    }
  }
}

// A norm on the way: rows that begin at any address, of one and of several segments of columns.
// Heads that are turned whole and in part, types of one launch and of several.
TEST_F(GpuMatmulValu, WhatIsNotFiniteStaysInItsToken) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const WeightTypeInfo& info : kWeightTypes) {
    const size_t cols = info.block_values == 1 ? 99 : 3 * info.block_values, n_tokens = 5;
    const TestWeights w = bell_weights(info.type, 3, cols, 1, stream_);
    Values x = bell_values(2, n_tokens * cols);
    const Values clean = product(x, w);
    for (size_t k = 0; k < cols; ++k) x[cols + k] = std::numeric_limits<float>::quiet_NaN();
    for (size_t k = 0; k < cols; ++k) x[3 * cols + k] = k % 2 == 0 ? inf : -inf;
    const Values got = product(x, w);
    for (size_t t : {0, 2, 4}) {
      EXPECT_EQ(bits_of(slice(got, t * w.rows, w.rows)), bits_of(slice(clean, t * w.rows, w.rows)))
          << info.name << " token " << t;
    }
    for (size_t r = 0; r < w.rows; ++r) EXPECT_TRUE(std::isnan(got[w.rows + r]));
  }
}

TEST_F(GpuMatmulValu, NothingIsWrittenBeyondTheResult) {
  for (size_t rows : {1, 2, 15, 17}) {
    const TestWeights w = bell_weights(WeightType::kQ8_0, rows, 64, 1, stream_);
    const Values x = bell_values(2, 3 * w.cols);
    const auto device_x = upload(x);
    auto out = upload(Values(3 * rows + 40, 9.0f));
    const Product product{w.device_matrix(), out.data()};
    matmul_valu(device_x.data(), 3, {&product, 1}, stream_);
    const Values got = download(out);
    EXPECT_LT(relative_error(slice(got, 0, 3 * rows), x, w), kMaxError);
    EXPECT_EQ(slice(got, 3 * rows, 40), Values(40, 9.0f));
  }
}

// More rows than all blocks take at once: they go on to further ones, with other segments of x.
TEST_F(GpuMatmulValu, BlocksGoOnUntilNoRowsAreLeft) {
  const auto rows = static_cast<size_t>(device_info().n_processors) * 2 * 16 * 2 + 5;
  for (WeightType type : {WeightType::kQ4_0, WeightType::kQ4_K, WeightType::kQ2_K}) {
    const TestWeights w = bell_weights(type, rows, 256, 1, stream_);
    for (size_t n_tokens : {1, 3}) {
      const Values x = bell_values(2, n_tokens * w.cols);
      EXPECT_LT(relative_error(product(x, w), x, w), kMaxError);
    }
  }
  const TestWeights w = random_weights(WeightType::kQ4_0, rows, 4096 + 32, 1, stream_);
  const Values x = bell_values(2, w.cols);
  EXPECT_LT(relative_error(product(x, w), x, w), kMaxError);
}

// Blocks are larger where there are enough rows for all processors; with several tokens never.
TEST_F(GpuMatmulValu, BitsDoNotDependOnHowManyRowsThereAre) {
  const auto processors = static_cast<size_t>(device_info().n_processors);
  for (const WeightTypeInfo& info : kWeightTypes) {
    const size_t cols = info.block_values == 1 ? 72 : std::max<size_t>(info.block_values, 64);
    const Values x = bell_values(2, cols);
    Values three;
    for (int t = 0; t < 3; ++t) three.insert(three.end(), x.begin(), x.end());
    for (size_t rows : {processors * 16 - 3, processors * 32 - 7}) {
      const TestWeights w = random_weights(info.type, rows, cols, 1, stream_);
      EXPECT_EQ(bits_of(product(x, w)), bits_of(slice(product(three, w), rows, rows)))
          << info.name << " " << rows;
    }
  }
}

// However large x is: its form in shared memory is relative to the largest of a few.
TEST_F(GpuMatmulValu, APowerOfTwoInXIsOneInTheProduct) {
  for (const WeightTypeInfo& info : kWeightTypes) {
    const TestWeights w =
        bell_weights(info.type, 5, 2 * std::max<size_t>(info.block_values, 64), 1, stream_);
    const Values x = bell_values(2, w.cols), once = product(x, w);
    for (float factor : {0x1p-70f, 0x1p70f, 0.0f}) {
      Values scaled_x, expected;
      for (float value : x) scaled_x.push_back(value * factor);
      for (float value : once) expected.push_back(value * factor);
      EXPECT_EQ(product(scaled_x, w), expected) << info.name << " " << factor;
    }
  }
}

TEST_F(GpuMatmulValu, ActivationsMayLieAtAnyAddress) {
  const TestWeights w = bell_weights(WeightType::kQ5_K, 4, 512, 1, stream_);
  const Values x = bell_values(2, 3 * w.cols);
  Values moved = x;
  moved.insert(moved.begin(), 0.0f);
  const auto device_x = upload(moved);
  auto out = buffer<float>(3 * w.rows);
  const Product one{w.device_matrix(), out.data()};
  matmul_valu(device_x.data() + 1, 3, {&one, 1}, stream_);
  EXPECT_EQ(bits_of(download(out)), bits_of(product(x, w)));
}

// Results of a 32-lane device. Nothing in a product depends on the device.
TEST_F(GpuMatmulValu, EveryDeviceHasTheSameBits) {
  const std::pair<WeightType, uint64_t> cases[] = {
      {WeightType::kF32, 11316960375709830427u},  {WeightType::kF16, 126439633530589871u},
      {WeightType::kBF16, 136718420637637193u},   {WeightType::kQ4_0, 9228246154625249089u},
      {WeightType::kQ8_0, 14298055146123738870u}, {WeightType::kQ4_K, 1217446377554566346u},
      {WeightType::kQ5_K, 14608198754070097027u}, {WeightType::kQ6_K, 5559525456105465782u},
      {WeightType::kQ4_1, 8778549377936222691u},  {WeightType::kQ5_0, 8041818030764679642u},
      {WeightType::kQ5_1, 8572435057691723685u},  {WeightType::kIQ4_NL, 17478268279287734218u},
      {WeightType::kQ2_K, 7987657082641197786u},  {WeightType::kQ3_K, 11039649679422396150u}};
  for (const auto& [type, expected] : cases) {
    const TestWeights w = random_weights(type, 9, 4096 + 512, 1, stream_);
    uint64_t hash = 0;
    for (uint32_t bits : bits_of(product(bell_values(2, 2 * w.cols), w))) {
      hash = mix64(hash ^ bits);
    }
    EXPECT_EQ(hash, expected) << weight_type_info(type).name;
  }
}

TEST_F(GpuMatmulValu, WhatDoesNotFitIsRefused) {
  const auto x = upload(Values(512, 0.0f));
  auto out = buffer<float>(64);
  const std::byte* const data = nullptr;
  const Product half_a_block{{WeightType::kQ4_K, data, 1, 128}, out.data()};
  EXPECT_THROW(matmul_valu(x.data(), 1, {&half_a_block, 1}, stream_), std::invalid_argument);
  const Product other_cols[] = {{{WeightType::kF32, data, 1, 64}, out.data()},
                                {{WeightType::kF32, data, 1, 65}, out.data()}};
  EXPECT_THROW(matmul_valu(x.data(), 1, other_cols, stream_), std::invalid_argument);
  EXPECT_THROW(gated_matmul_valu(x.data(), 1, {WeightType::kF32, data, 1, 64},
                                 {WeightType::kF32, data, 2, 64}, out.data(), stream_),
               std::invalid_argument);
}

}  // namespace
}  // namespace greta
