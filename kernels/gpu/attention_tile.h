#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/gpu/attention_device.h"
#include "kernels/gpu/attention_mfma_call.h"
#include "kernels/gpu/attention_softmax.h"
#include "kernels/gpu/attention_sums.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/query_tile.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// What a block of attention_mfma does: a tile of queries of one head against the keys that they see
// (kernels/gpu/attention_mfma.hip, which also has what is traced of it).
// Device code.
//
// Keys and values come to shared memory piece by piece, into two buffers in turn: while one is
// multiplied the other is filled.

namespace greta::attention_mfma_detail {

/// Begins to copy rows of kLength halves that follow each other to rows kStride apart.
template <int kRows, int kLength, int kStride>
__device__ inline void copy_rows(const uint16_t* from, uint16_t* to) {
  constexpr int kPieces = kLength / 8;
  constexpr int kRowsAtOnce = kThreads / kPieces;
  const auto thread = static_cast<int>(threadIdx.x);
  from += opaque(thread * 8);
  to += opaque(thread / kPieces * kStride + thread % kPieces * 8);
  GRETA_UNROLL
  for (int row = 0; row < kRows; row += kRowsAtOnce) {
    copy_async16(to + row * kStride, from + row * kLength);
  }
  commit_copies();
}

/// function(stage) for every stage, a constant. (A loop with so much in it hipcc does not unroll.)
template <int kCount, int kStage = 0, class Function>
__device__ inline void for_stages(Function function) {
  function(std::integral_constant<int, kStage>{});
  if constexpr (kStage + 1 < kCount) for_stages<kCount, kStage + 1>(function);
}

/// What a block does for a tile of queries, from first_token on, and a head, whose KV head is g:
/// outputs kOutDims·part on. A query's result is the same in a tile that is kPlain and in one that
/// is not. First load_queries(), then, when the cache is there, attend().
template <int kDim, bool kPlain>
class TileAttention {
 public:
  __device__ TileAttention(const Call& call, const HalfCache& cache, int head, int g, int part,
                           int first_token, uint16_t* shared)
      : call_(call),
        cache_(cache),
        exponents_(call.shape),
        head_(head),
        part_(opaque(part)),
        g_(g),
        first_token_(first_token) {
    position_ = *call.first_pos + first_token_;
    // Opaque, for what is the same in all lanes goes to scalar registers, of which AMD has too few.
    last_row_ = opaque(static_cast<int>(call.shape.n_tokens) - 1 - first_token_);
    const int last = tile_end() - 1;
    const bool traced = !kPlain && is_traced(last);
    first_block_ = opaque(traced ? 0 : hidden(0) / kBlockKeys);
    n_blocks_ = opaque(blocks_of(traced ? scored(last) : visible(last)));
    stages_ = shared;
    queries_ = S::kQueriesInRegisters ? shared : stages_ + 2 * S::kStageValues;
    place_tiles();
  }
  __device__ void load_queries() {
    if (call_.shape.head_dim % 4 == 0 && aligned16(call_.q)) {
      stage_queries<true>();
    } else {
      stage_queries<false>();
    }
    __syncthreads();
    if constexpr (S::kQueriesInRegisters) {
      GRETA_UNROLL
      for (int group = 0; group < kGroups; ++group) {
        GRETA_UNROLL
        for (int step = 0; step < kSteps; ++step) {
          held_[group][step] = QueryTile::load_queries(
              own_queries_ + group * 16 * S::kDimStride + step * 16, S::kDimStride);
        }
      }
      __syncthreads();  // keys and values come to the same place
    }
  }
  __device__ void attend() {
    GRETA_UNROLL
    for (int group = 0; group < kGroups; ++group) sums_[group].clear(exponents_);
    // Of the wavefront's queries the first one sees the first key, the last one the last.
    const int seen_by_all = visible(wave_row()), hidden_from_all = opaque(hidden(wave_row()));
    const int seen_by_any = wave_row() <= last_row() ? visible(wave_end() - 1) : 0;
    const int hidden_from_any = opaque(hidden(wave_end() - 1));
    const bool traced = !kPlain && wave_any(wave_row() <= last_row() && is_traced(wave_end() - 1));
    const int scored_by_any = traced ? scored(wave_end() - 1) : seen_by_any;
    // Below, pairs of conditions are one, by their signs: each by itself would be a mask of lanes.
    if (first_block_ < n_blocks_) request_keys(first_block_, 0);
    GRETA_NO_UNROLL
    for (int block = first_block_; block < n_blocks_; ++block) {
      const int first = block * kBlockKeys;
      const bool scores_wanted = wave_any(first < scored_by_any);
      const bool takes_part =
          wave_any(((first - seen_by_any) & (hidden_from_all - first - kBlockKeys)) < 0);
      place_tiles();
      Scores scores;
      for_stages<kStages>([&](auto stage) {
        wait_for_stage();
        if (stage + 1 < kStages) {
          request_keys(block, stage + 1);
        } else {
          request_values(block, 0);
        }
        if (scores_wanted) multiply_keys(stage, scores);
      });
      Weights weights;
      if (traced && scores_wanted) trace_scores(block, scores);
      if (takes_part) {
        GRETA_UNROLL
        for (int group = 0; group < kGroups; ++group) {
          if (((seen_by_all - first - kBlockKeys) | (first - hidden_from_any)) < 0) {
            QuerySums<kOutTiles>::mask(
                call_.shape, first, [&](int s) { return position_ + opaque(row(group, s)); },
                scores[group]);
          }
          sums_[group].softmax(exponents_, scores[group], weights[group]);
        }
        if (traced) trace_weights(block, scores);
      }
      Outputs out = {};
      for_stages<kStages>([&](auto stage) {
        wait_for_stage();
        if (stage + 1 < kStages) {
          request_values(block, stage + 1);
        } else if (block + 1 < n_blocks_) {
          request_keys(block + 1, 0);
        }
        const int first_of_stage = first + stage * kStageKeys;
        const bool some_see_more =
            ((seen_by_all - first_of_stage - kStageKeys) | (first_of_stage - hidden_from_any)) < 0;
        if (takes_part && !kPlain && some_see_more && cache_.nonfinite[piece(block, stage)] != 0) {
          multiply_nonfinite_values(stage, weights, first_of_stage, out);
        } else if (takes_part) {
          multiply_values(stage, weights, out);
        }
      });
      GRETA_UNROLL
      for (int group = 0; group < kGroups; ++group) {
        if (takes_part) sums_[group].fold(exponents_, out[group]);
      }
    }
    GRETA_UNROLL
    for (int group = 0; group < kGroups; ++group) {
      sums_[group].store(call_, head_, part_ * S::kOutDims,
                         [&](int s) { return int64_t{first_token_} + row(group, s); });
    }
    if (!kPlain && call_.trace.probs != nullptr && is_traced(tile_end() - 1)) finish_trace();
  }

