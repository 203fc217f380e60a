#pragma once

#include "kernels/attention_shape.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/simd/isa.h"

// Attention (kernels/attention_shape.h) on the host.

namespace greta {

// Both routes: q, out: f32 [n_tokens, n_heads, head_dim]; k, v: [cache_rows, n_kv_heads, head_dim],
// of one type; host. A cache in f16 has the results of one in f32 that holds the same values. Throw
// std::invalid_argument for a shape or trace that contradicts itself. A result depends on its
// query's position and the route, not on how queries are batched or threads share them. isa chooses
// the instruction set, which the processor must have; it changes the last bits.

/// Queries in tiles, keys in blocks, softmax kept up to date block by block: the route of prefill.
void attention_online(const AttentionShape& shape, const float* q, ConstKvRows k, ConstKvRows v,
                      float* out, const AttentionTrace& trace, ThreadPool& pool,
                      Isa isa = best_isa());

/// All scores of a query first, then its softmax, then the sum over V: the route of decode. The
/// order of operations depends on the query's position alone, so it is also the batch-invariant
/// route.
void attention_two_pass(const AttentionShape& shape, const float* q, ConstKvRows k, ConstKvRows v,
                        float* out, const AttentionTrace& trace, ThreadPool& pool,
                        Isa isa = best_isa());

}  // namespace greta
