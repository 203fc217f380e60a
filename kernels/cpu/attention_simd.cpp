#include "kernels/cpu/simd_kernels.h"
#include "kernels/simd/simd.h"

namespace greta::GRETA_ISA {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();

// What registers hold: sums of kTileRows rows by kTileVectors vectors of columns online, of
// kHeadTile by kWideVectors in two passes.
#if defined(__AVX512F__)
constexpr int kTileVectors = 4;
constexpr int kHeadTile = 4;
#else
constexpr int kTileVectors = 2;
constexpr int kHeadTile = 2;
#endif
constexpr int kWideVectors = 4;

static_assert(kDimStep % kLanes == 0 && kBlockKeys % (kTileVectors * kLanes) == 0);

// acc[r][c] += Σ_k a[r][k]·b[k][c] over n values of k, in their order; c in vectors.
template <int kRows, int kVectors>
GRETA_INLINE void multiply(const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                           int64_t n, F32 (&acc)[kRows][kVectors]) {
  for (int64_t k = 0; k < n; ++k) {
    F32 row[kVectors];
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) row[c] = load_f32(b + k * b_stride + c * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const F32 factor = splat(a[r * a_stride + k]);
#pragma GCC unroll 8
      for (int c = 0; c < kVectors; ++c) acc[r][c] = madd(factor, row[c], acc[r][c]);
    }
  }
}

// ---- Two passes.

// Asks for values that are needed soon. The processor does not foresee them: it sees short
// stretches of memory, far apart. Requests must be spread among the computations: many at once
// block it.
GRETA_INLINE void fetch(const float* values, int64_t n) {
  constexpr int64_t kCacheLine = 16;
  for (int64_t i = 0; i < n; i += kCacheLine) __builtin_prefetch(values + i, 0, 2);
}

template <int... kLane>
struct Sequence {};
#if defined(__AVX512F__)
using AllLanes = Sequence<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>;
#elif defined(__AVX2__)
using AllLanes = Sequence<0, 1, 2, 3, 4, 5, 6, 7>;
#else
using AllLanes = Sequence<0, 1, 2, 3>;
#endif

// Adds lanes kWidth apart: u's sums go to the lanes whose number lacks the bit kWidth, v's to those
// that have it.
template <int kWidth, int... kLane>
GRETA_INLINE F32 add_lanes(F32 u, F32 v, Sequence<kLane...>) {
  return __builtin_shufflevector(u, v, ((kLane & kWidth) ? kLane - kWidth + kLanes : kLane)...) +
         __builtin_shufflevector(u, v, ((kLane & kWidth) ? kLane + kLanes : kLane + kWidth)...);
}

// Halves the number of vectors until one is left.
template <int kWidth>
GRETA_INLINE void add_pairs(F32 (&v)[kLanes]) {
  if constexpr (kWidth > 0) {
#pragma GCC unroll 8
    for (int i = 0; i < kWidth; ++i) v[i] = add_lanes<kWidth>(v[i], v[i + kWidth], AllLanes{});
    add_pairs<kWidth / 2>(v);
  }
}

// Lane j of the result is the sum of the lanes of v[j]: a tree, the same for every j.
GRETA_INLINE F32 sum_each(F32 (&v)[kLanes]) {
  add_pairs<kLanes / 2>(v);
  return v[0];
}

// kLanes keys against one query; meanwhile asks for the rows `ahead`.
GRETA_INLINE F32 dot_keys(const float* q, const float* k, int64_t stride, int64_t dim,
                          const float* ahead, int64_t n_ahead) {
  F32 sums[kLanes] = {};
  for (int64_t d = 0; d < dim; d += kLanes) {
    for (int64_t j = 0; j < n_ahead; ++j) fetch(ahead + j * stride + d, kLanes);
    const F32 part = load_f32(q + d);
#pragma GCC unroll 4
    for (int j = 0; j < kLanes; j += 4) {
      const float* four = k + j * stride + d;
      sums[j] = madd(part, load_f32(four), sums[j]);
      sums[j + 1] = madd(part, load_f32(four + stride), sums[j + 1]);
      sums[j + 2] = madd(part, load_f32(four + 2 * stride), sums[j + 2]);
      sums[j + 3] = madd(part, load_f32(four + 3 * stride), sums[j + 3]);
    }
  }
  return sum_each(sums);
}

// The last n < kLanes keys; the other lanes are not used.
GRETA_INLINE F32 dot_last_keys(const float* q, const float* k, int64_t stride, int64_t n,
                               int64_t dim) {
  F32 sums[kLanes] = {};
  for (int64_t d = 0; d < dim; d += kLanes) {
    for (int64_t j = 0; j < n; ++j) {
      sums[j] = madd(load_f32(q + d), load_f32(k + j * stride + d), sums[j]);
    }
  }
  return sum_each(sums);
}

