#include <algorithm>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/matmul.h"
#include "kernels/gpu/elementwise.h"
#include "kernels/gpu/matmul_valu.h"
#include "tests/kernels/gpu/gpu_test.h"
#include "tests/kernels/gpu/qkv_test.h"
#include "tests/kernels/gpu/weights.h"

// Products with what a launch does besides: residuals, gates, norms, RoPE and the cache.

namespace greta {
namespace {

TEST_F(GpuMatmulValu, TheResidualIsAddedToTheProductsBits) {
  for (WeightType type :
       {WeightType::kF16, WeightType::kQ6_K, WeightType::kQ2_K, WeightType::kQ5_1}) {
    for (size_t n_tokens : {1, 5}) {
      const TestWeights w = bell_weights(type, 21, 256, 1, stream_);
      const Values x = bell_values(2, n_tokens * w.cols), r = bell_values(3, n_tokens * w.rows);
      const auto device_x = upload(x), residual = upload(r);
      auto out = buffer<float>(r.size()), sum = buffer<float>(r.size());
      matmul_add_valu(device_x.data(), static_cast<int64_t>(n_tokens),
                      {w.device_matrix(), out.data()}, residual.data(), sum.data(), stream_);
      const Values alone = product(x, w);
      EXPECT_EQ(bits_of(download(out)), bits_of(alone));
      Values expected;
      for (size_t i = 0; i < r.size(); ++i) expected.push_back(r[i] + alone[i]);
      EXPECT_EQ(bits_of(download(sum)), bits_of(expected));
    }
  }
}

constexpr std::pair<WeightType, WeightType> kGateAndUp[] = {
    {WeightType::kQ4_K, WeightType::kQ4_K}, {WeightType::kF32, WeightType::kF32},
    {WeightType::kF16, WeightType::kF16},   {WeightType::kQ2_K, WeightType::kQ2_K},
    {WeightType::kQ5_0, WeightType::kQ5_0}, {WeightType::kQ5_K, WeightType::kQ6_K}};

TEST_F(GpuMatmulValu, GatedProductsHaveTheBitsOfThreeSteps) {
  for (const auto& [gate_type, up_type] : kGateAndUp) {
    for (size_t n_tokens : {1, 3}) {
      const TestWeights gate = bell_weights(gate_type, 45, 512, 1, stream_);
      const TestWeights up = bell_weights(up_type, 45, 512, 2, stream_);
      const Values x = bell_values(3, n_tokens * gate.cols, 0.1);
      const auto device_x = upload(x);
      auto out = buffer<float>(n_tokens * gate.rows);
      gated_matmul_valu(device_x.data(), static_cast<int64_t>(n_tokens), gate.device_matrix(),
                        up.device_matrix(), out.data(), stream_);
      const auto gates = upload(product(x, gate)), ups = upload(product(x, up));
      auto expected = buffer<float>(out.size());
      swiglu(gates.data(), ups.data(), static_cast<int64_t>(out.size()), expected.data(), stream_);
      EXPECT_EQ(bits_of(download(out)), bits_of(download(expected)));
    }
  }
}

TEST_F(GpuMatmulValu, ANormOnTheWayHasTheBitsOfRmsNormAndTheProducts) {
  struct Case {
    std::vector<WeightType> types;
    size_t cols;
  };
  const Case cases[] = {{{WeightType::kF16, WeightType::kF16}, 1000},
                        {{WeightType::kF32}, 77},
                        {{WeightType::kQ4_K, WeightType::kQ6_K, WeightType::kQ4_K}, 512},
                        {{WeightType::kQ8_0}, 4096 + 32},
                        {{WeightType::kQ4_1, WeightType::kQ5_0}, 4096 + 96},
                        {{WeightType::kQ3_K, WeightType::kQ2_K}, 4096 + 768},
                        {{WeightType::kBF16, WeightType::kQ6_K}, 8192 + 256}};
  for (const Case& c : cases) {
    const Values x = bell_values(2, c.cols), norm_weight = bell_values(3, c.cols);
    const auto device_x = upload(x), device_weight = upload(norm_weight);
    auto expected = buffer<float>(c.cols), normed = buffer<float>(c.cols);
    rms_norm(device_x.data(), device_weight.data(), 1e-5f, 1, static_cast<int64_t>(c.cols),
             expected.data(), stream_);
    std::vector<TestWeights> weights;
    std::vector<DeviceBuffer<float>> outs;
    std::vector<Product> products;
    for (size_t i = 0; i < c.types.size(); ++i) {
      weights.push_back(
          bell_weights(c.types[i], 19 + i, c.cols, static_cast<uint32_t>(i + 1), stream_));
      outs.push_back(buffer<float>(weights[i].rows));
      products.push_back({weights[i].device_matrix(), outs[i].data()});
    }
    matmul_valu({device_x.data(), device_weight.data(), 1e-5f, normed.data()}, products, stream_);
    const Values expected_x = download(expected);
    EXPECT_EQ(bits_of(download(normed)), bits_of(expected_x)) << c.cols;
    for (size_t i = 0; i < c.types.size(); ++i) {
      EXPECT_EQ(bits_of(download(outs[i])), bits_of(product(expected_x, weights[i])))
          << c.cols << " " << i;
    }
  }
}

class GpuQkvMatmulValu : public QkvTest {};

TEST_F(GpuQkvMatmulValu, HasTheBitsOfTheStepsOnTheirOwn) {
  const QkvCase cases[] = {{{WeightType::kF16, WeightType::kF16, WeightType::kF16}, 16, 8},
                           {{WeightType::kQ4_K, WeightType::kQ4_K, WeightType::kQ6_K}, 16, 5},
                           {{WeightType::kQ8_0, WeightType::kF32, WeightType::kQ8_0}, 6, 0}};
  for (const QkvCase& c : cases) {
    expect_bits_of_steps(c, qkv_matmul_valu,
                         [&](const NormedRow& in, std::span<const Product> products,
                             std::span<const TestWeights>) { matmul_valu(in, products, stream_); });
  }
}

TEST_F(GpuMatmulValu, QkvOfHeadsOfAnOddLengthIsRefused) {
  const TestWeights w = bell_weights(WeightType::kF16, 5, 8, 1, stream_);
  const auto x = upload(bell_values(2, 8));
  auto out = buffer<float>(8);
  const Product product{w.device_matrix(), out.data()};
  EXPECT_THROW(qkv_matmul_valu({x.data(), x.data(), 1e-5f, out.data()}, {product, product, product},
                               {.table = x.data(), .head_dim = 5, .half_dim = 2}, stream_),
               std::invalid_argument);
}

TEST_F(GpuMatmulValu, GatedProductsOfANormedRowHaveTheBitsOfBothSteps) {
  for (const auto& [gate_type, up_type] : kGateAndUp) {
    const TestWeights gate = bell_weights(gate_type, 21, 512, 1, stream_);
    const TestWeights up = bell_weights(up_type, 21, 512, 2, stream_);
    const auto x = upload(bell_values(3, gate.cols)), weight = upload(bell_values(4, gate.cols));
    auto normed = buffer<float>(gate.cols), expected_x = buffer<float>(gate.cols);
    auto out = buffer<float>(gate.rows), expected = buffer<float>(gate.rows);
    const float eps = 0.25f;
    gated_matmul_valu({x.data(), weight.data(), eps, normed.data()}, gate.device_matrix(),
                      up.device_matrix(), out.data(), stream_);
    rms_norm(x.data(), weight.data(), eps, 1, 512, expected_x.data(), stream_);
    gated_matmul_valu(expected_x.data(), 1, gate.device_matrix(), up.device_matrix(),
                      expected.data(), stream_);
    EXPECT_EQ(bits_of(download(normed)), bits_of(download(expected_x)));
    EXPECT_EQ(bits_of(download(out)), bits_of(download(expected)));
  }
}

class GpuMatmulFp16Accumulate : public GpuTest {};

TEST_F(GpuMatmulFp16Accumulate, AnAccumulatorInHalfPrecisionHasTheCpusBits) {
  ThreadPool pool(1);
  for (const WeightTypeInfo& info : kWeightTypes) {
    const size_t cols = info.block_values == 1 ? 333 : 2 * std::max<size_t>(info.block_values, 96);
    const TestWeights w = bell_weights(info.type, 70, cols, 1, stream_);
    const Values x = bell_values(2, 2 * cols);
    const auto device_x = upload(x);
    for (int64_t step : {1, 7, 64, 5000}) {
      auto out = buffer<float>(2 * w.rows);
      matmul_fp16_accumulate(device_x.data(), 2, step, {w.device_matrix(), out.data()}, stream_);
      Values expected(out.size());
      matmul_fp16_accumulate(w.host_matrix(), x.data(), 2, step, expected.data(), pool);
      EXPECT_EQ(bits_of(download(out)), bits_of(expected)) << info.name << " " << step;
    }
  }
}

TEST_F(GpuMatmulFp16Accumulate, WhatDoesNotFitIsRefused) {
  const auto x = upload(Values(512, 0.0f));
  auto out = buffer<float>(64);
  const std::byte* const data = nullptr;
  EXPECT_THROW(matmul_fp16_accumulate(x.data(), 1, 0, {{WeightType::kF32, data, 1, 64}, out.data()},
                                      stream_),
               std::invalid_argument);
  EXPECT_THROW(matmul_fp16_accumulate(x.data(), 1, 1,
                                      {{WeightType::kQ4_K, data, 1, 128}, out.data()}, stream_),
               std::invalid_argument);
}

}  // namespace

}  // namespace greta