 private:
  using S = Sizes<kDim, kPlain>;
  static constexpr int kGroups = S::kGroups, kStages = S::kStages, kStageKeys = S::kStageKeys;
  static constexpr int kSteps = kDim / 16;  // products of 16 dimensions
  static constexpr int kOutTiles = S::kOutDims / 16;
  static constexpr int kStageTiles = kStageKeys / 16, kBlockTiles = kBlockKeys / 16;
  static constexpr int kSlots = QueryTile::kSlots, kValues = QueryTile::kValues;
  static constexpr int kHeld = S::kQueriesInRegisters ? kSteps : 1;

  using Scores = BlockScores[kGroups];
  using Weights = BlockWeights[kGroups];
  using Outputs = QueryTile::Sum[kGroups][kOutTiles];

  __device__ void place_tiles() {
    own_keys_ = stages_ + opaque(QueryTile::place(S::kDimStride));
    own_values_ = stages_ + opaque(QueryTile::place(S::kKeyStride));
    own_queries_ =
        queries_ + opaque(wave_row() * S::kDimStride + QueryTile::place_of_queries(S::kDimStride));
  }
  template <bool kVectors>
  __device__ void stage_queries() {
    constexpr int kFours = kDim / 4, kEach = S::kQueries * kFours / kThreads;
    constexpr int kAtOnce = kEach < 8 ? kEach : 8;
    static_assert(S::kQueries * kFours % (kAtOnce * kThreads) == 0);
    const auto head_dim = static_cast<int>(call_.shape.head_dim);
    const HeadColumns columns{0, 1, head_dim};
    for (int first = 0; first < S::kQueries * kFours; first += kAtOnce * kThreads) {
      Floats4 fours[kAtOnce];
      GRETA_UNROLL
      for (int pass = 0; pass < kAtOnce; ++pass) {
        const int i = first + pass * kThreads + static_cast<int>(threadIdx.x);
        const int row = i / kFours <= last_row() ? i / kFours : last_row();
        const int64_t token = first_token_ + row;
        const float* from = call_.q + (token * call_.shape.n_heads + head_) * head_dim;
        fours[pass] = load_values<kVectors>(from, columns, i % kFours * 4,
                                            i / kFours <= last_row() ? head_dim : 0, head_dim);
      }
      GRETA_UNROLL
      for (int pass = 0; pass < kAtOnce; ++pass) {
        const int i = first + pass * kThreads + static_cast<int>(threadIdx.x);
        const QueryFour q = query_four(call_.shape, fours[pass]);
        QueryTile::store_four(queries_ + i / kFours * S::kDimStride, i % kFours * 4, q.low, q.high);
      }
    }
  }
  __device__ void request_keys(int block, int stage) const {
    copy_rows<kStageKeys, kDim, S::kDimStride>(
        cache_.keys + piece(block, stage) * (kStageKeys * kDim),
        stages_ + buffer_of_keys(stage) * S::kStageValues);
  }
  __device__ void request_values(int block, int stage) const {
    const int64_t first = (piece(block, stage) * kDim + part_ * S::kOutDims) * kStageKeys;
    copy_rows<S::kOutDims, kStageKeys, S::kKeyStride>(
        cache_.values + first, stages_ + buffer_of_values(stage) * S::kStageValues);
  }
  /// What was requested last is there; what was there before is no longer needed by anyone.
  __device__ void wait_for_stage() const {
    wait_for_copies<0>();
    __syncthreads();
  }
  __device__ QueryTile::Operand query_operand(int group, int step) const {
    if constexpr (S::kQueriesInRegisters) {
      return held_[group][step];
    } else {
      return QueryTile::load_queries(own_queries_ + group * 16 * S::kDimStride + step * 16,
                                     S::kDimStride);
    }
  }
  __device__ QueryTile::Operand value_operand(int stage, int tile, int step) const {
    return QueryTile::load(own_values_ + buffer_of_values(stage) * S::kStageValues +
                               tile * 16 * S::kKeyStride + step * 16,
                           S::kKeyStride);
  }
  __device__ void multiply_keys(int stage, Scores& scores) const {
    const uint16_t* const keys = own_keys_ + buffer_of_keys(stage) * S::kStageValues;
    GRETA_UNROLL
    for (int group = 0; group < kGroups; ++group) {
      GRETA_UNROLL
      for (int tile = 0; tile < kStageTiles; ++tile) scores[group][stage * kStageTiles + tile] = {};
    }
    GRETA_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      QueryTile::Operand q[kGroups];
      GRETA_UNROLL
      for (int group = 0; group < kGroups; ++group) q[group] = query_operand(group, step);
      GRETA_UNROLL
      for (int tile = 0; tile < kStageTiles; ++tile) {
        const auto k = QueryTile::load(keys + tile * 16 * S::kDimStride + step * 16, S::kDimStride);
        GRETA_UNROLL
        for (int group = 0; group < kGroups; ++group) {
          QueryTile::multiply_add(q[group], k, scores[group][stage * kStageTiles + tile]);
        }
      }
    }
  }
  __device__ void multiply_values(int stage, const Weights& weights, Outputs& out) const {
    GRETA_UNROLL
    for (int step = 0; step < kStageTiles; ++step) {
      GRETA_UNROLL
      for (int tile = 0; tile < kOutTiles; ++tile) {
        const auto v = value_operand(stage, tile, step);
        GRETA_UNROLL
        for (int group = 0; group < kGroups; ++group) {
          QueryTile::multiply_add(weights[group][stage * kStageTiles + step], v, out[group][tile]);
        }
      }
    }
  }
  /// With a value that is not finite, a key that a query does not see must not even be multiplied
  /// with 0: every query has a product of its own, of values that it sees.
  __device__ void multiply_nonfinite_values(int stage, const Weights& weights, int first,
                                            Outputs& out) const {
    GRETA_UNROLL
    for (int group = 0; group < kGroups; ++group) {
      GRETA_UNROLL
      for (int step = 0; step < kStageTiles; ++step) {
        GRETA_NO_UNROLL
        for (int query = 0; query < 16; ++query) {
          const int own_row = wave_row() + group * 16 + query, start = first + step * 16;
          const int from = hidden(own_row) - start, end = visible(own_row) - start;
          GRETA_UNROLL
          for (int tile = 0; tile < kOutTiles; ++tile) {
            QueryTile::Sum sum = out[group][tile];
            QueryTile::multiply_add(weights[group][stage * kStageTiles + step],
                                    QueryTile::between(value_operand(stage, tile, step), from, end),
                                    sum);
            GRETA_UNROLL
            for (int i = 0; i < kValues; ++i) {
              const bool own = QueryTile::query(QueryTile::slot(i)) == query;
              out[group][tile].value[i] = own ? sum.value[i] : out[group][tile].value[i];
            }
          }
        }
      }
    }
  }
  // kernels/gpu/attention_mfma.hip:
  template <class Trace>
  __device__ void for_traced(float* array, int block, Trace trace) const;
  __device__ void trace_scores(int block, const Scores& scores) const;
  __device__ void trace_weights(int block, const Scores& weights);
  __device__ void finish_trace() const;