void dot_scores(const float* q, int64_t n_heads, int64_t dim, const float* k, int64_t stride,
                int64_t n_keys, const float* ahead, float scale, float* scores,
                int64_t score_stride) {
  for (int64_t first = 0; first < n_keys; first += kLanes) {
    const float* keys = k + first * stride;
    const int64_t n = n_keys - first;
    int64_t asked = 0;  // rows of `ahead`, shared out among the heads
    for (int64_t h = 0; h < n_heads; ++h) {
      const float* query = q + h * dim;
      const int64_t ask = ahead == nullptr ? 0 : (h + 1) * kLanes / n_heads - asked;
      const float* rows = ask == 0 ? nullptr : ahead + (first + asked) * stride;
      const F32 dots = n >= kLanes ? dot_keys(query, keys, stride, dim, rows, ask)
                                   : dot_last_keys(query, keys, stride, n, dim);
      asked += ask;
      store(scores + h * score_stride + first, dots * scale);
    }
  }
}

// Makes the lanes beyond n, up to a whole vector, weigh nothing.
GRETA_INLINE void end_with_nothing(float* scores, int64_t n) {
  for (; n % kLanes != 0; ++n) scores[n] = kMinusInfinity;
}

GRETA_INLINE float greatest(const float* scores, int64_t n) {
  F32 most = splat(kMinusInfinity);
  for (int64_t j = 0; j < n; j += kLanes) most = max(most, load_f32(scores + j));
  return max_lane(most);
}

// Scores to weights exp(score + shift), in place; returns their sum.
GRETA_INLINE float exponentials(float* scores, int64_t n, float shift) {
  F32 total = {};
  for (int64_t j = 0; j < n; j += kLanes) {
    const F32 weight = exp(load_f32(scores + j) + shift);
    store(scores + j, weight);
    total += weight;
  }
  return sum(total);
}

void softmax(float* scores, int64_t n, SoftmaxRule rule) {
  end_with_nothing(scores, n);
  const float shift = rule.subtract_max ? -greatest(scores, n) : rule.shift;
  const float factor = 1.0f / exponentials(scores, n, shift);
  for (int64_t j = 0; j < n; j += kLanes) store(scores + j, load_f32(scores + j) * factor);
}

template <int kHeads, int kVectors>
GRETA_INLINE void weigh_tile(const float* probs, int64_t prob_stride, const float* v,
                             int64_t stride, int64_t n_keys, const float* ahead, int64_t dim,
                             float* out) {
  F32 acc[kHeads][kVectors] = {};
  if (ahead == nullptr) {
    multiply(probs, prob_stride, v, stride, n_keys, acc);
  } else {
    for (int64_t j = 0; j < n_keys; ++j) {
      fetch(ahead + j * stride, kVectors * kLanes);
      multiply(probs + j, prob_stride, v + j * stride, stride, 1, acc);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int c = 0; c < kVectors; ++c) {
      float* to = out + h * dim + c * kLanes;
      store(to, load_f32(to) + acc[h][c]);
    }
  }
}

template <int kHeads>
GRETA_INLINE void weigh_heads(const float* probs, int64_t prob_stride, const float* v,
                              int64_t stride, int64_t n_keys, const float* ahead, int64_t dim,
                              float* out) {
  const auto tile_ahead = [ahead](int64_t d) { return ahead == nullptr ? nullptr : ahead + d; };
  int64_t d = 0;
  for (; d + kWideVectors * kLanes <= dim; d += kWideVectors * kLanes) {
    weigh_tile<kHeads, kWideVectors>(probs, prob_stride, v + d, stride, n_keys, tile_ahead(d), dim,
                                     out + d);
  }
  for (; d < dim; d += kLanes) {
    weigh_tile<kHeads, 1>(probs, prob_stride, v + d, stride, n_keys, tile_ahead(d), dim, out + d);
  }
}

void weigh(const float* probs, int64_t prob_stride, int64_t n_heads, const float* v, int64_t stride,
           int64_t n_keys, const float* ahead, int64_t dim, float* out) {
  int64_t h = 0;
  for (; h + kHeadTile <= n_heads; h += kHeadTile) {
    weigh_heads<kHeadTile>(probs + h * prob_stride, prob_stride, v, stride, n_keys, ahead, dim,
                           out + h * dim);
    ahead = nullptr;
  }
  for (; h < n_heads; ++h) {
    weigh_heads<1>(probs + h * prob_stride, prob_stride, v, stride, n_keys, ahead, dim,
                   out + h * dim);
    ahead = nullptr;
  }
}

// ---- Online.

// Products are summed in runs of kDimStep, and the runs added up: shorter chains of additions round
// less.
void tile_scores(const float* q, int64_t dim, const float* k, int64_t n_keys, float scale,
                 float* scores) {
  constexpr int64_t kColumns = kTileVectors * kLanes;
  for (int64_t j = 0; j < n_keys; j += kColumns) {
    for (int64_t d = 0; d < dim; d += kDimStep) {
      F32 acc[kTileRows][kTileVectors] = {};
      multiply(q + d, dim, k + d * kBlockKeys + j, kBlockKeys, kDimStep, acc);
#pragma GCC unroll 8
      for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 8
        for (int c = 0; c < kTileVectors; ++c) {
          float* to = scores + r * kBlockKeys + j + c * kLanes;
          const F32 sum = d == 0 ? acc[r][c] : load_f32(to) + acc[r][c];
          store(to, d + kDimStep == dim ? sum * scale : sum);
        }
      }
    }
  }
}

