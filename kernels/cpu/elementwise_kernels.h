#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"

// The loops of elementwise.cpp, per instruction set. All arrays f32, of any alignment; out may be
// an input. A value's bits do not depend on its place in the array.

namespace greta {

struct ElementwiseKernels {
  /// One row, [dim].
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t dim, float* out);

  /// One head, out[i] = in[i]·cosine[i] + in[partner of i]·sine[i], all [rope_dim], where sine is
  /// negative for the first of each pair. Pairs are (2i, 2i+1), or (i, i + rope_dim/2).
  void (*rotate_interleaved)(const float* in, const float* cosine, const float* sine,
                             int64_t rope_dim, float* out);
  void (*rotate_halves)(const float* in, const float* cosine, const float* sine, int64_t rope_dim,
                        float* out);

  void (*swiglu)(const float* gate, const float* up, int64_t n, float* out);
  void (*add)(const float* a, const float* b, int64_t n, float* out);
};

GRETA_DECLARE_KERNELS(ElementwiseKernels, elementwise_kernels)

}  // namespace greta
