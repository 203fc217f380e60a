#include "kernels/cpu/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cpu/thread_pool.h"
#include "tests/kernels/kernel_fixture.h"

namespace greta {
namespace {

using Attention = void (*)(const AttentionShape&, const float*, const float*, const float*, float*,
                           const AttentionTrace&, ThreadPool&, Isa);

struct Route {
  const char* name;
  Attention attention;
};
constexpr Route kRoutes[] = {{"online", attention_online}, {"two_pass", attention_two_pass}};

// What one call computes over: cache rows beyond the last position hold NaN unless `spare` is set,
// which then is the number of such rows with ordinary values.
struct Problem {
  AttentionShape shape;
  Values q, k, v;

  int64_t row() const { return shape.n_kv_heads * shape.head_dim; }
  int64_t end_pos() const { return shape.first_pos + shape.n_tokens; }
  int64_t key_block() const { return end_pos() * shape.n_heads; }
};

Problem make_problem(int64_t n_heads, int64_t n_kv_heads, int64_t head_dim, int64_t n_tokens,
                     int64_t first_pos, int64_t spare = 0, float sigma = 1) {
  Problem p;
  p.shape.n_heads = n_heads;
  p.shape.n_kv_heads = n_kv_heads;
  p.shape.head_dim = head_dim;
  p.shape.n_tokens = n_tokens;
  p.shape.first_pos = first_pos;
  p.shape.cache_rows = first_pos + n_tokens + 3;
  p.shape.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  p.shape.k_head_stride = head_dim;
  const auto seed = static_cast<uint32_t>(head_dim * 1000 + n_tokens * 7 + first_pos + n_heads);
  p.q = bell_values(seed, n_tokens * n_heads * head_dim, sigma);
  p.k = bell_values(seed + 1, p.shape.cache_rows * p.row());
  p.v = bell_values(seed + 2, p.shape.cache_rows * p.row());
  for (Values* cache : {&p.k, &p.v}) {
    std::fill(cache->begin() + (p.end_pos() + spare) * p.row(), cache->end(), kNan);
  }
  return p;
}

struct Result {
  Values out, scores, probs;  // traces of all queries, one block of key_block() values each
};

Result compute(const Problem& p, Attention attention, Isa isa, ThreadPool& pool, bool traced = true,
               int64_t first_query = 0) {
  Result r;
  r.out.assign(p.q.size(), kNan);
  AttentionTrace trace;
  if (traced) {
    const int64_t n = (p.shape.n_tokens - first_query) * p.key_block();
    r.scores.assign(static_cast<size_t>(n), kNan);
    r.probs.assign(static_cast<size_t>(n), kNan);
    trace = {r.scores.data(), r.probs.data(), first_query, p.key_block()};
  }
  attention(p.shape, p.q.data(), p.k.data(), p.v.data(), r.out.data(), trace, pool, isa);
  return r;
}

Result compute(const Problem& p, Attention attention, Isa isa, int n_threads = 1,
               bool traced = true) {
  ThreadPool pool(n_threads);
  return compute(p, attention, isa, pool, traced);
}

// The formulas of the header in double, faults included.
struct Reference {
  std::vector<double> out, scores, probs;
};

double k_value(const Problem& p, int64_t key, int64_t g, int64_t d) {
  const int64_t column = (g * p.shape.k_head_stride + d) % p.row();
  return static_cast<double>(p.k[static_cast<size_t>(key * p.row() + column)]);
}

double v_value(const Problem& p, int64_t key, int64_t g, int64_t d) {
  const int64_t column =
      p.shape.v_transposed ? d * p.shape.n_kv_heads + g : g * p.shape.head_dim + d;
  return static_cast<double>(p.v[static_cast<size_t>(key * p.row() + column)]);
}

void reference_head(const Problem& p, int64_t t, int64_t h, Reference& ref) {
  const AttentionShape& s = p.shape;
  const int64_t g = s.modulo_heads ? h % s.n_kv_heads : h * s.n_kv_heads / s.n_heads;
  const int64_t pos = s.first_pos + t;
  const int64_t n_visible = std::min(pos + 1 + s.mask_shift, s.cache_rows);
  const auto q_at = static_cast<size_t>((t * s.n_heads + h) * s.head_dim);
  std::vector<double> score(static_cast<size_t>(std::max(n_visible, pos + 1)));
  for (size_t j = 0; j < score.size(); ++j) {
    double dot = 0;
    for (int64_t d = 0; d < s.head_dim; ++d) {
      dot += static_cast<double>(p.q[q_at + static_cast<size_t>(d)]) *
             k_value(p, static_cast<int64_t>(j), g, d);
    }
    score[j] = dot * static_cast<double>(s.scale);
  }
  double max = -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < n_visible; ++j) max = std::max(max, score[static_cast<size_t>(j)]);
  std::vector<double> weight(score.size(), 0.0);
  double sum = 0;
  for (int64_t j = 0; j < n_visible; ++j) {
    const double shift = s.subtract_max ? -max : static_cast<double>(s.score_shift);
    // exp in f32 is infinite from here on.
    const double x = score[static_cast<size_t>(j)] + shift;
    weight[static_cast<size_t>(j)] = x > 88.7228 ? HUGE_VAL : std::exp(x);
    sum += weight[static_cast<size_t>(j)];
  }
  for (double& w : weight) w /= sum;
  for (int64_t d = 0; d < s.head_dim; ++d) {
    double value = n_visible == 0 ? std::nan("") : 0;
    for (int64_t j = 0; j < n_visible; ++j) {
      value += weight[static_cast<size_t>(j)] * v_value(p, j, g, d);
    }
    ref.out[q_at + static_cast<size_t>(d)] = value;
  }
  for (int64_t j = 0; j <= pos; ++j) {
    const auto at = static_cast<size_t>(t * p.key_block() + j * s.n_heads + h);
    ref.scores[at] = score[static_cast<size_t>(j)];
    ref.probs[at] = j < n_visible ? weight[static_cast<size_t>(j)] : 0;
  }
}

// Trace entries that no query has keep the marker that compute() put there.
Reference reference(const Problem& p) {
  Reference ref;
  const auto n = static_cast<size_t>(p.shape.n_tokens * p.key_block());
  ref.out.resize(p.q.size());
  ref.scores.assign(n, kNan);
  ref.probs.assign(n, kNan);
  for (int64_t t = 0; t < p.shape.n_tokens; ++t) {
    for (int64_t h = 0; h < p.shape.n_heads; ++h) reference_head(p, t, h, ref);
  }
  return ref;
}

// Of relative L2, for scores of magnitude 1. Without a fused multiply-add each product rounds too.
double tolerance(Isa isa) { return isa == Isa::kBaseline ? 4.5e-7 : 3e-7; }

void expect_reference(const Problem& p, Isa isa, double magnitude = 1) {
  const Reference ref = reference(p);
  for (const Route& route : kRoutes) {
    SCOPED_TRACE(std::string(route.name) + " heads " + std::to_string(p.shape.n_heads) + "/" +
                 std::to_string(p.shape.n_kv_heads) + " dim " + std::to_string(p.shape.head_dim) +
                 " tokens " + std::to_string(p.shape.n_tokens) + " at " +
                 std::to_string(p.shape.first_pos));
    const Result r = compute(p, route.attention, isa);
    EXPECT_LE(rel_l2(r.out, ref.out), tolerance(isa) * magnitude);
    EXPECT_LE(rel_l2(r.scores, ref.scores, 1), tolerance(isa));
    EXPECT_LE(rel_l2(r.probs, ref.probs), tolerance(isa) * magnitude);
  }
}

class AttentionRoutes : public IsaTest {};
class AttentionFault : public IsaTest {};
GRETA_EVERY_ISA(AttentionRoutes);
GRETA_EVERY_ISA(AttentionFault);

struct Heads {
  int64_t n_heads, n_kv_heads;
};
constexpr Heads kHeads[] = {{1, 1}, {4, 2}, {8, 8}, {6, 3}};

TEST_P(AttentionRoutes, AgreesWithDoubleAtEverySize) {
  for (const Heads& heads : kHeads) {
    for (int64_t head_dim : {8, 40, 64, 128}) {
      for (int64_t n_tokens : {1, 3, 17}) {
        for (int64_t first_pos : {0, 5, 333}) {
          expect_reference(
              make_problem(heads.n_heads, heads.n_kv_heads, head_dim, n_tokens, first_pos),
              GetParam());
        }
      }
    }
  }
}

TEST_P(AttentionRoutes, AgreesWithDoubleAtUnusualSizes) {
  expect_reference(make_problem(3, 1, 1, 5, 2), GetParam());
  expect_reference(make_problem(10, 2, 18, 9, 60), GetParam());
  expect_reference(make_problem(7, 7, 200, 4, 64), GetParam());
  expect_reference(make_problem(48, 1, 33, 3, 127), GetParam());
  expect_reference(make_problem(8, 2, 64, 200, 0), GetParam());
}

TEST_P(AttentionRoutes, LongContextStaysAccurate) {
  expect_reference(make_problem(4, 1, 64, 2, 3000), GetParam());
}

TEST_P(AttentionRoutes, PeakedSoftmaxStaysAccurate) {
  expect_reference(make_problem(4, 2, 64, 5, 200, 0, 8.0f), GetParam(), 8);
}

TEST_P(AttentionRoutes, ZeroTokensDoNothing) {
  const Problem p = make_problem(4, 2, 64, 0, 5);
  for (const Route& route : kRoutes)
    EXPECT_TRUE(compute(p, route.attention, GetParam()).out.empty());
}

TEST_P(AttentionRoutes, FirstPositionReturnsItsOwnValue) {
  const Problem p = make_problem(4, 2, 40, 1, 0);
  for (const Route& route : kRoutes) {
    const Result r = compute(p, route.attention, GetParam());
    for (int64_t h = 0; h < 4; ++h) {
      EXPECT_EQ(r.probs[static_cast<size_t>(h)], 1.0f);
      EXPECT_TRUE(
          same_bits(slice(r.out, h * 40, (h + 1) * 40), slice(p.v, h / 2 * 40, (h / 2 + 1) * 40)));
    }
  }
}

// ---- Bits.

void expect_batch_equals_singles(const Problem& batch, Attention attention, Isa isa) {
  const Result together = compute(batch, attention, isa, 2);
  const int64_t width = batch.shape.n_heads * batch.shape.head_dim;
  for (int64_t t = 0; t < batch.shape.n_tokens; ++t) {
    Problem single = batch;
    single.shape.n_tokens = 1;
    single.shape.first_pos += t;
    single.q = slice(batch.q, t * width, (t + 1) * width);
    const Result alone = compute(single, attention, isa);
    EXPECT_TRUE(same_bits(alone.out, slice(together.out, t * width, (t + 1) * width)));
    const int64_t begin = t * batch.key_block();
    const int64_t end = begin + single.key_block();
    EXPECT_TRUE(same_bits(alone.scores, slice(together.scores, begin, end)));
    EXPECT_TRUE(same_bits(alone.probs, slice(together.probs, begin, end)));
  }
}

TEST_P(AttentionRoutes, BatchOfQueriesEqualsOneByOne) {
  for (const Heads& heads : kHeads) {
    for (int64_t head_dim : {40, 64}) {
      for (int64_t first_pos : {0, 5, 333}) {
        const Problem p = make_problem(heads.n_heads, heads.n_kv_heads, head_dim, 17, first_pos);
        for (const Route& route : kRoutes) {
          SCOPED_TRACE(route.name + std::to_string(head_dim));
          expect_batch_equals_singles(p, route.attention, GetParam());
        }
      }
    }
  }
}

TEST_P(AttentionRoutes, BatchOfQueriesEqualsOneByOneUnderEveryFault) {
  const Problem clean = make_problem(6, 3, 64, 9, 60, 1);
  const auto expect_equal = [&](auto change) {
    Problem p = clean;
    change(p.shape);
    for (const Route& route : kRoutes) {
      SCOPED_TRACE(route.name);
      expect_batch_equals_singles(p, route.attention, GetParam());
    }
  };
  expect_equal([](AttentionShape& s) { s.mask_shift = -1; });
  expect_equal([](AttentionShape& s) { s.mask_shift = 1; });
  expect_equal([](AttentionShape& s) { s.modulo_heads = true; });
  expect_equal([](AttentionShape& s) { s.k_head_stride += 1; });
  expect_equal([](AttentionShape& s) { s.k_head_stride -= 1; });
  expect_equal([](AttentionShape& s) { s.v_transposed = true; });
  expect_equal([](AttentionShape& s) { s.subtract_max = false; });
}

// One query that sees many keys, one that sees few, and many queries: each is shared out otherwise.
TEST_P(AttentionRoutes, ThreadsDoNotChangeABit) {
  for (const Route& route : kRoutes) {
    for (const Problem& p : {make_problem(8, 4, 64, 1, 2000), make_problem(8, 4, 64, 1, 300),
                             make_problem(8, 4, 64, 70, 300), make_problem(4, 4, 40, 1, 700)}) {
      const Result expected = compute(p, route.attention, GetParam(), 1);
      for (int n_threads : {2, 3, 7}) {
        SCOPED_TRACE(route.name + std::to_string(n_threads));
        const Result r = compute(p, route.attention, GetParam(), n_threads);
        EXPECT_TRUE(same_bits(r.out, expected.out));
        EXPECT_TRUE(same_bits(r.scores, expected.scores));
        EXPECT_TRUE(same_bits(r.probs, expected.probs));
      }
    }
  }
}

TEST_P(AttentionRoutes, TracingDoesNotChangeABit) {
  for (const Route& route : kRoutes) {
    for (int64_t mask_shift : {-1, 0, 1}) {
      Problem p = make_problem(6, 3, 64, 70, 60, 1);
      p.shape.mask_shift = mask_shift;
      EXPECT_TRUE(same_bits(compute(p, route.attention, GetParam(), 2, true).out,
                            compute(p, route.attention, GetParam(), 2, false).out))
          << route.name;
    }
  }
}

TEST_P(AttentionRoutes, TraceOfTheLastQueriesIsTheTailOfTheWholeTrace) {
  ThreadPool pool(2);
  for (const Route& route : kRoutes) {
    const Problem p = make_problem(6, 3, 40, 40, 50);
    const Result all = compute(p, route.attention, GetParam(), pool);
    const Result last = compute(p, route.attention, GetParam(), pool, true, 38);
    const int64_t begin = 38 * p.key_block();
    const auto end = static_cast<int64_t>(all.scores.size());
    EXPECT_TRUE(same_bits(last.scores, slice(all.scores, begin, end))) << route.name;
    EXPECT_TRUE(same_bits(last.probs, slice(all.probs, begin, end))) << route.name;
  }
}

TEST_P(AttentionRoutes, OneOfTheTwoTracesMayBeLeftOut) {
  ThreadPool pool(1);
  for (const Route& route : kRoutes) {
    const Problem p = make_problem(4, 2, 64, 3, 70);
    const Result both = compute(p, route.attention, GetParam(), pool);
    Values out(p.q.size()), scores(both.scores.size(), kNan), probs(scores);
    route.attention(p.shape, p.q.data(), p.k.data(), p.v.data(), out.data(),
                    {scores.data(), nullptr, 0, p.key_block()}, pool, GetParam());
    route.attention(p.shape, p.q.data(), p.k.data(), p.v.data(), out.data(),
                    {nullptr, probs.data(), 0, p.key_block()}, pool, GetParam());
    EXPECT_TRUE(same_bits(scores, both.scores)) << route.name;
    EXPECT_TRUE(same_bits(probs, both.probs)) << route.name;
  }
}

TEST_P(AttentionRoutes, TheTwoRoutesAreCloseButNotTheSameArithmetic) {
  const Problem p = make_problem(8, 2, 64, 33, 300);
  const Result online = compute(p, attention_online, GetParam());
  const Result two_pass = compute(p, attention_two_pass, GetParam());
  const std::vector<double> expected(two_pass.out.begin(), two_pass.out.end());
  EXPECT_LE(rel_l2(online.out, expected), 2 * tolerance(GetParam()));
  EXPECT_FALSE(same_bits(online.out, two_pass.out));
}

// ---- What is not finite.

TEST_P(AttentionRoutes, NanInAVisibleKeyReachesScoresProbsAndOutput) {
  for (const Route& route : kRoutes) {
    for (int64_t key : {0, 63, 64, 70}) {
      Problem p = make_problem(4, 2, 40, 3, 68);
      p.k[static_cast<size_t>(key * p.row() + 40 + 39)] = kNan;  // last value of KV head 1
      const Result r = compute(p, route.attention, GetParam());
      for (int64_t t = 0; t < 3; ++t) {
        const bool sees = key <= 68 + t;
        for (int64_t h = 0; h < 4; ++h) {
          const bool hit = sees && h >= 2;
          const auto at = static_cast<size_t>((t * 4 + h) * 40);
          for (size_t d = 0; d < 40; ++d) EXPECT_EQ(std::isnan(r.out[at + d]), hit) << route.name;
          for (int64_t j = 0; j <= 68 + t; ++j) {
            const auto index = static_cast<size_t>(t * p.key_block() + j * 4 + h);
            EXPECT_EQ(std::isnan(r.scores[index]), hit && j == key) << route.name;
            EXPECT_EQ(std::isnan(r.probs[index]), hit) << route.name;
          }
        }
      }
    }
  }
}

TEST_P(AttentionRoutes, NanInAVisibleValueReachesItsColumnEvenWithNoWeight) {
  for (const Route& route : kRoutes) {
    for (int64_t key : {0, 63, 64, 69}) {
      Problem p = make_problem(4, 2, 40, 3, 68);
      p.v[static_cast<size_t>(key * p.row() + 40 + 39)] = kNan;
      // A key that points away from every query: its weight underflows to 0.
      for (float& q : p.q) q = std::fabs(q) + 1;
      for (int64_t d = 0; d < 80; ++d) p.k[static_cast<size_t>(key * p.row() + d)] = -1000;
      const Result r = compute(p, route.attention, GetParam());
      for (int64_t t = 0; t < 3; ++t) {
        for (int64_t h = 0; h < 4; ++h) {
          for (int64_t d = 0; d < 40; ++d) {
            const auto at = static_cast<size_t>((t * 4 + h) * 40 + d);
            EXPECT_EQ(std::isnan(r.out[at]), key <= 68 + t && h >= 2 && d == 39)
                << route.name << " key " << key << " query " << t;
          }
        }
      }
    }
  }
}

TEST_P(AttentionRoutes, ScoresOfMinusInfinityWeighNothing) {
  for (const Route& route : kRoutes) {
    Problem p = make_problem(2, 1, 8, 1, 150);
    for (float& q : p.q) q = std::fabs(q) + 1;
    const Result without = [&] {
      Problem shifted = p;
      for (int64_t i = 0; i < 100 * 8; ++i) shifted.k[static_cast<size_t>(i)] = -1e4f;
      return compute(shifted, route.attention, GetParam());
    }();
    for (int64_t i = 0; i < 100 * 8; ++i) p.k[static_cast<size_t>(i)] = -kInf;
    const Result r = compute(p, route.attention, GetParam());
    EXPECT_TRUE(same_bits(r.out, without.out)) << route.name;
    EXPECT_TRUE(same_bits(r.probs, without.probs)) << route.name;
    EXPECT_EQ(r.scores[0], -kInf);
  }
}

TEST_P(AttentionRoutes, ScoreOfPlusInfinityIsNanAsInThePlainFormula) {
  for (const Route& route : kRoutes) {
    Problem p = make_problem(1, 1, 8, 1, 70);
    for (float& q : p.q) q = std::fabs(q) + 1;
    p.k[5 * 8] = kInf;
    const Result r = compute(p, route.attention, GetParam());
    for (float value : r.out) EXPECT_TRUE(std::isnan(value)) << route.name;
    EXPECT_EQ(r.scores[5], kInf);
  }
}

// ---- Faults: what each field says, and nothing else.

TEST_P(AttentionFault, MaskOffByOneHidesTheOwnKey) {
  for (const Heads& heads : kHeads) {
    Problem p = make_problem(heads.n_heads, heads.n_kv_heads, 40, 17, 63);
    const Result clean = compute(p, attention_online, GetParam());
    p.shape.mask_shift = -1;
    expect_reference(p, GetParam());
    const Result faulty = compute(p, attention_online, GetParam());
    EXPECT_TRUE(same_bits(clean.scores, faulty.scores));
    EXPECT_FALSE(same_bits(clean.probs, faulty.probs));
    for (int64_t t = 0; t < 17; ++t) {
      for (int64_t h = 0; h < heads.n_heads; ++h) {
        const int64_t own = t * p.key_block() + (63 + t) * heads.n_heads + h;
        EXPECT_EQ(faulty.probs[static_cast<size_t>(own)], 0.0f);
      }
    }
  }
}

TEST_P(AttentionFault, MaskThatHidesTheOnlyKeyGivesNan) {
  Problem p = make_problem(4, 2, 40, 3, 0);
  p.shape.mask_shift = -1;
  expect_reference(p, GetParam());
  for (const Route& route : kRoutes) {
    const Result r = compute(p, route.attention, GetParam());
    for (size_t i = 0; i < r.out.size(); ++i) EXPECT_EQ(std::isnan(r.out[i]), i < 160) << i;
    for (size_t h = 0; h < 4; ++h) {
      EXPECT_TRUE(std::isfinite(r.scores[h]));
      EXPECT_EQ(r.probs[h], 0.0f);
    }
  }
}

TEST_P(AttentionFault, MaskOffByOneDoesNotTouchTheHiddenKey) {
  for (const Route& route : kRoutes) {
    Problem p = make_problem(4, 2, 40, 1, 64);
    p.shape.mask_shift = -1;
    const Result expected = compute(p, route.attention, GetParam(), 1, false);
    std::fill(p.k.begin() + 64 * p.row(), p.k.end(), kNan);
    std::fill(p.v.begin() + 64 * p.row(), p.v.end(), kNan);
    const Result r = compute(p, route.attention, GetParam());
    EXPECT_TRUE(same_bits(r.out, expected.out)) << route.name;
    EXPECT_TRUE(std::isnan(r.scores[64 * 4]));
    EXPECT_EQ(r.probs[64 * 4], 0.0f);
  }
}

TEST_P(AttentionFault, MaskOffByOneSeesTheKeyAfter) {
  for (const Heads& heads : kHeads) {
    Problem p = make_problem(heads.n_heads, heads.n_kv_heads, 64, 17, 47, 1);
    const Result clean = compute(p, attention_two_pass, GetParam());
    p.shape.mask_shift = 1;
    expect_reference(p, GetParam());
    const Result faulty = compute(p, attention_two_pass, GetParam());
    EXPECT_TRUE(same_bits(clean.scores, faulty.scores));
    EXPECT_FALSE(same_bits(clean.probs, faulty.probs));
    EXPECT_FALSE(same_bits(clean.out, faulty.out));
  }
}

TEST_P(AttentionFault, MaskOffByOneSeesWhateverTheRowAfterHolds) {
  for (const Route& route : kRoutes) {
    Problem p = make_problem(4, 2, 40, 1, 63);
    p.shape.mask_shift = 1;  // the row after is NaN
    for (float value : compute(p, route.attention, GetParam()).out) EXPECT_TRUE(std::isnan(value));
  }
}

TEST_P(AttentionFault, MaskOffByOneStopsAtTheEndOfTheCache) {
  Problem p = make_problem(4, 2, 40, 5, 60);
  p.shape.cache_rows = 65;
  p.k.resize(static_cast<size_t>(65 * p.row()));
  p.v.resize(static_cast<size_t>(65 * p.row()));
  p.shape.mask_shift = 1;
  expect_reference(p, GetParam());
}

TEST_P(AttentionFault, HeadsMapModuloTheKvHeads) {
  for (const Heads& heads : kHeads) {
    Problem p = make_problem(heads.n_heads, heads.n_kv_heads, 40, 17, 5);
    const Result clean = compute(p, attention_two_pass, GetParam());
    p.shape.modulo_heads = true;
    expect_reference(p, GetParam());
    const bool differs = heads.n_heads != heads.n_kv_heads;  // else the mappings are the same
    EXPECT_EQ(same_bits(clean.out, compute(p, attention_two_pass, GetParam()).out), !differs);
  }
}

TEST_P(AttentionFault, KHeadStrideReadsOtherColumnsOfTheRow) {
  for (const Heads& heads : kHeads) {
    for (int64_t extra : {-1, 1, 7, -40}) {
      Problem p = make_problem(heads.n_heads, heads.n_kv_heads, 40, 17, 5);
      const Result clean = compute(p, attention_two_pass, GetParam());
      p.shape.k_head_stride += extra;
      expect_reference(p, GetParam());
      const bool differs = heads.n_kv_heads > 1;
      EXPECT_EQ(same_bits(clean.out, compute(p, attention_two_pass, GetParam()).out), !differs);
    }
  }
}

TEST_P(AttentionFault, VTransposedReadsOtherColumnsOfTheRow) {
  for (const Heads& heads : kHeads) {
    for (int64_t head_dim : {8, 40, 64}) {
      Problem p = make_problem(heads.n_heads, heads.n_kv_heads, head_dim, 17, 100);
      const Result clean = compute(p, attention_two_pass, GetParam());
      p.shape.v_transposed = true;
      expect_reference(p, GetParam());
      const Result faulty = compute(p, attention_two_pass, GetParam());
      EXPECT_TRUE(same_bits(clean.probs, faulty.probs));
      EXPECT_EQ(same_bits(clean.out, faulty.out), heads.n_kv_heads == 1);
    }
  }
}

TEST_P(AttentionFault, WithoutMaximumTheShiftOverflowsToNan) {
  Problem p = make_problem(4, 2, 64, 5, 100);
  const Result clean = compute(p, attention_two_pass, GetParam());
  p.shape.subtract_max = false;
  expect_reference(p, GetParam());  // no shift: another order, the same function
  p.shape.score_shift = 100;
  for (const Route& route : kRoutes) {
    const Result r = compute(p, route.attention, GetParam());
    for (float value : r.out) EXPECT_TRUE(std::isnan(value)) << route.name;
    for (int64_t h = 0; h < 4; ++h) {
      EXPECT_TRUE(std::isnan(r.probs[static_cast<size_t>(h)])) << route.name;
    }
  }
  EXPECT_TRUE(same_bits(clean.scores, compute(p, attention_two_pass, GetParam()).scores));
}

TEST_P(AttentionFault, WithoutMaximumOnlyTheRowsThatOverflowAreNan) {
  Problem p = make_problem(1, 1, 8, 40, 90);
  for (int64_t t = 20; t < 40; ++t) {
    for (int64_t d = 0; d < 8; ++d) p.q[static_cast<size_t>(t * 8 + d)] = 0;
  }
  p.shape.subtract_max = false;
  p.shape.score_shift = 80;  // a score of 0 stays finite
  for (int64_t d = 0; d < 8; ++d) p.k[static_cast<size_t>(3 * 8 + d)] = d == 0 ? 1e4f : 0;
  for (int64_t t = 0; t < 20; ++t) p.q[static_cast<size_t>(t * 8)] = 1;
  for (const Route& route : kRoutes) {
    const Result r = compute(p, route.attention, GetParam());
    for (size_t i = 0; i < r.out.size(); ++i) EXPECT_EQ(std::isnan(r.out[i]), i < 160) << i;
  }
}

// ---- Shapes that make no sense.

TEST_P(AttentionRoutes, TracesThatOverlapAreRefused) {
  const Problem p = make_problem(4, 2, 8, 3, 5);
  Values out(p.q.size()), scores(1000);
  ThreadPool pool(1);
  const auto call = [&](const Route& route, int64_t first_query, int64_t stride) {
    route.attention(p.shape, p.q.data(), p.k.data(), p.v.data(), out.data(),
                    {scores.data(), nullptr, first_query, stride}, pool, GetParam());
  };
  for (const Route& route : kRoutes) {
    EXPECT_THROW(call(route, 0, 31), std::invalid_argument);
    EXPECT_THROW(call(route, -1, 32), std::invalid_argument);
    EXPECT_NO_THROW(call(route, 0, 32));
    EXPECT_NO_THROW(call(route, 2, 0));
  }
}

TEST_P(AttentionRoutes, ShapesThatContradictThemselvesAreRefused) {
  const Problem good = make_problem(4, 2, 8, 3, 5);
  const auto refused = [&](auto change) {
    Problem p = good;
    change(p.shape);
    for (const Route& route : kRoutes) {
      EXPECT_THROW(compute(p, route.attention, GetParam(), 1, false), std::invalid_argument);
    }
  };
  refused([](AttentionShape& s) { s.n_heads = 3; });
  refused([](AttentionShape& s) { s.n_heads = 0; });
  refused([](AttentionShape& s) { s.n_kv_heads = 0; });
  refused([](AttentionShape& s) { s.n_kv_heads = -2; });
  refused([](AttentionShape& s) { s.head_dim = 0; });
  refused([](AttentionShape& s) { s.n_tokens = -1; });
  refused([](AttentionShape& s) { s.first_pos = -1; });
  refused([](AttentionShape& s) { s.cache_rows = 7; });
  refused([](AttentionShape& s) { s.first_pos = std::numeric_limits<int64_t>::max(); });
  refused([](AttentionShape& s) { s.k_head_stride = -1; });
  refused([](AttentionShape& s) { s.mask_shift = 2; });
  refused([](AttentionShape& s) { s.mask_shift = -2; });
}

}  // namespace
}  // namespace greta