GRETA_INLINE bool sees_none(SeenKeys seen) { return seen.begin == seen.end; }

void tile_weights(float* scores, const SeenKeys* seen, SoftmaxRule rule, OnlineState* states,
                  float* factors) {
  float steps[kTileRows + kLanes] = {};  // from the old maximum down to the new one
  float shifts[kTileRows];
  for (int r = 0; r < kTileRows; ++r) {
    shifts[r] = rule.shift;
    if (sees_none(seen[r])) continue;
    float* row = scores + r * kBlockKeys;
    for (int64_t j = 0; j < seen[r].begin; ++j) row[j] = kMinusInfinity;
    end_with_nothing(row, seen[r].end);
    if (!rule.subtract_max) continue;
    const float before = states[r].max;
    const float here = greatest(row, seen[r].end);
    if (!(before >= here)) {
      states[r].max = here;
      steps[r] = before - here;
    }
    // While every score is −∞ there is nothing to be relative to.
    shifts[r] = states[r].max == kMinusInfinity ? 0.0f : -states[r].max;
  }
  for (int r = 0; r < kTileRows; r += kLanes) store(steps + r, exp(load_f32(steps + r)));
  for (int r = 0; r < kTileRows; ++r) {
    factors[r] = steps[r];
    if (sees_none(seen[r])) continue;
    const float sum = exponentials(scores + r * kBlockKeys, seen[r].end, shifts[r]);
    states[r].sum = states[r].sum * factors[r] + sum;
  }
}

// out += Σ_j weights[j]·v[j] over the keys from begin to end.
template <int kVectors>
GRETA_INLINE void add_keys(const float* weights, int64_t begin, int64_t end, const float* v,
                           int64_t stride, F32 (&out)[kVectors]) {
  F32 row[1][kVectors];
  for (int c = 0; c < kVectors; ++c) row[0][c] = out[c];
  multiply(weights + begin, kBlockKeys, v + begin * stride, stride, end - begin, row);
  for (int c = 0; c < kVectors; ++c) out[c] = row[0][c];
}

GRETA_INLINE int64_t least(int64_t a, int64_t b) { return b < a ? b : a; }
GRETA_INLINE int64_t most(int64_t a, int64_t b) { return a < b ? b : a; }

// common: keys that every row sees. Every row's are added in their order. kFromFirst: all rows see
// the first key.
template <bool kFromFirst, int kVectors>
GRETA_INLINE void add_values(const float* weights, const SeenKeys* seen, SeenKeys common,
                             const float* factors, const float* v, int64_t stride, int64_t dim,
                             float* sums) {
  F32 acc[kTileRows][kVectors] = {};
  if constexpr (kFromFirst) {
    multiply(weights, kBlockKeys, v, stride, common.end, acc);
  } else {
    for (int r = 0; r < kTileRows; ++r) {
      add_keys(weights + r * kBlockKeys, seen[r].begin, least(common.begin, seen[r].end), v, stride,
               acc[r]);
    }
    multiply(weights + common.begin, kBlockKeys, v + common.begin * stride, stride,
             common.end - common.begin, acc);
  }
  for (int r = 0; r < kTileRows; ++r) {
    const int64_t begin = kFromFirst ? common.end : most(common.end, seen[r].begin);
    F32 row[1][kVectors];
    for (int c = 0; c < kVectors; ++c) row[0][c] = acc[r][c];
    multiply(weights + r * kBlockKeys + begin, kBlockKeys, v + begin * stride, stride,
             seen[r].end - begin, row);
    for (int c = 0; c < kVectors; ++c) {
      float* to = sums + r * dim + c * kLanes;
      store(to, madd(load_f32(to), splat(factors[r]), row[0][c]));
    }
  }
}

template <bool kFromFirst>
void add_all_values(const float* weights, const SeenKeys* seen, SeenKeys common,
                    const float* factors, const float* v, int64_t stride, int64_t dim,
                    float* sums) {
  int64_t d = 0;
  for (; d + kTileVectors * kLanes <= dim; d += kTileVectors * kLanes) {
    add_values<kFromFirst, kTileVectors>(weights, seen, common, factors, v + d, stride, dim,
                                         sums + d);
  }
  for (; d < dim; d += kLanes) {
    add_values<kFromFirst, 1>(weights, seen, common, factors, v + d, stride, dim, sums + d);
  }
}

void tile_values(const float* weights, const SeenKeys* seen, const float* factors, const float* v,
                 int64_t stride, int64_t dim, float* sums) {
  SeenKeys common = seen[0];
  for (int r = 1; r < kTileRows; ++r) {
    common = {most(common.begin, seen[r].begin), least(common.end, seen[r].end)};
  }
  common.end = most(common.begin, common.end);
  const auto add = common.begin == 0 ? add_all_values<true> : add_all_values<false>;
  add(weights, seen, common, factors, v, stride, dim, sums);
}

}  // namespace

const AttentionKernels attention_kernels = {dot_scores,  softmax,      weigh,
                                            tile_scores, tile_weights, tile_values};

}  // namespace greta::GRETA_ISA
