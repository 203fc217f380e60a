#pragma once

#include <cstdint>

#include "kernels/gpu/attention_softmax.h"
#include "kernels/gpu/attention_tile.h"

// The traces that a tile of queries leaves (kernels/gpu/attention_tile.h). Device code.

namespace greta::attention_mfma_detail {

/// Calls trace(to, has_next, group, tile, i) for keys of a traced query whose scores are values i
/// and i + 1 of the lane; the first one is in the trace, at `to`, the second one if has_next.
template <int kDim, bool kPlain>
template <class Trace>
__device__ void TileAttention<kDim, kPlain>::for_traced(float* array, int block,
                                                        Trace trace) const {
  if (array == nullptr) return;
  GRETA_UNROLL
  for (int group = 0; group < kGroups; ++group) {
    GRETA_UNROLL
    for (int i = 0; i < kValues; i += 2) {
      const int own_row = row(group, QueryTile::slot(i));
      const int64_t traced = first_token_ + own_row - call_.trace.first_query;
      if (own_row > last_row() || traced < 0) continue;
      float* const to = array + traced * call_.trace.stride;
      GRETA_UNROLL
      for (int tile = 0; tile < kBlockTiles; ++tile) {
        const int key = block * kBlockKeys + tile * 16 + QueryTile::key(i);
        if (key > position_ + own_row) continue;
        trace(to + key * call_.shape.n_heads + head_, key < position_ + own_row, group, tile, i);
      }
    }
  }
}

template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::trace_scores(int block, const Scores& scores) const {
  const float scale = fabsf(call_.shape.scale);
  const auto trace = [&](float* to, bool has_next, int group, int tile, int i) {
    to[0] = scores[group][tile].value[i] * scale;
    if (has_next) to[call_.shape.n_heads] = scores[group][tile].value[i + 1] * scale;
  };
  for_traced(call_.trace.scores, block, trace);
}

template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::trace_weights(int block, const Scores& weights) {
  GRETA_UNROLL
  for (int group = 0; group < kGroups; ++group) {
    GRETA_UNROLL
    for (int s = 0; s < kSlots; ++s) {
      const int n_visible = visible(row(group, s)), n_traced = position_ + row(group, s) + 1;
      if (block * kBlockKeys >= (n_visible < n_traced ? n_visible : n_traced)) continue;
      last_most_[group][s] = sums_[group].most(s);
    }
  }
  const auto trace = [&](float* to, bool has_next, int group, int tile, int i) {
    const auto& weight = weights[group][tile].value;
    trace_two_weights(to, call_.shape.n_heads, has_next, weight[i], weight[i + 1],
                      sums_[group].most(QueryTile::slot(i)));
  };
  for_traced(call_.trace.probs, block, trace);
}

/// By all threads of the block: a lane's own pairs would be few, and one after the other.
template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::finish_trace() const {
  GRETA_SHARED(Final, finals, [S::kQueries]);
  GRETA_UNROLL
  for (int group = 0; group < kGroups; ++group) {
    GRETA_UNROLL
    for (int s = 0; s < kSlots; ++s) {
      if (QueryTile::query_lane() != 0) continue;  // the others have the same
      const Softmax total = sums_[group].total(s);
      finals[row(group, s)] = {total.most, 1.0f / total.sum, last_most_[group][s]};
    }
  }
  __syncthreads();  // what others have stored is there, too
  for (int r = 0; r < tile_end(); ++r) {
    float* const trace = traced_block(call_.trace.probs, call_.trace, first_token_ + r);
    if (trace == nullptr) continue;
    finish_weights(exponents_, trace + head_, call_.shape.n_heads, position_ + r + 1, hidden(r),
                   visible(r), finals[r], kThreads);
  }
}

}  // namespace greta::attention_mfma_detail
