#include "tests/kernels/gpu/attention_cases.h"

namespace greta {
namespace {

using namespace attention_test;

class GpuAttentionNan : public GpuAttentionRoutes {};
INSTANTIATE_TEST_SUITE_P(Both, GpuAttentionNan, testing::Values(Route::kValu, Route::kMfma),
                         [](const auto& route) {
                           return route.param == Route::kValu ? "Valu" : "Mfma";
                         });

TEST_P(GpuAttentionNan, MaskThatHidesTheOnlyKeyGivesNan) {
  AttentionShape shape = shape_of(2, 1, 8, 2, 0);
  shape.mask_shift = -1;
  const Result got = run(random_input(shape));
  for (size_t i = 0; i < got.out.size(); ++i) EXPECT_EQ(std::isnan(got.out[i]), i < 16) << i;
  EXPECT_EQ(got.probs[0], 0.0f);
  EXPECT_FALSE(std::isnan(got.scores[0]));
}

TEST_P(GpuAttentionNan, WithoutMaximumTheShiftOverflowsToNan) {
  AttentionShape shape = shape_of(2, 1, 8, 2, 70);
  shape.subtract_max = false;
  shape.score_shift = 100;
  const Result got = run(random_input(shape));
  for (float value : got.out) EXPECT_TRUE(std::isnan(value));
  for (size_t i = 0; i < 142; ++i) EXPECT_TRUE(std::isfinite(got.scores[i]));
}

TEST_P(GpuAttentionNan, NanInAVisibleKeyReachesItsScoresProbsAndOutputs) {
  // Keys 0 .. 69; query t sees 66 + t. Key 67 of KV head 1 is NaN: heads 2 and 3 from query 2 on.
  Input input = random_input(shape_of(4, 2, 8, 5, 65));
  input.k[67 * 16 + 8 + 3] = kNan;
  const Result got = run(input);
  const size_t stride = trace_stride(input.shape);
  for (size_t t = 0; t < 5; ++t) {
    for (size_t h = 0; h < 4; ++h) {
      const bool hit = t >= 2 && h >= 2;
      for (size_t d = 0; d < 8; ++d) {
        ASSERT_EQ(std::isnan(got.out[(t * 4 + h) * 8 + d]), hit) << t << " " << h;
      }
      for (size_t j = 0; j <= 65 + t; ++j) {
        ASSERT_EQ(std::isnan(got.scores[t * stride + j * 4 + h]), hit && j == 67) << t << " " << j;
        ASSERT_EQ(std::isnan(got.probs[t * stride + j * 4 + h]), hit) << t << " " << j;
      }
    }
  }
}

TEST_P(GpuAttentionNan, NanInAVisibleValueReachesItsColumnEvenWithNoWeight) {
  Input input = random_input(shape_of(2, 1, 8, 5, 65));
  Values clean = run(input).out;
  for (size_t d = 0; d < 8; ++d) {
    input.k[67 * 8 + d] = 0;
    input.k[67 * 8] = -1000;
    for (size_t i = 0; i < 10; ++i) input.q[i * 8] = 10;
  }
  clean = run(input).out;
  input.v[67 * 8 + 5] = kNan;
  const Values got = run(input).out;
  for (size_t t = 0; t < 5; ++t) {
    for (size_t i = t * 16; i < (t + 1) * 16; ++i) {
      ASSERT_EQ(std::isnan(got[i]), t >= 2 && i % 8 == 5) << t << " " << i;
      if (!std::isnan(got[i])) {
        ASSERT_NEAR(got[i], clean[i], 1e-3);
      }
    }
  }
}

TEST_P(GpuAttentionNan, ScoresOfMinusInfinityWeighNothing) {
  Input input = random_input(shape_of(1, 1, 8, 2, 140));
  Input without = input;
  for (size_t i = 0; i < 2; ++i) input.q[i * 8] = 1;
  without.q = input.q;
  for (size_t j : {0, 64, 70, 139}) {
    input.k[j * 8] = -kInf;
    without.k[j * 8] = -3000;
  }
  const Result got = run(input), expected = run(without);
  EXPECT_EQ(bits_of(got.out), bits_of(expected.out));
  for (size_t j : {0, 64, 70, 139}) {
    EXPECT_EQ(got.scores[j], -kInf);
    EXPECT_EQ(got.probs[j], 0.0f);
  }
}

TEST_P(GpuAttentionNan, OnlyScoresOfMinusInfinityGiveNan) {
  Input input = random_input(shape_of(1, 1, 8, 1, 69));
  input.q[0] = 1;
  for (size_t j = 0; j < 70; ++j) input.k[j * 8] = -kInf;
  const Result got = run(input);
  for (float value : got.out) EXPECT_TRUE(std::isnan(value));
}

TEST_P(GpuAttentionNan, AScoreOfPlusInfinityGivesNan) {
  Input input = random_input(shape_of(1, 1, 8, 2, 139));
  for (size_t i = 0; i < 2; ++i) input.q[i * 8] = 1;
  input.k[140 * 8] = kInf;  // the second query's own
  const Result got = run(input);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(std::isnan(got.out[i]), i >= 8);
}

}  // namespace
}  // namespace greta
