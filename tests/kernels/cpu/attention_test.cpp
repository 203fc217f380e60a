#include "kernels/cpu/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/blocks.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/kernels/kernel_fixture.h"

namespace greta {
namespace {

using namespace attention_problem;

class AttentionRoutes : public IsaTest {};
GRETA_EVERY_ISA(AttentionRoutes);

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
  for (const Problem& p : {make_problem(3, 1, 1, 5, 2), make_problem(10, 2, 18, 9, 60),
                           make_problem(7, 7, 200, 4, 64), make_problem(48, 1, 33, 3, 127),
                           make_problem(8, 2, 64, 200, 0), make_problem(4, 1, 64, 2, 3000)}) {
    expect_reference(p, GetParam());
  }
  expect_reference(make_problem(4, 2, 64, 5, 200, 0, 8.0f), GetParam(), 8);  // a peaked softmax
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
      EXPECT_TRUE(same_bits(slice(r.out, h * 40, 40), slice(p.v, h / 2 * 40, 40)));
    }
  }
}

// ---- Bits.

TEST_P(AttentionRoutes, ACacheInF16HasTheResultsOfItsValues) {
  std::vector<Problem> problems{make_problem(4, 2, 64, 1, 300), make_problem(4, 2, 64, 9, 60),
                                make_problem(6, 3, 18, 3, 40), make_problem(6, 3, 64, 2, 60)};
  problems.push_back(problems[1]);
  problems.back().shape.k_head_stride += 1;
  problems.push_back(problems[1]);
  problems.back().shape.v_transposed = true;
  for (Problem& p : problems) {
    std::vector<uint16_t> k, v;
    for (auto& [values, halves] : {std::pair(&p.k, &k), std::pair(&p.v, &v)}) {
      for (float& value : *values) {
        halves->push_back(f32_to_f16(value));
        value = f16_to_f32(halves->back());
      }
    }
    for (const Route& route : kRoutes) {
      SCOPED_TRACE(route.name);
      const Result expected = compute(p, route.attention, GetParam());
      Result got = expected;
      for (Values* values : {&got.out, &got.scores, &got.probs}) {
        std::fill(values->begin(), values->end(), kNan);
      }
      ThreadPool pool(2);
      route.attention(p.shape, p.q.data(), k.data(), v.data(), got.out.data(),
                      {got.scores.data(), got.probs.data(), 0, p.key_block()}, pool, GetParam());
      EXPECT_TRUE(same_bits(got.out, expected.out));
      EXPECT_TRUE(same_bits(got.scores, expected.scores));
      EXPECT_TRUE(same_bits(got.probs, expected.probs));
      EXPECT_THROW(route.attention(p.shape, p.q.data(), k.data(), p.v.data(), got.out.data(), {},
                                   pool, GetParam()),
                   std::invalid_argument);
    }
  }
}

void expect_batch_equals_singles(const Problem& batch, Attention attention, Isa isa) {
  const Result together = compute(batch, attention, isa, 2);
  const int64_t width = batch.shape.n_heads * batch.shape.head_dim;
  for (int64_t t = 0; t < batch.shape.n_tokens; ++t) {
    Problem single = batch;
    single.shape.n_tokens = 1;
    single.shape.first_pos += t;
    single.q = slice(batch.q, t * width, width);
    const Result alone = compute(single, attention, isa);
    EXPECT_TRUE(same_bits(alone.out, slice(together.out, t * width, width)));
    const int64_t begin = t * batch.key_block();
    const int64_t n = single.key_block();
    EXPECT_TRUE(same_bits(alone.scores, slice(together.scores, begin, n)));
    EXPECT_TRUE(same_bits(alone.probs, slice(together.probs, begin, n)));
  }
}

// ---- Windows.

constexpr int64_t kWindows[] = {1, 2, 16, 63, 64, 65, 127, 128, 129, 200, 1000};

Problem windowed(Problem p, int64_t window) {
  p.shape.window = window;
  return p;
}

TEST_P(AttentionRoutes, BatchOfQueriesEqualsOneByOne) {
  std::vector<Problem> problems;
  for (const Heads& heads : kHeads) {
    for (int64_t head_dim : {40, 64}) {
      for (int64_t first_pos : {0, 5, 333}) {
        problems.push_back(make_problem(heads.n_heads, heads.n_kv_heads, head_dim, 17, first_pos));
      }
    }
  }
  for (const int64_t window : kWindows) {
    problems.push_back(windowed(make_problem(6, 3, 64, 19, 190), window));
  }
  const auto add_faulty = [&](auto change) {
    problems.push_back(make_problem(6, 3, 64, 9, 60, 1));
    change(problems.back().shape);
  };
  add_faulty([](AttentionShape& s) { s.mask_shift = -1; });
  add_faulty([](AttentionShape& s) { s.mask_shift = 1; });
  add_faulty([](AttentionShape& s) { s.modulo_heads = true; });
  add_faulty([](AttentionShape& s) { s.k_head_stride += 1; });
  add_faulty([](AttentionShape& s) { s.k_head_stride -= 1; });
  add_faulty([](AttentionShape& s) { s.v_transposed = true; });
  add_faulty([](AttentionShape& s) { s.subtract_max = false; });
  for (size_t i = 0; i < problems.size(); ++i) {
    for (const Route& route : kRoutes) {
      SCOPED_TRACE(route.name + std::to_string(i));
      expect_batch_equals_singles(problems[i], route.attention, GetParam());
    }
  }
}

