#pragma once
#include <array>
#include <vector>

#include "kernels/gpu/elementwise.h"
#include "kernels/gpu/matmul_valu.h"
#include "tests/kernels/gpu/gpu_test.h"
#include "tests/kernels/gpu/weights.h"

/// A test of the product of queries, keys and values in one launch, held against its steps.
namespace greta {

struct QkvCase {
  std::array<WeightType, 3> types;
  int64_t head_dim, half_dim;
};

/// Products of q, k and v with their norm, RoPE and the cache, in one launch and step by step.
class QkvTest : public GpuTest {
 protected:
  /// together: as qkv_matmul_valu(). steps: norms a row and multiplies it with the weights.
  template <class Together, class Steps>
  void expect_bits_of_steps(const QkvCase& c, Together together, Steps steps) {
    constexpr int64_t kHeads = 6, kKvHeads = 2, kCols = 512, kPos = 7, kShift = -2, kRows = 8;
    const int64_t width = kKvHeads * c.head_dim;
    const std::array<int64_t, 3> n_rows{kHeads * c.head_dim, width, width};
    const auto x = upload(bell_values(2, kCols)), weight = upload(bell_values(3, kCols));
    const auto pos = upload(std::vector<int32_t>{kPos});
    const auto table = upload(bell_values(4, static_cast<size_t>(2 * c.half_dim) + 1));
    const Values empty(static_cast<size_t>(kRows * width), 0.5f);
    std::vector<TestWeights> weights;
    for (size_t i = 0; i < 3; ++i) {
      weights.push_back(bell_weights(c.types[i], static_cast<size_t>(n_rows[i]), kCols,
                                     static_cast<uint32_t>(i + 5), stream_));
    }
    struct Results {
      std::array<DeviceBuffer<float>, 3> out;
      DeviceBuffer<float> q, k, k_cache, v_cache, normed;
    } got, expected;
    std::array<Product, 3> qkv, on_their_own;
    for (Results* r : {&got, &expected}) {
      for (size_t i = 0; i < 3; ++i) {
        r->out[i] = buffer<float>(weights[i].rows);
        (r == &got ? qkv : on_their_own)[i] = {weights[i].device_matrix(), r->out[i].data()};
      }
      r->q = buffer<float>(weights[0].rows);
      r->k = buffer<float>(weights[1].rows);
      r->normed = buffer<float>(kCols);
      r->k_cache = upload(empty);
      r->v_cache = upload(empty);
    }
    together(NormedRow{x.data(), weight.data(), 1e-5f, got.normed.data()}, qkv,
             RopeRow{.table = table.data(),
                     .head_dim = c.head_dim,
                     .half_dim = c.half_dim,
                     .q_out = got.q.data(),
                     .k_out = got.k.data(),
                     .k_cache = got.k_cache.data(),
                     .v_cache = got.v_cache.data(),
                     .pos = pos.data(),
                     .row_shift = kShift},
             stream_);
    steps(NormedRow{x.data(), weight.data(), 1e-5f, expected.normed.data()}, on_their_own, weights);
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
    EXPECT_NE(bits_of(download(got.v_cache)), bits_of(empty));
  }
};

}  // namespace greta
