#pragma once

#include <cstdint>

#include "kernels/gpu/attention_tile.h"

// The traces that a tile of queries leaves (kernels/gpu/attention_tile.h). Of two neighbouring keys
// the first weight is stored with the lower half of the maximum that it is relative to, the second
// one with the upper half: a weight is an f16. When the last maximum and the sum are known, what
// they amount to is put in place. Device code.

namespace greta::attention_mfma_detail {

/// Calls trace(to, key, group, tile, i) for keys key and key + 1 of a traced query, whose scores
/// are values i and i + 1 of the lane; the first one is in the trace, at `to`.
template <int kDim, bool kPlain>
template <class Trace>
__device__ void TileAttention<kDim, kPlain>::for_traced(float* array, int block,
                                                        Trace trace) const {
  GRETA_UNROLL
  for (int group = 0; group < kGroups; ++group) {
    GRETA_UNROLL
    for (int i = 0; i < kValues; i += 2) {
      const int own_row = row(group, QueryTile::slot(i));
      float* to = traced_block(array, call_.trace, first_token_ + own_row);
      if (own_row > last_row() || to == nullptr) continue;
      GRETA_UNROLL
      for (int tile = 0; tile < kKeyTiles; ++tile) {
        const int key = block * kKeys + tile * 16 + QueryTile::key(i);
        if (key > position_ + own_row) continue;
        trace(to + key * call_.shape.n_heads + head_, key, group, tile, i);
      }
    }
  }
}

template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::trace_scores(int block, const Scores& scores) const {
  const float scale = fabsf(call_.shape.scale);
  const auto trace = [&](float* to, int key, int group, int tile, int i) {
    to[0] = scores[group][tile].value[i] * scale;
    if (key == position_ + row(group, QueryTile::slot(i))) return;
    to[call_.shape.n_heads] = scores[group][tile].value[i + 1] * scale;
  };
  for_traced(call_.trace.scores, block, trace);
}

template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::trace_weights(int block, const Scores& weights) const {
  const auto trace = [&](float* to, int key, int group, int tile, int i) {
    const int s = QueryTile::slot(i);
    const auto& weight = weights[group][tile].value;
    const auto most = bits_as<uint32_t>(state_.most[group][s]);
    to[0] = bits_as<float>(f16_bits(weight[i]) | most << 16);
    if (key == position_ + row(group, s)) return;
    to[call_.shape.n_heads] = bits_as<float>(f16_bits(weight[i + 1]) | (most & 0xffff0000u));
  };
  for_traced(call_.trace.probs, block, trace);
}

/// By all threads of the block: a lane's own pairs would be few, and one after the other.
template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::finish_trace() const {
  struct alignas(8) Final {
    float most, share;
  };
  GRETA_SHARED(Final, finals, [S::kQueries]);
  GRETA_UNROLL
  for (int group = 0; group < kGroups; ++group) {
    GRETA_UNROLL
    for (int s = 0; s < kSlots; ++s) {
      // Lanes that hold values of the same queries have the same.
      finals[row(group, s)] = {state_.most[group][s], 1.0f / state_.sum[group][s]};
    }
  }
  __syncthreads();  // what others have stored is there, too
  for (int r = 0; r < tile_end(); ++r) {
    float* const trace = traced_block(call_.trace.probs, call_.trace, first_token_ + r);
    if (trace == nullptr) continue;
    const int n_keys = position_ + r + 1, n_visible = visible(r);
    const Final last = finals[r];
    for (int key = 2 * static_cast<int>(threadIdx.x); key < n_keys; key += 2 * kThreads) {
      const bool has_next = key + 1 < n_keys;
      float* const to = trace + key * call_.shape.n_heads + head_;
      float* const next = to + (has_next ? call_.shape.n_heads : 0);
      const auto first_bits = bits_as<uint32_t>(*to), next_bits = bits_as<uint32_t>(*next);
      // Without a second key it was the query's last block.
      const float most =
          has_next ? bits_as<float>(first_bits >> 16 | (next_bits & 0xffff0000u)) : last.most;
      const float share = factor(most, last.most) * last.share;
      const auto prob = [&](int k, uint32_t bits) {
        return k < n_visible ? f16_value(static_cast<uint16_t>(bits)) * share : 0.0f;
      };
      *to = prob(key, first_bits);
      if (has_next) *next = prob(key + 1, next_bits);
    }
  }
}

}  // namespace greta::attention_mfma_detail