TEST_P(AttentionRoutes, AWindowAgreesWithDouble) {
  for (const int64_t window : kWindows) {
    for (const int64_t first_pos : {0, 5, 333}) {
      for (const int64_t n_tokens : {1, 17, 150}) {
        expect_reference(windowed(make_problem(6, 3, 40, n_tokens, first_pos), window), GetParam());
      }
    }
  }
  expect_reference(windowed(make_problem(4, 1, 64, 2, 3000), 700), GetParam());
}

TEST_P(AttentionRoutes, KeysBeforeTheWindowHaveNoInfluence) {
  for (const int64_t window : {1, 7, 64, 100}) {
    for (const int64_t n_tokens : {1, 20}) {
      const Problem clean = windowed(make_problem(4, 2, 40, n_tokens, 300), window);
      // Of the first query, and one key more, which the last does not see either.
      const bool one_more = n_tokens > window;
      const int64_t n_hidden = (301 - window) * clean.row() + (one_more ? 1 : 0);
      Problem spoiled = clean;
      for (Values* cache : {&spoiled.k, &spoiled.v}) std::fill_n(cache->begin(), n_hidden, kNan);
      for (const Route& route : kRoutes) {
        SCOPED_TRACE(route.name + std::to_string(window));
        const Values expected = compute(clean, route.attention, GetParam(), 1, false).out;
        const Values got = compute(spoiled, route.attention, GetParam(), 1, false).out;
        const int64_t width = clean.shape.n_heads * clean.shape.head_dim;
        EXPECT_TRUE(same_bits(slice(got, (n_tokens - 1) * width, width),
                              slice(expected, (n_tokens - 1) * width, width)));
        EXPECT_EQ(std::isnan(got[0]), one_more);
      }
    }
  }
}

TEST_P(AttentionRoutes, AMaskOffByOneLeavesTheWindowsBeginning) {
  for (const int64_t shift : {-1, 1}) {
    for (const int64_t window : {1, 2, 70}) {
      Problem p = windowed(make_problem(6, 3, 40, 9, 150, 1), window);
      p.shape.mask_shift = shift;
      const bool sees_none = shift < 0 && window == 1;
      if (!sees_none) expect_reference(p, GetParam());
      for (const Route& route : kRoutes) {
        expect_batch_equals_singles(p, route.attention, GetParam());
        if (!sees_none) continue;
        for (float value : compute(p, route.attention, GetParam()).out) {
          EXPECT_TRUE(std::isnan(value));
        }
      }
    }
  }
}

// One query that sees many keys, one that sees few, and many queries: each is shared out otherwise.
TEST_P(AttentionRoutes, ThreadsDoNotChangeABit) {
  for (const Route& route : kRoutes) {
    for (const Problem& p : {make_problem(8, 4, 64, 1, 2000), make_problem(8, 4, 64, 1, 300),
                             make_problem(8, 4, 64, 70, 300), make_problem(4, 4, 40, 1, 700),
                             windowed(make_problem(8, 4, 64, 1, 2000), 1500),
                             windowed(make_problem(8, 4, 64, 70, 300), 100)}) {
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
    for (const auto& [mask_shift, window] : {std::pair(-1, 0), {0, 0}, {1, 0}, {0, 90}}) {
      Problem p = windowed(make_problem(6, 3, 64, 70, 60, 1), window);
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
    const int64_t n = static_cast<int64_t>(all.scores.size()) - begin;
    EXPECT_TRUE(same_bits(last.scores, slice(all.scores, begin, n))) << route.name;
    EXPECT_TRUE(same_bits(last.probs, slice(all.probs, begin, n))) << route.name;
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
  refused([](AttentionShape& s) { s.window = -1; });
  refused([](AttentionShape& s) { s.first_pos = -1; });
  refused([](AttentionShape& s) { s.cache_rows = 7; });
  refused([](AttentionShape& s) { s.first_pos = std::numeric_limits<int64_t>::max(); });
  refused([](AttentionShape& s) { s.k_head_stride = -1; });
  refused([](AttentionShape& s) { s.mask_shift = 2; });
  refused([](AttentionShape& s) { s.mask_shift = -2; });
}

}  // namespace
}  // namespace greta
