#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/attention_shape.h"
#include "kernels/gpu/device.h"

// Attention (kernels/attention_shape.h) on the GPU. q, out: f32 [n_tokens, n_heads, head_dim]; k,
// v: [cache_rows, n_kv_heads, head_dim], of one type; device memory. A cache in f16 has the results
// of one in f32 that holds the same values. Work is queued, nothing is allocated.
// head_dim is at most 256. Throws std::invalid_argument for a shape that contradicts itself.
//
// The position is read from device memory, *first_pos in place of shape.first_pos, so that a
// recorded graph serves every token; the grid and the scratch are sized for max_keys, which must be
// at least *first_pos + n_tokens + mask_shift. With one token the traced block is at offset 0,
// whatever the stride.

namespace greta {

/// attention_valu, and attention_mfma of one token, read *first_pos, and the rows of the cache
/// before *first_pos − kFreshRows, while the kernels launched early before them
/// (LaunchShape::early) may still run: they must not write those. What they write from that row on
/// is waited for, as is q. finish_attention_valu reads *first_pos in the same way.
inline constexpr int kFreshRows = 64;

/// Words of counters at the beginning of a scratch. They are zero before the first call that uses
/// it, and left zero; the rest need not be kept.
inline constexpr int kAttentionCounters = 1024;

/// Scratch that a call needs, in bytes; grows with max_keys and, for attention_valu, with n_tokens
/// up to a bound beyond which the launcher takes the tokens in turn. It is 256-byte aligned.
size_t attention_valu_scratch(const AttentionShape& shape, int64_t max_keys);
size_t attention_mfma_scratch(const AttentionShape& shape, int64_t max_keys);

/// f32 on vector units, keys split over blocks at fixed places and combined in order: a result
/// depends on its query's position alone, not on the batch and not on max_keys. The route of
/// decode.
void attention_valu(const AttentionShape& shape, const int32_t* first_pos, int64_t max_keys,
                    const float* q, ConstKvRows k, ConstKvRows v, float* out,
                    const AttentionTrace& trace, void* scratch, Stream& stream);

/// attention_valu, of one token only, whose traced probabilities are left unfinished, so that no
/// launch of its own is in the way of what follows: finish_attention_valu comes later. Until then
/// nobody else may use scratch.
void attention_valu_unfinished(const AttentionShape& shape, const int32_t* first_pos,
                               int64_t max_keys, const float* q, ConstKvRows k, ConstKvRows v,
                               float* out, const AttentionTrace& trace, void* scratch,
                               Stream& stream);

/// What a call of attention_valu_unfinished left: the probabilities, and in its scratch what they
/// are relative to.
struct UnfinishedTrace {
  float* probs = nullptr;  ///< nullptr: none were wanted
  const void* scratch = nullptr;
};

/// Finishes, once each, the probabilities of calls that had shape, *first_pos, max_keys, and the
/// trace's first_query and stride in common, many by one launch. Bits are those of attention_valu.
void finish_attention_valu(const AttentionShape& shape, const int32_t* first_pos, int64_t max_keys,
                           const AttentionTrace& trace, std::span<const UnfinishedTrace> calls,
                           Stream& stream);

/// f16 operands on matrix cores, f32 scores, softmax and accumulation: keys in blocks and splits at
/// fixed places, splits combined in order, whether by a tile of many queries or, of one query, by
/// many blocks. The route of prefill, and of both phases where their bits must be the same: a
/// result depends on its query's position alone, not on the batch and not on max_keys. The
/// probabilities traced are the f16 weights with which V was summed, relative to the maximum of
/// then, each times its share of the final sum.
void attention_mfma(const AttentionShape& shape, const int32_t* first_pos, int64_t max_keys,
                    const float* q, ConstKvRows k, ConstKvRows v, float* out,
                    const AttentionTrace& trace, void* scratch, Stream& stream);

}  // namespace greta
