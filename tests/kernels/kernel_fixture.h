#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/simd/isa.h"
#include "tests/kernels/values.h"

// What the tests of the CPU kernels share: comparisons, and every instruction set at hand.

namespace greta {

/// Those that this processor has.
inline std::vector<Isa> instruction_sets() {
  std::vector<Isa> isas;
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa <= best_isa()) isas.push_back(isa);
  }
  return isas;
}

/// A test that runs once per instruction set: derive, then GRETA_EVERY_ISA(Derived).
class IsaTest : public testing::TestWithParam<Isa> {};

inline std::string isa_test_name(const testing::TestParamInfo<Isa>& info) {
  return isa_name(info.param);
}

#define GRETA_EVERY_ISA(Suite) \
  INSTANTIATE_TEST_SUITE_P(Every, Suite, testing::ValuesIn(instruction_sets()), isa_test_name)

inline bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// ‖actual − expected‖ / ‖expected‖ over the values that are finite; infinite where only one is.
/// A root mean square of the expected values below `least_rms` counts as least_rms: the measure of
/// values that come out near 0 by cancellation.
double rel_l2(const Values& actual, const std::vector<double>& expected, double least_rms = 0);

/// Reference for a product of weights with tokens, a row of outputs per token.
struct Expected {
  std::vector<double> value;
  std::vector<double> square;  // Σ (w·x)²
};

/// Weights of `rows` rows.
Expected multiply_in_double(const Values& weights, int64_t rows, const Values& x, int64_t n_tokens);

}  // namespace greta

// Attention problems, and the formulas in double that the routes are held against.

namespace greta::attention_problem {

using Attention = void (*)(const AttentionShape&, const float*, ConstKvRows, ConstKvRows, float*,
                           const AttentionTrace&, ThreadPool&, Isa);

struct Route {
  const char* name;
  Attention attention;
};
inline constexpr Route kRoutes[] = {{"online", attention_online}, {"two_pass", attention_two_pass}};

// What one call computes over: cache rows beyond the last position hold NaN unless `spare` is set,
// which then is the number of such rows with ordinary values.
struct Problem {
  AttentionShape shape;
  Values q, k, v;

  int64_t row() const { return shape.n_kv_heads * shape.head_dim; }
  int64_t end_pos() const { return shape.first_pos + shape.n_tokens; }
  int64_t key_block() const { return end_pos() * shape.n_heads; }
};

inline Problem make_problem(int64_t n_heads, int64_t n_kv_heads, int64_t head_dim, int64_t n_tokens,
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

inline Result compute(const Problem& p, Attention attention, Isa isa, ThreadPool& pool,
                      bool traced = true, int64_t first_query = 0) {
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

inline Result compute(const Problem& p, Attention attention, Isa isa, int n_threads = 1,
                      bool traced = true) {
  ThreadPool pool(n_threads);
  return compute(p, attention, isa, pool, traced);
}

// The formulas of the header in double, faults included.
struct Reference {
  std::vector<double> out, scores, probs;
};

// Trace entries that no query has keep the marker that compute() put there.
Reference reference(const Problem& p);

// Of relative L2, for scores of magnitude 1. Without a fused multiply-add each product rounds too.
inline double tolerance(Isa isa) { return isa == Isa::kBaseline ? 4.5e-7 : 3e-7; }

inline void expect_reference(const Problem& p, Isa isa, double magnitude = 1) {
  const Reference ref = reference(p);
  for (const Route& route : kRoutes) {
    SCOPED_TRACE(std::string(route.name) + " heads " + std::to_string(p.shape.n_heads) + "/" +
                 std::to_string(p.shape.n_kv_heads) + " dim " + std::to_string(p.shape.head_dim) +
                 " tokens " + std::to_string(p.shape.n_tokens) + " at " +
                 std::to_string(p.shape.first_pos) + " window " + std::to_string(p.shape.window));
    const Result r = compute(p, route.attention, isa);
    EXPECT_LE(rel_l2(r.out, ref.out), tolerance(isa) * magnitude);
    EXPECT_LE(rel_l2(r.scores, ref.scores, 1), tolerance(isa));
    EXPECT_LE(rel_l2(r.probs, ref.probs), tolerance(isa) * magnitude);
  }
}

struct Heads {
  int64_t n_heads, n_kv_heads;
};
inline constexpr Heads kHeads[] = {{1, 1}, {4, 2}, {8, 8}, {6, 3}};

}  // namespace greta::attention_problem
