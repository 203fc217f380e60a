#include "kernels/cpu/attention.h"

#include <functional>
#include <stdexcept>
#include <string>

#include "tests/kernels/gpu/attention_cases.h"

namespace greta {
namespace {

using namespace attention_test;

class GpuAttentionResults : public GpuAttentionRoutes {};
INSTANTIATE_TEST_SUITE_P(Both, GpuAttentionResults, testing::Values(Route::kValu, Route::kMfma),
                         [](const auto& route) {
                           return route.param == Route::kValu ? "Valu" : "Mfma";
                         });

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

TEST_P(GpuAttentionResults, AgreesWithDoubleAtOddSizes) {
  for (const AttentionShape& shape :
       {shape_of(4, 1, 128, 1, 200), shape_of(8, 2, 64, 3, 62), shape_of(3, 3, 80, 2, 5),
        shape_of(7, 1, 96, 1, 64), shape_of(2, 2, 2, 5, 0), shape_of(6, 3, 30, 1, 33),
        shape_of(2, 1, 256, 2, 70), shape_of(9, 1, 40, 1, 3), shape_of(1, 1, 5, 17, 60)}) {
    const Input input = random_input(shape);
    expect_near(run(input), exact(input), tolerance(GetParam()),
                std::to_string(shape.head_dim) + " values, " + std::to_string(shape.n_tokens) +
                    " tokens from " + std::to_string(shape.first_pos));
  }
}

TEST_P(GpuAttentionResults, AgreesWithDoubleOverManyBlocksOfKeys) {
  const Input input = random_input(shape_of(2, 1, 16, 1, 700));
  expect_near(run(input), exact(input), tolerance(GetParam()), "700 keys");
}

// More keys than there can be short splits; the second query's mask ends a block.
TEST_P(GpuAttentionResults, AgreesWithDoubleOverLongSplits) {
  for (const AttentionShape& shape : {shape_of(2, 1, 8, 2, 2302), shape_of(1, 1, 72, 1, 4200)}) {
    const Input input = random_input(shape);
    expect_near(run(input), exact(input), tolerance(GetParam()),
                std::to_string(shape.first_pos) + " keys");
  }
}

TEST_P(GpuAttentionResults, AgreesWithDoubleOverManyTilesOfQueries) {
  const Input input = random_input(shape_of(2, 1, 10, 150, 3));
  expect_near(run(input), exact(input), tolerance(GetParam()), "150 queries");
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

TEST_P(GpuAttentionResults, UnalignedArraysGetTheSameBits) {
  const Input input = random_input(shape_of(4, 2, 32, 2, 70));
  const Result expected = run(input);
  const auto moved = [](Values values) {
    values.insert(values.begin(), kNan);
    return values;
  };
  const auto q = upload(moved(input.q)), k = upload(moved(input.k)), v = upload(moved(input.v));
  const auto first_pos = upload(std::vector<int32_t>{70});
  auto out = upload(moved(input.q));
  auto scratch = buffer<uint8_t>(
      std::max(attention_valu_scratch(input.shape, 72), attention_mfma_scratch(input.shape, 72)));
  set_bytes(scratch.data(), kAttentionCounters * sizeof(uint32_t), 0, stream_);
  const auto attention = GetParam() == Route::kValu ? attention_valu : attention_mfma;
  attention(input.shape, first_pos.data(), 72, q.data() + 1, k.data() + 1, v.data() + 1,
            out.data() + 1, {}, scratch.data(), stream_);
  EXPECT_EQ(bits_of(download(out)), bits_of(moved(expected.out)));
}

// ---- Faults mean what they mean on the CPU.

struct Fault {
  const char* name;
  std::function<void(AttentionShape&)> inject;
};

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all{
      {"mask hides the own key", [](AttentionShape& s) { s.mask_shift = -1; }},
      {"mask shows the next key", [](AttentionShape& s) { s.mask_shift = 1; }},
      {"mask stops at the cache's end",
       [](AttentionShape& s) {
         s.mask_shift = 1;
         s.cache_rows = s.first_pos + s.n_tokens;
       }},
      {"modulo heads", [](AttentionShape& s) { s.modulo_heads = true; }},
      {"stride of two heads", [](AttentionShape& s) { s.k_head_stride *= 2; }},
      {"odd stride", [](AttentionShape& s) { s.k_head_stride += 3; }},
      {"stride of a row and more",
       [](AttentionShape& s) { s.k_head_stride = (s.n_kv_heads + 1) * s.head_dim + 4; }},
      {"V transposed", [](AttentionShape& s) { s.v_transposed = true; }},
      {"no maximum",
       [](AttentionShape& s) {
         s.subtract_max = false;
         s.score_shift = 0.5f;
       }},
      {"negative scale", [](AttentionShape& s) { s.scale = -s.scale; }},
      {"window", [](AttentionShape& s) { s.window = 41; }},
      {"window of one key", [](AttentionShape& s) { s.window = 1; }},
      {"window, and the mask hides the own key",
       [](AttentionShape& s) {
         s.window = 40;
         s.mask_shift = -1;
       }},
      {"window, and the mask shows the next key",
       [](AttentionShape& s) {
         s.window = 2;
         s.mask_shift = 1;
       }},
      {"window without a maximum",
       [](AttentionShape& s) {
         s.window = 33;
         s.subtract_max = false;
         s.score_shift = 0.5f;
       }},
  };
  return all;
}

TEST_P(GpuAttentionResults, EveryFaultMeansWhatItMeansOnTheCpu) {
  ThreadPool pool(1);
  for (const Fault& fault : faults()) {
    AttentionShape shape = shape_of(6, 3, 20, 4, 61);
    fault.inject(shape);
    const Input input = random_input(shape);
    Values out(input.q.size()), scores(trace_values(shape, 0), kUntouched), probs = scores;
    attention_two_pass(shape, input.q.data(), input.k.data(), input.v.data(), out.data(),
                       {scores.data(), probs.data(), 0, static_cast<int64_t>(trace_stride(shape))},
                       pool);
    const Exact expected{
        {out.begin(), out.end()}, {scores.begin(), scores.end()}, {probs.begin(), probs.end()}};
    expect_near(run(input), expected, tolerance(GetParam()), fault.name);
    expect_near(run(input), exact(input), tolerance(GetParam()), fault.name);
  }
}

// ---- A query's result is its own.

Input one_query_of(const Input& input, size_t t) {
  Input alone = input;
  alone.shape.n_tokens = 1;
  alone.shape.first_pos += static_cast<int64_t>(t);
  const auto width = static_cast<size_t>(input.shape.n_heads * input.shape.head_dim);
  alone.q.assign(input.q.begin() + static_cast<std::ptrdiff_t>(t * width),
                 input.q.begin() + static_cast<std::ptrdiff_t>((t + 1) * width));
  return alone;
}

// got: of query t alone; together: of all queries.
void expect_same_query(const Result& got, const Result& together, const AttentionShape& shape,
                       size_t t, const std::string& what) {
  const auto part = [](const Values& all, size_t first, size_t n) {
    return bits_of(std::span(all).subspan(first, n));
  };
  const size_t stride = trace_stride(shape);
  EXPECT_EQ(bits_of(got.out), part(together.out, t * got.out.size(), got.out.size())) << what;
  EXPECT_EQ(bits_of(got.scores), part(together.scores, t * stride, got.scores.size())) << what;
  EXPECT_EQ(bits_of(got.probs), part(together.probs, t * stride, got.probs.size())) << what;
}

TEST_P(GpuAttentionResults, BatchOfQueriesEqualsOneByOne) {
  std::vector<Fault> cases = faults();
  cases.push_back({"none", [](AttentionShape&) {}});
  for (const Fault& fault : cases) {
    // The second batch has queries of which some see a block of keys more than others.
    for (int64_t first_pos : {60, 115}) {
      AttentionShape shape = shape_of(4, 2, 12, 19, first_pos);
      shape.cache_rows = first_pos + 30;
      fault.inject(shape);
      const Input input = random_input(shape);
      const Result together = run(input);
      for (size_t t : {0, 3, 12, 13, 18}) {
        expect_same_query(run(one_query_of(input, t)), together, shape, t,
                          std::string(fault.name) + " " + std::to_string(t));
      }
    }
  }
}

// Blocks and splits of keys, short and long, begin and end among the queries; heads fill more than
// a block of one query, or less; dimensions more than a piece.
TEST_P(GpuAttentionResults, BatchOfQueriesEqualsOneByOneWhereverKeysAreCut) {
  struct Case {
    AttentionShape shape;
    std::vector<size_t> queries;
  };
  const auto windowed = [](AttentionShape shape, int64_t window) {
    shape.window = window;
    return shape;
  };
  const Case cases[] = {{shape_of(8, 2, 64, 70, 100), {0, 27, 28, 29, 69}},
                        {windowed(shape_of(8, 2, 64, 70, 100), 50), {0, 27, 28, 29, 69}},
                        {windowed(shape_of(4, 1, 128, 40, 230), 128), {0, 25, 26, 39}},
                        {windowed(shape_of(3, 1, 200, 20, 250), 130), {0, 5, 6, 19}},
                        {windowed(shape_of(20, 1, 16, 6, 260), 3), {0, 2, 3, 5}},
                        {windowed(shape_of(2, 1, 16, 140, 700), 65), {0, 3, 4, 131, 132, 139}},
                        {windowed(shape_of(2, 2, 6, 3, 4094), 2000), {0, 1, 2}},
                        {windowed(shape_of(1, 1, 8, 4, 4734), 2112), {0, 1, 2, 3}},
                        {shape_of(4, 1, 128, 40, 230), {0, 25, 26, 39}},
                        {shape_of(3, 1, 200, 20, 250), {0, 5, 6, 19}},
                        {shape_of(20, 1, 16, 6, 125), {0, 2, 3, 5}},
                        {shape_of(2, 2, 6, 3, 4094), {0, 1, 2}},
                        {shape_of(1, 1, 8, 4, 4734), {0, 1, 2, 3}}};
  for (const Case& one : cases) {
    const Input input = random_input(one.shape);
    const Result together = run(input);
    for (size_t t : one.queries) {
      expect_same_query(run(one_query_of(input, t)), together, one.shape, t,
                        std::to_string(one.shape.head_dim) + " values, query " + std::to_string(t));
    }
  }
}

// What a later query sees, and it alone, changes no bit of those before.
TEST_P(GpuAttentionResults, ValuesThatAreNotFiniteStayAmongThoseWhoSeeThem) {
  for (int64_t first_pos : {60, 118}) {
    Input input = random_input(shape_of(4, 2, 24, 21, first_pos));
    const Result clean = run(input, {.trace = false});
    const size_t row = 48, seen_by = 11, key = static_cast<size_t>(first_pos) + seen_by;
    for (size_t d = 0; d < row; d += 5) {
      input.v[key * row + d] = d % 2 == 0 ? kNan : std::numeric_limits<float>::infinity();
    }
    const Result got = run(input, {.trace = false});
    const size_t width = 96;
    const auto before = [&](const Values& out) {
      return bits_of(std::span(out).first(seen_by * width));
    };
    EXPECT_EQ(before(got.out), before(clean.out));
    for (size_t t : {seen_by, size_t{20}}) {
      const Result alone = run(one_query_of(input, t), {.trace = false});
      for (size_t i = 0; i < width; ++i) {
        const float together = got.out[t * width + i];
        if (std::isfinite(together)) {
          EXPECT_EQ(together, alone.out[i]) << t << " " << i;
        } else {
          EXPECT_FALSE(std::isfinite(alone.out[i])) << t << " " << i;
        }
      }
    }
  }
}

TEST_P(GpuAttentionResults, ACacheInF16HasTheBitsOfItsValues) {
  std::vector<AttentionShape> shapes{shape_of(8, 2, 64, 70, 100), shape_of(8, 2, 128, 1, 230),
                                     shape_of(3, 1, 200, 5, 250), shape_of(3, 1, 200, 1, 250),
                                     shape_of(4, 2, 6, 3, 300),   shape_of(4, 2, 6, 1, 300),
                                     shape_of(2, 2, 64, 1, 0)};
  for (const int64_t n_tokens : {1, 9}) {
    shapes.push_back(shape_of(8, 2, 64, n_tokens, 200));
    shapes.back().k_head_stride += 1;
    shapes.push_back(shape_of(8, 2, 64, n_tokens, 200));
    shapes.back().v_transposed = true;
    shapes.push_back(shape_of(8, 2, 64, n_tokens, 200));
    shapes.back().window = 130;
  }
  for (const AttentionShape& shape : shapes) {
    Input input = random_input(shape);
    for (Values* values : {&input.k, &input.v}) {
      for (float& value : *values) value = f16_to_f32(f32_to_f16(value));
    }
    EXPECT_TRUE(run(input, {.halves = true}) == run(input))
        << shape.n_heads << " heads of " << shape.head_dim << ", " << shape.n_tokens << " tokens";
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

// What a window hides from later queries changes no bit of theirs.
TEST_P(GpuAttentionResults, ValuesThatAreNotFiniteAreForgottenBehindTheWindow) {
  for (int64_t first_pos : {70, 135, 255}) {
    AttentionShape shape = shape_of(4, 2, 24, 30, first_pos);
    shape.window = 60;
    Input input = random_input(shape);
    const Result clean = run(input, {.trace = false});
    const size_t row = 48, key = static_cast<size_t>(first_pos) - 40, width = 96;
    const size_t seen_by = 20;  // queries, the first ones
    for (size_t d = 0; d < row; d += 5) {
      input.v[key * row + d] = d % 2 == 0 ? kNan : std::numeric_limits<float>::infinity();
    }
    for (const bool trace : {false, true}) {
      const Result got = run(input, {.trace = trace});
      const auto after = [&](const Values& out) {
        return bits_of(std::span(out).subspan(seen_by * width));
      };
      EXPECT_EQ(after(got.out), after(clean.out)) << first_pos;
      for (size_t t = 0; t < seen_by; ++t) {
        for (size_t i = 0; i < width; ++i) {
          const size_t column = i / 48 * 24 + i % 24;  // heads 0 and 1 share the first KV head
          EXPECT_EQ(std::isfinite(got.out[t * width + i]), column % 5 != 0) << t << " " << i;
        }
      }
      EXPECT_TRUE(trace || got == run(input, {.trace = false}));
    }
  }
}

TEST_P(GpuAttentionResults, RoomForMoreKeysChangesNoBit) {
  for (int64_t first_pos : {0, 70}) {
    const Input input = random_input(shape_of(4, 2, 12, 2, first_pos));
    const Result expected = run(input);
    for (int64_t spare : {1, 64, 5000}) {
      Input roomy = input;
      roomy.shape.cache_rows += 5000;
      const Options options{.spare_keys = spare};
      EXPECT_TRUE(run(roomy, options) == expected) << spare;
    }
  }
}

TEST_P(GpuAttentionResults, TracingDoesNotChangeABit) {
  for (const auto& [first_pos, window] : {std::pair{63, 0}, {63, 66}, {300, 40}, {2500, 300}}) {
    AttentionShape shape = shape_of(4, 2, 20, 9, first_pos);
    shape.window = window;
    const Input input = random_input(shape);
    const Result traced = run(input);
    EXPECT_EQ(bits_of(run(input, {.trace = false}).out), bits_of(traced.out)) << window;
    const Result last = run(input, {.first_query = 7});
    EXPECT_EQ(bits_of(last.out), bits_of(traced.out)) << window;
    const size_t stride = trace_stride(input.shape);
    const auto tail = [&](const Values& all) {
      return bits_of(std::span(all).subspan(7 * stride));
    };
    EXPECT_EQ(bits_of(last.scores), tail(traced.scores)) << window;
    EXPECT_EQ(bits_of(last.probs), tail(traced.probs)) << window;
  }
}

TEST_P(GpuAttentionResults, TracingTheLastOfManyQueriesDoesNotChangeABit) {
  const Input input = random_input(shape_of(2, 1, 8, 170, 41));
  const Result untraced = run(input, {.trace = false}), last = run(input, {.first_query = 169});
  EXPECT_EQ(bits_of(last.out), bits_of(untraced.out));
  const Result all = run(input);
  EXPECT_EQ(bits_of(all.out), bits_of(untraced.out));
  const auto tail = [&](const Values& values) {
    return bits_of(std::span(values).subspan(169 * trace_stride(input.shape)));
  };
  EXPECT_EQ(bits_of(last.scores), tail(all.scores));
  EXPECT_EQ(bits_of(last.probs), tail(all.probs));
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

TEST_P(GpuAttentionResults, AGraphFollowsThePositionInMemory) {
  const Input late = random_input(shape_of(4, 2, 12, 1, 150));
  Input early = late;
  early.shape.first_pos = 20;
  const auto q = upload(late.q), k = upload(late.k), v = upload(late.v);
  auto first_pos = upload(std::vector<int32_t>{0});
  auto out = buffer<float>(late.q.size());
  const bool valu = GetParam() == Route::kValu;
  auto scratch = buffer<uint8_t>(valu ? attention_valu_scratch(late.shape, 151)
                                      : attention_mfma_scratch(late.shape, 151));
  set_bytes(scratch.data(), kAttentionCounters * sizeof(uint32_t), 0, stream_);
  const auto attention = valu ? attention_valu : attention_mfma;
  Graph graph = Graph::capture(stream_, [&] {
    attention(late.shape, first_pos.data(), 151, q.data(), k.data(), v.data(), out.data(), {},
              scratch.data(), stream_);
  });
  const Input* const inputs[] = {&late, &early, &late};
  for (const Input* input : inputs) {
    copy_to_device<int32_t>(std::vector<int32_t>{static_cast<int32_t>(input->shape.first_pos)},
                            first_pos.data(), stream_);
    graph.launch(stream_);
    EXPECT_EQ(bits_of(download(out)), bits_of(run(*input).out));
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

}  // namespace
}  // namespace greta
