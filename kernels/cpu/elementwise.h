#pragma once

#include <cstdint>

#include "kernels/cpu/thread_pool.h"
#include "kernels/matrix.h"
#include "kernels/rows.h"
#include "kernels/simd/isa.h"

// The small operations of a block. All arrays f32, row-major without gaps, host memory; a
// result depends on its own row only, never on how rows are batched or threads share them. isa
// chooses the instruction set, which the processor must have and which may change the last bits.

namespace greta {

/// out[t][k] = x[t][k] / sqrt(mean_k x² + eps) · weight[k]; the sum of squares in a fixed order.
/// x, out: [n_tokens, dim], may be equal; weight: [dim]. Throws std::invalid_argument for dim < 1.
/// (Zhang and Sennrich 2019.)
void rms_norm(const float* x, const float* weight, float eps, int64_t n_tokens, int64_t dim,
              float* out, ThreadPool& pool, Isa isa = best_isa());

/// tensor.rows += bias, then rms_norm of every head, each where there is one; in place.
void finish_heads(const HeadTensor& tensor, int64_t n_tokens, int64_t head_dim, float eps,
                  ThreadPool& pool, Isa isa = best_isa());

/// Rotates each head of token t by the angles (first_pos + t)·inv_freq[i] and multiplies what it
/// rotates with the magnitude (Su et al. 2021). Angles, sine and cosine in double, times the
/// magnitude, rounded once. Values beyond those that the planes have are copied. Throws
/// std::invalid_argument for more planes than a head has room for.
void rope(const RopeTensor& tensor, int64_t first_pos, const RopeTurn& turn, int64_t n_tokens,
          int64_t head_dim, ThreadPool& pool, Isa isa = best_isa());

/// out[i] = gate[i] / (1 + e^−gate[i]) · up[i]; n values, out may be either. (Shazeer 2020,
/// SwiGLU.)
void swiglu(const float* gate, const float* up, int64_t n, float* out, ThreadPool& pool,
            Isa isa = best_isa());

/// out[i] = a[i] + b[i]; out may be either.
void add(const float* a, const float* b, int64_t n, float* out, ThreadPool& pool,
         Isa isa = best_isa());

/// Rows of a table: out[t] = row ids[t] of table, expanded to f32. ids are in range: the caller
/// checks.
void embed(const Matrix& table, const int32_t* ids, int64_t n_tokens, float* out, ThreadPool& pool);

}  // namespace greta
