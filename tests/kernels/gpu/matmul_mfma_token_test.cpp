#include <utility>

#include "kernels/gpu/elementwise.h"
#include "kernels/gpu/matmul_mfma.h"
#include "kernels/gpu/weight_layout.h"
#include "tests/kernels/gpu/gpu_test.h"
#include "tests/kernels/gpu/qkv_test.h"
#include "tests/kernels/gpu/weights.h"

// A token alone has the bits that the kernels of prefill give, step by step: those round both
// operands to 16 bits in memory, multiply them in tiles, and do what comes before and after on its
// own.

namespace greta {
namespace {

class TokenMatmulMfma : public QkvTest {
 protected:
  /// As prefill computes it, among n_tokens copies of the token.
  Values in_steps(const Values& x, const TestWeights& w, int64_t n_tokens = 1) {
    const HalfType type = w.type == WeightType::kBF16 ? HalfType::kBF16 : HalfType::kF16;
    Values all;
    for (int64_t i = 0; i < n_tokens; ++i) all.insert(all.end(), x.begin(), x.end());
    const auto device_x = upload(all);
    auto x_halves = buffer<uint16_t>(all.size()), w_halves = buffer<uint16_t>(w.rows * w.cols);
    auto out = buffer<float>(static_cast<size_t>(n_tokens) * w.rows);
    const auto rows = static_cast<int64_t>(w.rows), cols = static_cast<int64_t>(w.cols);
    halves_of(device_x.data(), static_cast<int64_t>(all.size()), type, x_halves.data(), stream_);
    to_halves(w.device_matrix(), 0, rows, type, w_halves.data(), stream_);
    matmul_mfma({type, x_halves.data(), w_halves.data(), n_tokens, rows, cols, out.data(), rows},
                stream_);
    Values results = download(out);
    results.erase(results.begin(), results.end() - rows);
    return results;
  }
  Values alone(const Values& x, const TestWeights& w) {
    const auto device_x = upload(x);
    auto out = buffer<float>(w.rows);
    const Product product{w.device_matrix(), out.data()};
    token_matmul_mfma({.x = device_x.data()}, {&product, 1}, stream_);
    return download(out);
  }
};

TEST_F(TokenMatmulMfma, EveryTypeHasTheBitsOfTheTilesAtAnyShape) {
  for (const WeightTypeInfo& info : kWeightTypes) {
    for (size_t cols : column_counts(info)) {
      for (size_t rows : {5, 37}) {
        const TestWeights w = bell_weights(info.type, rows, cols, 3, stream_, 0.1);
        const Values x = bell_values(4, cols);
        EXPECT_EQ(bits_of(alone(x, w)), bits_of(in_steps(x, w)))
            << info.name << " " << rows << " x " << cols;
      }
    }
  }
}

TEST_F(TokenMatmulMfma, ChunksOfColumnsAreAddedInTheOrderOfTheTiles) {
  for (WeightType type : {WeightType::kBF16, WeightType::kQ4_K}) {
    for (size_t cols : {4352, 8448}) {  // the last chunk is shorter
      const TestWeights w = bell_weights(type, 18, cols, 5, stream_, 0.1);
      const Values x = bell_values(6, cols);
      const std::vector<uint32_t> bits = bits_of(alone(x, w));
      for (int64_t n_tokens : {1, 130}) {
        EXPECT_EQ(bits_of(in_steps(x, w, n_tokens)), bits) << cols << " " << n_tokens;
      }
    }
  }
}

TEST_F(TokenMatmulMfma, MoreRowsThanTheDeviceHasRoomForAtOnceAreComputed) {
  const TestWeights w = bell_weights(WeightType::kF16, 3000, 64, 5, stream_);
  const Values x = bell_values(6, w.cols);
  EXPECT_EQ(bits_of(alone(x, w)), bits_of(in_steps(x, w)));
}

TEST_F(TokenMatmulMfma, TheResidualIsAddedToTheProductsBits) {
  const TestWeights w = bell_weights(WeightType::kQ6_K, 21, 256, 1, stream_);
  const Values x = bell_values(2, w.cols), r = bell_values(3, w.rows);
  const auto device_x = upload(x), residual = upload(r);
  auto out = buffer<float>(r.size()), sum = buffer<float>(r.size());
  token_matmul_add_mfma(device_x.data(), {w.device_matrix(), out.data()}, residual.data(),
                        sum.data(), stream_);
  const Values product = in_steps(x, w);
  EXPECT_EQ(bits_of(download(out)), bits_of(product));
  Values expected;
  for (size_t i = 0; i < r.size(); ++i) expected.push_back(r[i] + product[i]);
  EXPECT_EQ(bits_of(download(sum)), bits_of(expected));
}

TEST_F(TokenMatmulMfma, GatedProductsOfANormedRowHaveTheBitsOfAllSteps) {
  const std::pair<WeightType, WeightType> types[] = {{WeightType::kF16, WeightType::kF16},
                                                     {WeightType::kQ5_K, WeightType::kQ6_K}};
  for (const auto& [gate_type, up_type] : types) {
    for (size_t cols : {512, 8192}) {
      const TestWeights gate = bell_weights(gate_type, 45, cols, 1, stream_, 0.05);
      const TestWeights up = bell_weights(up_type, 45, cols, 2, stream_, 0.05);
      const auto x = upload(bell_values(3, cols)), weight = upload(bell_values(4, cols));
      auto normed = buffer<float>(cols), expected_x = buffer<float>(cols);
      auto out = buffer<float>(gate.rows), expected = buffer<float>(gate.rows);
      const float eps = 0.25f;
      token_gated_matmul_mfma({x.data(), weight.data(), eps, normed.data()}, gate.device_matrix(),
                              up.device_matrix(), out.data(), stream_);
      rms_norm(x.data(), weight.data(), eps, 1, static_cast<int64_t>(cols), expected_x.data(),
               stream_);
      const Values normed_x = download(expected_x);
      EXPECT_EQ(bits_of(download(normed)), bits_of(normed_x));
      const auto gates = upload(in_steps(normed_x, gate)), ups = upload(in_steps(normed_x, up));
      swiglu(gates.data(), ups.data(), static_cast<int64_t>(gate.rows), expected.data(), stream_);
      EXPECT_EQ(bits_of(download(out)), bits_of(download(expected))) << cols;
    }
  }
}

TEST_F(TokenMatmulMfma, QkvHasTheBitsOfTheStepsOnTheirOwn) {
  const auto steps = [&](const NormedRow& in, std::span<const Product> products,
                         std::span<const TestWeights> weights) {
    const int64_t cols = products[0].w.cols;
    rms_norm(in.x, in.weight, in.eps, 1, cols, in.out, stream_);
    Values x(static_cast<size_t>(cols));
    copy_to_host<float>(in.out, x, stream_);
    for (size_t i = 0; i < products.size(); ++i) {
      copy_to_device<float>(in_steps(x, weights[i]), products[i].out, stream_);
    }
  };
  expect_bits_of_steps({{WeightType::kQ4_K, WeightType::kQ4_K, WeightType::kQ6_K}, 16, 5},
                       token_qkv_matmul_mfma, steps);
}

TEST_F(TokenMatmulMfma, ItSaysWhichTokensFit) {
  EXPECT_TRUE(fits_token_matmul_mfma(14336));
  EXPECT_FALSE(fits_token_matmul_mfma(1 << 20));
}

}  // namespace
}  // namespace greta
