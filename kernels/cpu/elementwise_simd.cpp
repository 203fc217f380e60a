#include "kernels/cpu/simd_kernels.h"
#include "kernels/simd/simd.h"

// Whole vectors, then the rest in a vector whose other lanes are zero: the same operations for
// both.

namespace greta::GRETA_ISA {
namespace {

// Σ x², with as many partial sums as hide the latency of an addition.
GRETA_INLINE float sum_of_squares(const float* x, int64_t n) {
  constexpr int kSums = 4;
  F32 sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums * kLanes <= n; i += kSums * kLanes) {
    for (int s = 0; s < kSums; ++s) {
      const F32 v = load_f32(x + i + s * kLanes);
      sums[s] = madd(v, v, sums[s]);
    }
  }
  for (; i < n; i += kLanes) {
    const F32 v = i + kLanes <= n ? load_f32(x + i) : load_f32_part(x + i, n - i);
    sums[0] = madd(v, v, sums[0]);
  }
  return sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// out[i] = f(a[i], b[i])
template <class F>
GRETA_INLINE void transform(const float* a, const float* b, int64_t n, float* out, F f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, f(load_f32(a + i), load_f32(b + i)));
  if (i < n) {
    const int64_t rest = n - i;
    store_f32_part(out + i, f(load_f32_part(a + i, rest), load_f32_part(b + i, rest)), rest);
  }
}

void rms_norm(const float* x, const float* weight, float eps, int64_t dim, float* out) {
  const double mean = static_cast<double>(sum_of_squares(x, dim)) / static_cast<double>(dim);
  const auto factor = static_cast<float>(1.0 / __builtin_sqrt(mean + static_cast<double>(eps)));
  transform(x, weight, dim, out, [factor](F32 v, F32 w) { return v * factor * w; });
}

GRETA_INLINE F32 swap_neighbours(F32 v) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
#elif defined(__AVX2__)
  return __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
#else
  return __builtin_shufflevector(v, v, 1, 0, 3, 2);
#endif
}

GRETA_INLINE F32 turn(F32 v, F32 partner, F32 cosine, F32 sine) {
  return madd(v, cosine, partner * sine);
}

void rotate_interleaved(const float* in, const float* cosine, const float* sine, int64_t rope_dim,
                        float* out) {
  int64_t i = 0;
  for (; i + kLanes <= rope_dim; i += kLanes) {
    const F32 v = load_f32(in + i);
    store(out + i, turn(v, swap_neighbours(v), load_f32(cosine + i), load_f32(sine + i)));
  }
  if (i < rope_dim) {
    const int64_t rest = rope_dim - i;
    const F32 v = load_f32_part(in + i, rest);
    const F32 c = load_f32_part(cosine + i, rest);
    const F32 s = load_f32_part(sine + i, rest);
    store_f32_part(out + i, turn(v, swap_neighbours(v), c, s), rest);
  }
}

void rotate_halves(const float* in, const float* cosine, const float* sine, int64_t rope_dim,
                   float* out) {
  const int64_t half = rope_dim / 2;
  for (int64_t i = 0; i < half; i += kLanes) {
    const int64_t n = half - i < kLanes ? half - i : kLanes;
    const auto part = [i, n](const float* from) {
      return n == kLanes ? load_f32(from + i) : load_f32_part(from + i, n);
    };
    const F32 first = part(in), second = part(in + half);
    const F32 new_first = turn(first, second, part(cosine), part(sine));
    const F32 new_second = turn(second, first, part(cosine + half), part(sine + half));
    store_f32_part(out + i, new_first, n);
    store_f32_part(out + half + i, new_second, n);
  }
}

void swiglu(const float* gate, const float* up, int64_t n, float* out) {
  transform(gate, up, n, out, [](F32 g, F32 u) { return g / (1.0f + exp(-g)) * u; });
}

void add(const float* a, const float* b, int64_t n, float* out) {
  transform(a, b, n, out, [](F32 x, F32 y) { return x + y; });
}

}  // namespace

const ElementwiseKernels elementwise_kernels = {rms_norm, rotate_interleaved, rotate_halves, swiglu,
                                                add};

}  // namespace greta::GRETA_ISA
