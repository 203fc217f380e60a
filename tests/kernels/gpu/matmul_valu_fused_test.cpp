#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/matmul.h"
#include "kernels/gpu/elementwise.h"
#include "kernels/gpu/matmul_valu.h"
#include "tests/kernels/gpu/gpu_test.h"
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

TEST_F(GpuMatmulValu, GatedProductsHaveTheBitsOfThreeSteps) {
  const std::pair<WeightType, WeightType> cases[] = {{WeightType::kQ4_K, WeightType::kQ4_K},
                                                     {WeightType::kF32, WeightType::kF32},
                                                     {WeightType::kQ2_K, WeightType::kQ2_K},
                                                     {WeightType::kQ5_0, WeightType::kQ5_0},
                                                     {WeightType::kQ5_K, WeightType::kQ6_K}};
  for (const auto& [gate_type, up_type] : cases) {
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

TEST_F(GpuMatmulValu, QkvWithRopeAndCacheHasTheBitsOfTheStepsOnTheirOwn) {
  struct Case {
    std::array<WeightType, 3> types;
    int64_t head_dim, half_dim;
  };
  const Case cases[] = {{{WeightType::kF16, WeightType::kF16, WeightType::kF16}, 16, 8},
                        {{WeightType::kQ4_K, WeightType::kQ4_K, WeightType::kQ6_K}, 16, 5},
                        {{WeightType::kQ8_0, WeightType::kF32, WeightType::kQ8_0}, 6, 0}};
  for (const Case& c : cases) {
    constexpr int64_t kHeads = 6, kKvHeads = 2, kCols = 512, kPos = 7, kShift = -2, kRows = 8;
    const int64_t width = kKvHeads * c.head_dim;
    const std::array<int64_t, 3> n_rows{kHeads * c.head_dim, width, width};
    const auto x = upload(bell_values(2, kCols)), weight = upload(bell_values(3, kCols));
    const auto pos = upload(std::vector<int32_t>{kPos});
    const auto table = upload(bell_values(4, static_cast<size_t>(2 * c.half_dim) + 1));
    std::vector<TestWeights> weights;
    // Of the one launch, and of the steps: products, then q and k after RoPE.
    struct Results {
      std::array<DeviceBuffer<float>, 3> out;
      DeviceBuffer<float> q, k, k_cache, v_cache, normed;
    } got, expected;
    std::array<Product, 3> qkv, on_their_own;
    for (size_t i = 0; i < 3; ++i) {
      weights.push_back(bell_weights(c.types[i], static_cast<size_t>(n_rows[i]), kCols,
                                     static_cast<uint32_t>(i + 5), stream_));
    }
    for (Results* r : {&got, &expected}) {
      for (size_t i = 0; i < 3; ++i) {
        r->out[i] = buffer<float>(weights[i].rows);
        (r == &got ? qkv : on_their_own)[i] = {weights[i].device_matrix(), r->out[i].data()};
      }
      r->q = buffer<float>(weights[0].rows);
      r->k = buffer<float>(weights[1].rows);
      r->normed = buffer<float>(kCols);
      r->k_cache = upload(Values(static_cast<size_t>(kRows * width), 0.5f));
      r->v_cache = upload(Values(static_cast<size_t>(kRows * width), 0.5f));
    }
    qkv_matmul_valu({x.data(), weight.data(), 1e-5f, got.normed.data()}, qkv,
                    {.table = table.data(),
                     .head_dim = c.head_dim,
                     .half_dim = c.half_dim,
                     .q_out = got.q.data(),
                     .k_out = got.k.data(),
                     .k_cache = got.k_cache.data(),
                     .v_cache = got.v_cache.data(),
                     .pos = pos.data(),
                     .row_shift = kShift},
                    stream_);
    matmul_valu({x.data(), weight.data(), 1e-5f, expected.normed.data()}, on_their_own, stream_);
    rope_and_store({expected.out[0].data(), kHeads, expected.q.data()},
                   {expected.out[1].data(), kKvHeads, expected.k.data()}, table.data(),
                   RopePairing::kInterleaved, 1, c.head_dim, c.half_dim, pos.data(), kShift,
                   expected.k_cache.data(), {expected.out[2].data(), expected.v_cache.data()},
                   stream_);
    const auto expect_same = [&](const DeviceBuffer<float>& a, const DeviceBuffer<float>& b,
                                 const char* what) {
      EXPECT_EQ(bits_of(download(a)), bits_of(download(b))) << what << " of " << c.head_dim;
    };
    expect_same(got.normed, expected.normed, "norm");
    for (size_t i = 0; i < 3; ++i) expect_same(got.out[i], expected.out[i], "product");
    expect_same(got.q, expected.q, "q");
    expect_same(got.k, expected.k, "k");
    expect_same(got.k_cache, expected.k_cache, "cache of k");
    expect_same(got.v_cache, expected.v_cache, "cache of v");
    EXPECT_NE(bits_of(download(got.v_cache)),
              bits_of(Values(static_cast<size_t>(kRows * width), 0.5f)));
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
  const std::pair<WeightType, WeightType> cases[] = {{WeightType::kQ4_K, WeightType::kQ4_K},
                                                     {WeightType::kF16, WeightType::kF16},
                                                     {WeightType::kQ2_K, WeightType::kQ2_K},
                                                     {WeightType::kQ5_0, WeightType::kQ5_0},
                                                     {WeightType::kQ5_K, WeightType::kQ6_K}};
  for (const auto& [gate_type, up_type] : cases) {
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
