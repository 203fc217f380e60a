
#include <array>
#include <stdexcept>
#include <utility>

#include "kernels/gpu/elementwise.h"
#include "kernels/gpu/matmul_mfma.h"
#include "kernels/gpu/weight_layout.h"
#include "tests/kernels/gpu/gpu_test.h"
#include "tests/kernels/gpu/weights.h"

// A token alone has the bits that the kernels of prefill give, step by step: those round both
// operands to 16 bits in memory, multiply them in tiles, and do what comes before and after on its
// own.

namespace greta {
namespace {

class TokenMatmulMfma : public GpuTest {
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

TEST_F(TokenMatmulMfma, QkvWithRopeAndCacheHasTheBitsOfTheStepsOnTheirOwn) {
  constexpr int64_t kHeads = 6, kKvHeads = 2, kHeadDim = 16, kHalfDim = 5, kCols = 512, kPos = 7,
                    kShift = -2, kRows = 8, kWidth = kKvHeads * kHeadDim;
  const WeightType types[] = {WeightType::kQ4_K, WeightType::kQ4_K, WeightType::kQ6_K};
  const std::array<size_t, 3> n_rows{kHeads * kHeadDim, kWidth, kWidth};
  const auto x = upload(bell_values(2, kCols)), weight = upload(bell_values(3, kCols));
  const auto pos = upload(std::vector<int32_t>{kPos});
  const auto table = upload(bell_values(4, 2 * kHalfDim));
  auto normed = buffer<float>(kCols), expected_x = buffer<float>(kCols);
  auto q = buffer<float>(n_rows[0]), k = buffer<float>(kWidth);
  auto expected_q = buffer<float>(n_rows[0]), expected_k = buffer<float>(kWidth);
  const Values empty(static_cast<size_t>(kRows * kWidth), 0.5f);
  auto k_cache = upload(empty), v_cache = upload(empty);
  auto expected_k_cache = upload(empty), expected_v_cache = upload(empty);
  std::vector<TestWeights> weights;
  std::array<DeviceBuffer<float>, 3> outs;
  std::array<Product, 3> qkv;
  for (size_t i = 0; i < 3; ++i) {
    weights.push_back(
        bell_weights(types[i], n_rows[i], kCols, static_cast<uint32_t>(i + 5), stream_));
    outs[i] = buffer<float>(n_rows[i]);
    qkv[i] = {weights[i].device_matrix(), outs[i].data()};
  }
  token_qkv_matmul_mfma({x.data(), weight.data(), 1e-5f, normed.data()}, qkv,
                        {.table = table.data(),
                         .head_dim = kHeadDim,
                         .half_dim = kHalfDim,
                         .q_out = q.data(),
                         .k_out = k.data(),
                         .k_cache = k_cache.data(),
                         .v_cache = v_cache.data(),
                         .pos = pos.data(),
                         .row_shift = kShift},
                        stream_);
  rms_norm(x.data(), weight.data(), 1e-5f, 1, kCols, expected_x.data(), stream_);
  const Values normed_x = download(expected_x);
  std::vector<DeviceBuffer<float>> expected;
  for (size_t i = 0; i < 3; ++i) {
    expected.push_back(upload(in_steps(normed_x, weights[i])));
    EXPECT_EQ(bits_of(download(outs[i])), bits_of(download(expected[i]))) << i;
  }
  rope_and_store({expected[0].data(), kHeads, expected_q.data()},
                 {expected[1].data(), kKvHeads, expected_k.data()}, table.data(),
                 RopePairing::kInterleaved, 1, kHeadDim, kHalfDim, pos.data(), kShift,
                 expected_k_cache.data(), {expected[2].data(), expected_v_cache.data()}, stream_);
  EXPECT_EQ(bits_of(download(q)), bits_of(download(expected_q)));
  EXPECT_EQ(bits_of(download(k)), bits_of(download(expected_k)));
  EXPECT_EQ(bits_of(download(k_cache)), bits_of(download(expected_k_cache)));
  EXPECT_EQ(bits_of(download(v_cache)), bits_of(download(expected_v_cache)));
  EXPECT_NE(bits_of(download(v_cache)), bits_of(empty));
}

TEST_F(TokenMatmulMfma, ItSaysWhichTokensFit) {
  EXPECT_TRUE(fits_token_matmul_mfma(14336));
  EXPECT_FALSE(fits_token_matmul_mfma(1 << 20));
}

}  // namespace
}  // namespace greta
