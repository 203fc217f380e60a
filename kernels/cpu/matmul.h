#pragma once

#include <cstdint>

#include "kernels/cpu/thread_pool.h"
#include "kernels/matrix.h"
#include "kernels/simd/isa.h"

// Products of a weight matrix with activations: out[t][r] = Σ_k w[r][k]·x[t][k].
//
// x: f32 [n_tokens, w.cols], out: f32 [n_tokens, w.rows], both row-major without gaps, host memory;
// out overlaps neither x nor the weights, which may lie at any address. Weights of every type are
// expanded to f32 in registers or cache; products and sums are f32. No result depends on the number
// of threads. Nothing is allocated per call beyond scratch that each thread keeps. All throw
// std::invalid_argument when w.cols is no whole number of blocks.

namespace greta {

/// One dot product per output. The order of summation depends on w.cols and w.type alone, so a
/// token's result has the same bits in any batch: the route of decode and of batch-invariant runs.
/// Instruction sets, of which the processor must have `isa`, differ in vector width and so in the
/// last bits.
void matmul_dot(const Matrix& w, const float* x, int64_t n_tokens, float* out, ThreadPool& pool,
                Isa isa = best_isa());

/// Blocked product over tiles of rows and tokens, with weights expanded once per tile. Another
/// order of summation than matmul_dot, and faster from a few tokens on: the route of prefill.
void matmul_gemm(const Matrix& w, const float* x, int64_t n_tokens, float* out, ThreadPool& pool,
                 Isa isa = best_isa());

/// As matmul_dot, but the running sum is rounded to fp16 after every block of `step` ≥ 1 products:
/// what a kernel with a half-precision accumulator computes. Slow; for fault injection only.
void matmul_fp16_accumulate(const Matrix& w, const float* x, int64_t n_tokens, int64_t step,
                            float* out, ThreadPool& pool);

}  // namespace greta
