// What changes no bit of a query: the other queries, how keys are cut, tracing, room, the type of
// the cache.
#include "tests/kernels/gpu/attention_cases.h"

namespace greta {
namespace {

using namespace attention_test;

class GpuAttentionBits : public GpuAttentionRoutes {};
GRETA_BOTH_ROUTES(GpuAttentionBits);

TEST_P(GpuAttentionBits, UnalignedArraysGetTheSameBits) {
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

TEST_P(GpuAttentionBits, BatchOfQueriesEqualsOneByOne) {
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
TEST_P(GpuAttentionBits, BatchOfQueriesEqualsOneByOneWhereverKeysAreCut) {
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
TEST_P(GpuAttentionBits, ValuesThatAreNotFiniteStayAmongThoseWhoSeeThem) {
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

TEST_P(GpuAttentionBits, ACacheInF16HasTheBitsOfItsValues) {
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

// What a window hides from later queries changes no bit of theirs.
TEST_P(GpuAttentionBits, ValuesThatAreNotFiniteAreForgottenBehindTheWindow) {
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

TEST_P(GpuAttentionBits, RoomForMoreKeysChangesNoBit) {
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

TEST_P(GpuAttentionBits, TracingDoesNotChangeABit) {
  std::vector<AttentionShape> shapes{shape_of(2, 1, 8, 170, 41)};  // many tiles of queries
  for (const auto& [first_pos, window] : {std::pair{63, 0}, {63, 66}, {300, 40}, {2500, 300}}) {
    shapes.push_back(shape_of(4, 2, 20, 9, first_pos));
    shapes.back().window = window;
  }
  for (const AttentionShape& shape : shapes) {
    const Input input = random_input(shape);
    const Result traced = run(input);
    EXPECT_EQ(bits_of(run(input, {.trace = false}).out), bits_of(traced.out)) << shape.window;
    const int64_t first_query = shape.n_tokens - 2;
    const Result last = run(input, {.first_query = first_query});
    EXPECT_EQ(bits_of(last.out), bits_of(traced.out)) << shape.window;
    const auto tail = [&](const Values& all) {
      return bits_of(
          std::span(all).subspan(static_cast<size_t>(first_query) * trace_stride(shape)));
    };
    EXPECT_EQ(bits_of(last.scores), tail(traced.scores)) << shape.window;
    EXPECT_EQ(bits_of(last.probs), tail(traced.probs)) << shape.window;
  }
}

TEST_P(GpuAttentionBits, AGraphFollowsThePositionInMemory) {
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

}  // namespace
}  // namespace greta
