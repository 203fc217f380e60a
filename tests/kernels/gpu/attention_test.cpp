#include <limits>
#include <stdexcept>
#include <string>

#include "tests/kernels/gpu/attention_cases.h"

// Both routes of attention against double arithmetic.

namespace greta {
namespace {

using namespace attention_test;

class GpuAttentionResults : public GpuAttentionRoutes {};
GRETA_BOTH_ROUTES(GpuAttentionResults);

// ---- The formula, in double.

struct Exact {
  std::vector<double> out, scores, probs;
};

Exact exact(const Input& input) {
  const AttentionShape& s = input.shape;
  const int64_t row = s.n_kv_heads * s.head_dim, group = s.n_heads / s.n_kv_heads;
  Exact result;
  result.out.resize(input.q.size());
  result.scores.resize(trace_values(s, 0), kUntouched);
  result.probs.resize(trace_values(s, 0), kUntouched);
  for (int64_t t = 0; t < s.n_tokens; ++t) {
    for (int64_t h = 0; h < s.n_heads; ++h) {
      const int64_t position = s.first_pos + t;
      const int64_t n_visible = std::min(position + 1 + s.mask_shift, s.cache_rows);
      const int64_t n_hidden = s.window == 0 ? 0 : std::max<int64_t>(0, position + 1 - s.window);
      const auto sees = [&](int64_t key) { return key >= n_hidden && key < n_visible; };
      const int64_t g = s.modulo_heads ? h % s.n_kv_heads : h / group;
      const float* q = &input.q[static_cast<size_t>((t * s.n_heads + h) * s.head_dim)];
      double* out = &result.out[static_cast<size_t>((t * s.n_heads + h) * s.head_dim)];
      const auto traced = [&](int64_t key) {
        return static_cast<size_t>(t) * trace_stride(s) + static_cast<size_t>(key * s.n_heads + h);
      };
      std::vector<double> scores;
      double most = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t j = 0; j < std::max(n_visible, position + 1); ++j) {
        double dot = 0;
        for (int64_t d = 0; d < s.head_dim; ++d) {
          dot += static_cast<double>(q[d]) *
                 static_cast<double>(
                     input.k[static_cast<size_t>(j * row + (g * s.k_head_stride + d) % row)]);
        }
        scores.push_back(dot * static_cast<double>(s.scale));
        if (j <= position) result.scores[traced(j)] = scores.back();
        if (sees(j)) most = std::max(most, scores.back());
      }
      const double shift = s.subtract_max ? -most : static_cast<double>(s.score_shift);
      for (int64_t j = n_hidden; j < n_visible; ++j) {
        sum += std::exp(scores[static_cast<size_t>(j)] + shift);
      }
      for (int64_t j = 0; j < std::max(n_visible, position + 1); ++j) {
        const double prob = sees(j) ? std::exp(scores[static_cast<size_t>(j)] + shift) / sum : 0;
        if (j <= position) result.probs[traced(j)] = prob;
        for (int64_t d = 0; sees(j) && d < s.head_dim; ++d) {
          const int64_t column = s.v_transposed ? d * s.n_kv_heads + g : g * s.head_dim + d;
          out[d] += prob * static_cast<double>(input.v[static_cast<size_t>(j * row + column)]);
        }
      }
    }
  }
  return result;
}

double relative_l2(const Values& got, const std::vector<double>& expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - expected[i], 2);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

// VALU: some roundings of 2^-24 each, of scores of magnitude up to 8. MFMA: operands have 11 bits.
double tolerance(Route route) { return route == Route::kValu ? 2e-6 : 1.5e-3; }

void expect_near(const Result& got, const Exact& expected, double bound, const std::string& what) {
  EXPECT_LE(relative_l2(got.out, expected.out), bound) << what;
  if (got.scores.empty()) return;
  EXPECT_LE(relative_l2(got.scores, expected.scores), bound) << what;
  EXPECT_LE(relative_l2(got.probs, expected.probs), bound) << what;
}

// Odd sizes; many blocks of keys, and more than there can be short splits, whose second query's
// mask ends a block; many tiles of queries; every fault.
TEST_P(GpuAttentionResults, AgreesWithDouble) {
  std::vector<AttentionShape> shapes{
      shape_of(4, 1, 128, 1, 200), shape_of(8, 2, 64, 3, 62),  shape_of(3, 3, 80, 2, 5),
      shape_of(7, 1, 96, 1, 64),   shape_of(2, 2, 2, 5, 0),    shape_of(6, 3, 30, 1, 33),
      shape_of(2, 1, 256, 2, 70),  shape_of(9, 1, 40, 1, 3),   shape_of(1, 1, 5, 17, 60),
      shape_of(2, 1, 16, 1, 700),  shape_of(2, 1, 8, 2, 2302), shape_of(1, 1, 72, 1, 4200),
      shape_of(2, 1, 10, 150, 3)};
  for (const Fault& fault : faults()) {
    shapes.push_back(shape_of(6, 3, 20, 4, 61));
    fault.inject(shapes.back());
  }
  for (const AttentionShape& shape : shapes) {
    const Input input = random_input(shape);
    expect_near(run(input), exact(input), tolerance(GetParam()),
                std::to_string(shape.head_dim) + " values, " + std::to_string(shape.n_tokens) +
                    " tokens from " + std::to_string(shape.first_pos));
  }
}

// Scores that grow along the keys move the maximum from block to block.
TEST_P(GpuAttentionResults, AgreesWithDoubleWhenTheMaximumMoves) {
  Input input = random_input(shape_of(1, 1, 16, 3, 210));
  for (size_t i = 0; i < input.k.size(); ++i) {
    if (i % 16 == 3) input.k[i] = static_cast<float>(i / 16) * 0.125f;
  }
  for (size_t t = 0; t < 3; ++t) input.q[t * 16 + 3] = t == 1 ? -4.0f : 4.0f;
  // Scores up to 26, whose errors in f16 are those of their operands.
  expect_near(run(input), exact(input), 8 * tolerance(GetParam()), "growing scores");
}

// The same within splits of several blocks of keys, that is of long ones and of wide heads.
TEST_P(GpuAttentionResults, AgreesWithDoubleWhenTheMaximumMovesWithinASplit) {
  for (int64_t head_dim : {8, 136}) {
    Input input = random_input(shape_of(1, 1, head_dim, 1, head_dim == 8 ? 2500 : 200));
    const auto width = static_cast<size_t>(head_dim);
    for (size_t j = 0; j < input.k.size() / width; ++j) {
      input.k[j * width + 3] = static_cast<float>(j % 128) * (head_dim == 8 ? 0.0625f : 0.5f);
    }
    input.q[3] = 4;
    expect_near(run(input), exact(input), 16 * tolerance(GetParam()),
                std::to_string(head_dim) + " values");
  }
}

TEST_P(GpuAttentionResults, KeysAndValuesOfDifferentTypesAreRefused) {
  const AttentionShape shape = shape_of(2, 2, 8, 1, 3);
  const auto attention = GetParam() == Route::kValu ? attention_valu : attention_mfma;
  const std::vector<uint16_t> halves(1);
  EXPECT_THROW(
      attention(shape, nullptr, 10, nullptr, nullptr, halves.data(), nullptr, {}, nullptr, stream_),
      std::invalid_argument);
}

// Σ of traced weights · V is the output: they are what V was summed with.
TEST_P(GpuAttentionResults, TracedWeightsReproduceTheOutput) {
  Input input = random_input(shape_of(2, 1, 8, 3, 130));
  // Exact in f16.
  for (float& value : input.v) value = std::isnan(value) ? value : std::round(value * 16) / 16;
  const Result got = run(input);
  for (size_t t = 0; t < 3; ++t) {
    for (size_t i = 0; i < 16; ++i) {
      double sum = 0, magnitude = 0;
      for (size_t j = 0; j <= 130 + t; ++j) {
        const double product =
            static_cast<double>(got.probs[t * trace_stride(input.shape) + j * 2 + i / 8]) *
            static_cast<double>(input.v[j * 8 + i % 8]);
        sum += product;
        magnitude += std::fabs(product);
      }
      // Nine products of 16 keys are added up, which may cut off 2^-21 each.
      EXPECT_NEAR(static_cast<double>(got.out[t * 16 + i]), sum, magnitude * 9 * 0x1p-21);
    }
  }
}

TEST_P(GpuAttentionResults, ShapesThatContradictThemselvesAreRefused) {
  const auto refused = [&](auto change) {
    AttentionShape shape = shape_of(4, 2, 8, 1, 0);
    change(shape);
    const auto scratch =
        GetParam() == Route::kValu ? attention_valu_scratch : attention_mfma_scratch;
    EXPECT_THROW(scratch(shape, 10), std::invalid_argument);
  };
  refused([](AttentionShape& s) { s.n_heads = 5; });
  refused([](AttentionShape& s) { s.head_dim = 0; });
  refused([](AttentionShape& s) { s.head_dim = 258; });
  refused([](AttentionShape& s) { s.mask_shift = 2; });
  refused([](AttentionShape& s) { s.window = -1; });
  refused([](AttentionShape& s) { s.k_head_stride = -1; });
  refused([](AttentionShape& s) { s.n_tokens = s.cache_rows + 1; });
}

TEST_P(GpuAttentionResults, NoTokensDoNothing) {
  AttentionShape shape = shape_of(4, 2, 8, 0, 5);
  const int64_t before = stream_.launches();
  const auto attention = GetParam() == Route::kValu ? attention_valu : attention_mfma;
  attention(shape, nullptr, 10, nullptr, nullptr, nullptr, nullptr, {}, nullptr, stream_);
  EXPECT_EQ(stream_.launches(), before);
}

// ---- What is not finite.

TEST_P(GpuAttentionResults, MaskThatHidesTheOnlyKeyGivesNan) {
  AttentionShape shape = shape_of(2, 1, 8, 2, 0);
  shape.mask_shift = -1;
  const Result got = run(random_input(shape));
  for (size_t i = 0; i < got.out.size(); ++i) EXPECT_EQ(std::isnan(got.out[i]), i < 16) << i;
  EXPECT_EQ(got.probs[0], 0.0f);
  EXPECT_FALSE(std::isnan(got.scores[0]));
}

TEST_P(GpuAttentionResults, WithoutMaximumTheShiftOverflowsToNan) {
  AttentionShape shape = shape_of(2, 1, 8, 2, 70);
  shape.subtract_max = false;
  shape.score_shift = 100;
  const Result got = run(random_input(shape));
  for (float value : got.out) EXPECT_TRUE(std::isnan(value));
  for (size_t i = 0; i < 142; ++i) EXPECT_TRUE(std::isfinite(got.scores[i]));
}

TEST_P(GpuAttentionResults, NanInAVisibleKeyReachesItsScoresProbsAndOutputs) {
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

TEST_P(GpuAttentionResults, NanInAVisibleValueReachesItsColumnEvenWithNoWeight) {
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

TEST_P(GpuAttentionResults, ScoresOfMinusInfinityWeighNothing) {
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

TEST_P(GpuAttentionResults, OnlyScoresOfMinusInfinityGiveNan) {
  Input input = random_input(shape_of(1, 1, 8, 1, 69));
  input.q[0] = 1;
  for (size_t j = 0; j < 70; ++j) input.k[j * 8] = -kInf;
  const Result got = run(input);
  for (float value : got.out) EXPECT_TRUE(std::isnan(value));
}

TEST_P(GpuAttentionResults, AScoreOfPlusInfinityGivesNan) {
  Input input = random_input(shape_of(1, 1, 8, 2, 139));
  for (size_t i = 0; i < 2; ++i) input.q[i * 8] = 1;
  input.k[140 * 8] = kInf;  // the second query's own
  const Result got = run(input);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(std::isnan(got.out[i]), i >= 8);
}

}  // namespace

}  // namespace greta