  __device__ static constexpr int buffer_of_keys(int stage) { return stage % 2; }
  __device__ static constexpr int buffer_of_values(int stage) { return (kStages + stage) % 2; }
  __device__ int64_t piece(int block, int stage) const {
    return int64_t{g_} * cache_.n_pieces + block * kStages + stage;
  }

  // Rows of the tile: the lane's, the wavefront's and the last that there is.
  __device__ int row(int group, int slot) const {
    return wave_row() + group * 16 + QueryTile::query(slot);
  }
  __device__ int wave_row() const { return wave_id() * S::kWaveQueries; }
  __device__ int wave_end() const {
    const int end = wave_row() + S::kWaveQueries;
    return end <= last_row() ? end : last_row() + 1;
  }
  __device__ int tile_end() const {
    return S::kQueries <= last_row() ? S::kQueries : last_row() + 1;
  }
  __device__ int last_row() const { return last_row_; }
  /// Keys that a row sees: from the one on, before the other.
  __device__ int hidden(int row) const { return hidden_keys(call_.shape, position_ + row); }
  __device__ int visible(int row) const { return visible_keys(call_.shape, position_ + row); }

  /// Keys whose scores are wanted for it.
  __device__ int scored(int row) const { return scored_keys(call_.shape, position_ + row); }

  /// True if some row up to this one is traced.
  __device__ bool is_traced(int row) const {
    return part_ == 0 && greta::is_traced(call_.trace, first_token_ + row);
  }

  const Call& call_;
  const HalfCache& cache_;
  Exponents exponents_;
  int head_, part_, g_;
  int first_token_, position_;  // of row 0
  int last_row_;                // that there is, of this tile or a later one
  int first_block_, n_blocks_;  // of keys that some query of the tile sees, or that its trace has
  uint16_t *own_keys_, *own_values_, *own_queries_;
  uint16_t* stages_;
  uint16_t* queries_;
  QueryTile::Operand held_[kGroups][kHeld];
  QuerySums<kOutTiles> sums_[kGroups];
  float last_most_[kGroups][kSlots];  // of traced tiles: that the last block's weights refer to
};

}  // namespace greta::attention_mfma_detail
