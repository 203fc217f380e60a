#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/kernels/kernel_fixture.h"

// One wrong number in the shape of a call.

namespace greta {
namespace {

using namespace attention_problem;

class AttentionFault : public IsaTest {};
GRETA_EVERY_ISA(AttentionFault);

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

TEST_P(AttentionFault, MaskOffByOneStopsAtTheEndOfTheCache) {
  Problem p = make_problem(4, 2, 40, 5, 60);
  p.shape.cache_rows = 65;
  p.k.resize(static_cast<size_t>(65 * p.row()));
  p.v.resize(static_cast<size_t>(65 * p.row()));
  p.shape.mask_shift = 1;
  expect_reference(p, GetParam());
}

// Where there is one KV head, or a query head for each, some faults change nothing.
TEST_P(AttentionFault, OtherHeadsAndColumnsAreReadAsTheShapeSays) {
  for (const Heads& heads : kHeads) {
    const Problem clean = make_problem(heads.n_heads, heads.n_kv_heads, 40, 17, 100);
    const Values out = compute(clean, attention_two_pass, GetParam()).out;
    const auto expect = [&](bool differs, auto change) {
      Problem p = clean;
      change(p.shape);
      expect_reference(p, GetParam());
      EXPECT_EQ(same_bits(out, compute(p, attention_two_pass, GetParam()).out), !differs);
    };
    const bool several = heads.n_kv_heads > 1;
    expect(heads.n_heads != heads.n_kv_heads && several,
           [](AttentionShape& s) { s.modulo_heads = true; });
    expect(several, [](AttentionShape& s) { s.v_transposed = true; });
    for (const int64_t extra : {-1, 1, 7, -40}) {
      expect(several, [&](AttentionShape& s) { s.k_head_stride += extra; });
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

}  // namespace
}  // namespace greta
