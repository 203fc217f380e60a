#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/gpu/attention.h"
#include "kernels/gpu/attention_device.h"
#include "kernels/gpu/attention_mfma_call.h"
#include "kernels/gpu/attention_softmax.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/query_tile.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// What a block of threads does for one token: some query heads against a block of keys
// (kernels/gpu/attention_mfma_token.hip, which also folds what all blocks leave). Device code.

namespace greta::attention_mfma_detail {

inline constexpr int kTokenThreads = 256;
inline constexpr int kTokenWaves = kTokenThreads / kMatrixLanes;
inline constexpr int kFoldedAtOnce = 16;  // blocks of keys
inline constexpr int kKeyTiles = kBlockKeys / 16;

/// kDim: head_dim, padded; it is taken in pieces for which there are registers. kRegular: heads
/// fill their padding, follow each other in the cache, and begin where 16-byte loads may; few of
/// them share a KV head.
template <int kDim, bool kRegular>
struct TokenSizes {
  // Rows of a tile that are used: where a lane has some of two queries, of the first alone.
  static constexpr int kSlots = kRegular ? 1 : QueryTile::kSlots;
  static constexpr int kHeads = 16 / QueryTile::kSlots * kSlots;
  static constexpr int kPieceDims = std::min(kDim, 128), kPieces = kDim / kPieceDims;
  static constexpr int kSteps = kPieceDims / 16;
  static constexpr int kOwnKeyTiles = kKeyTiles / kTokenWaves;
  static constexpr int kDimWaves = std::min(kTokenWaves, kPieceDims / 16);  // that have dimensions
  static constexpr int kOwnDimTiles = kPieceDims / 16 / kDimWaves;
  static constexpr int kPartial = kDim + 4;  // of a head and block: sums, then their Softmax
};

struct TokenCall {
  Call call;
  int group;           // query heads of a KV head
  uint32_t* counters;  // [gridDim.x, gridDim.z]: KV heads, batches of their query heads
  float* partials;     // [n_heads, n_partials, kPartial]
  int n_partials;      // gridDim.y, and room to load kFoldedAtOnce from any of them on
};

/// Asks for what will soon be read.
__device__ inline void prefetch([[maybe_unused]] const void* address) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

template <class Stored, int kDim, bool kRegular>
class TokenAttention {
 public:
  __device__ explicit TokenAttention(const TokenCall& token)
      : token_(token), exponents_(token.call.shape) {
    const AttentionShape& shape = token.call.shape;
    position_ = *token.call.first_pos;
    g_ = static_cast<int>(blockIdx.x);
    const int first = static_cast<int>(blockIdx.z) * kHeads,
              n_kv_heads = static_cast<int>(gridDim.x);
    head_ = shape.modulo_heads ? g_ + first * n_kv_heads : g_ * token.group + first;
    head_step_ = shape.modulo_heads ? n_kv_heads : 1;
    n_heads_ = token.group - first < kHeads ? token.group - first : kHeads;
    head_dim_ = kRegular ? kDim : static_cast<int>(shape.head_dim);
    row_values_ = n_kv_heads * head_dim_;
    n_hidden_ = hidden_keys(shape, position_);
    n_visible_ = visible_keys(shape, position_);
    n_scored_ = scored_keys(shape, position_);
    first_ = static_cast<int>(blockIdx.y) * kBlockKeys;
    if constexpr (!kRegular) {
      key_columns_ = key_columns(shape, g_);
      value_columns_ = value_columns(shape, g_);
    }
  }
  /// True if some of its keys are seen, or scored for a trace.
  __device__ bool has_keys() const {
    return first_ < n_scored_ && (takes_part() || is_traced(token_.call.trace, 0));
  }
  /// True if some of its keys are not hidden by the window.
  __device__ bool takes_part() const { return first_ + kBlockKeys > n_hidden_; }
  /// True if all of its keys have been in the cache for long.
  __device__ bool is_old() const { return first_ + kBlockKeys <= position_ - kFreshRows; }
  __device__ void load_first() {
    load_keys(0);
    prefetch_values();
  }
  __device__ void stage_queries() {
    constexpr int kFours = kDim / 4;
    GRETA_NO_UNROLL
    for (int i = static_cast<int>(threadIdx.x); i < n_heads_ * kFours; i += kTokenThreads) {
      const int row = i / kFours, d = i % kFours * 4;
      const float* from = token_.call.q + int64_t{head(row)} * head_dim_;
      const Floats4 q =
          greta::load_values<kRegular>(from, HeadColumns{0, 1, head_dim_}, d, head_dim_, head_dim_);
      const QueryFour four = query_four(token_.call.shape, q);
      QueryTile::store_four(shared().queries + row * kDimStride, d, four.low, four.high);
    }
    __syncthreads();
  }
  __device__ void attend() {
    const int64_t n_heads = token_.call.shape.n_heads;
    Scores scores = {};
    multiply_keys(scores);
    if (takes_part()) load_values(0);
    for_traced(token_.call.trace.scores, [&](float* to, bool has_next, int tile, int i) {
      const float scale = fabsf(token_.call.shape.scale);
      to[0] = scores[tile].value[i] * scale;
      if (has_next) to[n_heads] = scores[tile].value[i + 1] * scale;
    });
    if (!takes_part()) return;
    mask(scores);
    softmax(scores);
    for_traced(token_.call.trace.probs, [&](float* to, bool has_next, int tile, int i) {
      trace_two_weights(to, n_heads, has_next, scores[tile].value[i], scores[tile].value[i + 1],
                        most_[QueryTile::slot(i)]);
    });
    leave_softmax();
    if (wave_id() >= S::kDimWaves) return;
    const uint16_t* const weights = shared().weights + QueryTile::place_of_queries(kKeyStride);
    GRETA_NO_UNROLL
    for (int piece = 0; piece < S::kPieces; ++piece) {
      if (piece > 0) load_values(piece);
      Outputs out = {};
      GRETA_UNROLL
      for (int step = 0; step < kKeyTiles; ++step) {
        const auto w = QueryTile::load_queries(weights + step * 16, kKeyStride);
        GRETA_UNROLL
        for (int tile = 0; tile < S::kOwnDimTiles; ++tile) {
          QueryTile::multiply_add(w, QueryTile::of_values(values_[step], tile), out[tile]);
        }
      }
      leave_outputs(piece, out);
    }
  }
  // kernels/gpu/attention_mfma_token.hip:
  __device__ bool is_last() const {
    return is_last_block(token_.counters + blockIdx.z * gridDim.x + blockIdx.x,
                         blocks_of(n_scored_) - n_hidden_ / kBlockKeys);
  }
  __device__ void combine();

 private:
  using S = TokenSizes<kDim, kRegular>;
  static constexpr int kSlots = S::kSlots, kHeads = S::kHeads, kValues = QueryTile::kValues;
  static constexpr int kDimStride = kDim + kSharedRowPad, kKeyStride = kBlockKeys + kSharedRowPad;
  using Scores = QueryTile::Sum[S::kOwnKeyTiles];
  using Outputs = QueryTile::Sum[S::kOwnDimTiles];

  struct alignas(sizeof(Stored) * QueryTile::kValueRun * S::kOwnDimTiles) Run {
    Stored value[QueryTile::kValueRun * S::kOwnDimTiles];
  };

  struct alignas(16) Shared {
    uint16_t queries[16 * kDimStride];  // what no head has stays as it is, and nothing comes of it
    uint16_t weights[16 * kKeyStride];
    float maxima[kKeyTiles][kHeads];
    float sums[kKeyTiles][kHeads][QueryTile::kQueryLanes];  // of each lane's own weights
  };
  __device__ static Shared& shared() {
    GRETA_SHARED(Shared, memory);
    return memory;
  }

  /// Values of a row of the cache from key `first_` on, of the own KV head. kInside: the cache has
  /// the whole block; else the row is at most `last`.
  template <class Values, bool kInside>
  __device__ Values of_row(const void* cache, const HeadColumns& columns, int row, int d,
                           int last) const {
    if constexpr (!kInside) row = first_ + row < last ? row : last - first_;
    const Stored* const block = static_cast<const Stored*>(cache) + int64_t{first_} * row_values_;
    if constexpr (kRegular) {
      return load_as<Values>(block + g_ * kDim + static_cast<uint32_t>(row * row_values_ + d));
    }
    Values values;
    const int last_dim = head_dim_ - 1;
    GRETA_UNROLL
    for (int i = 0; i < static_cast<int>(sizeof(Values) / sizeof(Stored)); ++i) {
      const int column = columns.column(d + i < last_dim ? d + i : last_dim);
      values.value[i] =
          masked(block[int64_t{row} * row_values_ + column], mask_below(d + i, head_dim_));
    }
    return values;
  }
  __device__ bool is_inside() const {
    return kRegular && first_ + kBlockKeys <= static_cast<int>(token_.call.shape.cache_rows);
  }
  static constexpr bool uses(int i) { return QueryTile::slot(i) < kSlots; }
  /// Rows that are not scored may be anything; what they give is masked.
  template <bool kInside>
  __device__ void load_keys_of(int piece) {
    // Which dimensions there are is not prepared ahead of the loop over pieces, in registers of its
    // own.
    const int own = piece * S::kPieceDims + QueryTile::key_dim(),
              first = kRegular ? own : opaque(own);
    GRETA_UNROLL
    for (int tile = 0; tile < S::kOwnKeyTiles; ++tile) {
      GRETA_UNROLL
      for (int i = 0; i < QueryTile::kKeyRows; ++i) {
        const int row = key_tile(tile) * 16 + QueryTile::key_row(i);
        GRETA_UNROLL
        for (int step = 0; step < S::kSteps; ++step) {
          const int d = first + step * 16;
          keys_[tile][step][i] =
              of_row<Four<Stored>, kInside>(token_.call.k, key_columns_, row, d, n_scored_ - 1);
        }
      }
    }
  }
  __device__ void load_keys(int piece) {
    is_inside() ? load_keys_of<kRegular>(piece) : load_keys_of<false>(piece);
  }
  /// They are wanted when the keys' registers are free.
  __device__ void prefetch_values() const {
    if constexpr (!kRegular) return;
    constexpr int kLine = 128 / sizeof(Stored), kRowLines = kDim / kLine;  // values
    const Stored* const from = static_cast<const Stored*>(token_.call.v) + g_ * kDim;
    for (int i = static_cast<int>(threadIdx.x); i < kBlockKeys * kRowLines; i += kTokenThreads) {
      const int key = first_ + i / kRowLines;
      if (key < n_visible_) prefetch(from + int64_t{key} * row_values_ + i % kRowLines * kLine);
    }
  }
  template <bool kInside>
  __device__ void load_values_of(int piece) {
    const int d = first_dim(piece) + QueryTile::value_dim(S::kOwnDimTiles);
    const int last = n_visible_ > 0 ? n_visible_ - 1 : 0;
    GRETA_UNROLL
    for (int tile = 0; tile < kKeyTiles; ++tile) {
      GRETA_UNROLL
      for (int i = 0; i < QueryTile::kValueKeys; ++i) {
        values_[tile][i] = of_row<Run, kInside>(token_.call.v, value_columns_,
                                                tile * 16 + QueryTile::value_key(i), d, last);
      }
    }
  }
  /// What a query does not see may be anything, and must not be multiplied even with 0.
  __device__ void load_values(int piece) {
    if (wave_id() >= S::kDimWaves) return;
    is_inside() ? load_values_of<kRegular>(piece) : load_values_of<false>(piece);
    if (sees_all()) return;
    GRETA_UNROLL
    for (int tile = 0; tile < kKeyTiles; ++tile) {
      GRETA_UNROLL
      for (int i = 0; i < QueryTile::kValueKeys; ++i) {
        const int key = first_ + tile * 16 + QueryTile::value_key(i);
        const int seen = mask_below(key, n_visible_) & ~mask_below(key, n_hidden_);
        GRETA_UNROLL
        for (Stored& value : values_[tile][i].value) value = masked(value, seen);
      }
    }
  }
  /// Scores of the wavefront's keys.
  __device__ void multiply_keys(Scores& scores) {
    const uint16_t* const queries = shared().queries + QueryTile::place_of_queries(kDimStride);
    GRETA_NO_UNROLL
    for (int piece = 0; piece < S::kPieces; ++piece) {
      if (piece > 0) load_keys(piece);
      GRETA_UNROLL
      for (int step = 0; step < S::kSteps; ++step) {
        const auto q =
            QueryTile::load_queries(queries + piece * S::kPieceDims + step * 16, kDimStride);
        GRETA_UNROLL
        for (int tile = 0; tile < S::kOwnKeyTiles; ++tile) {
          QueryTile::multiply_add(q, QueryTile::of_keys(keys_[tile][step]), scores[tile]);
        }
      }
    }
  }
  __device__ void mask(Scores& scores) const {
    if (sees_all()) return;
    GRETA_UNROLL
    for (int tile = 0; tile < S::kOwnKeyTiles; ++tile) {
      GRETA_UNROLL
      for (int i = 0; i < kValues; ++i) {
        const bool seen = sees(key_tile(tile) * 16 + QueryTile::key(i));
        scores[tile].value[i] = seen ? scores[tile].value[i] : -INFINITY;
      }
    }
  }
  /// Scores to weights, which lie in shared memory for all as well, as do the parts of their sums.
  __device__ void softmax(Scores& scores) {
    GRETA_UNROLL
    for (int tile = 0; tile < S::kOwnKeyTiles; ++tile) {
      float most[kSlots];
      GRETA_UNROLL
      for (int s = 0; s < kSlots; ++s) most[s] = exponents_.none().most;
      GRETA_UNROLL
      for (int i = 0; i < kValues; ++i) {
        if (!uses(i)) continue;
        float& here = most[QueryTile::slot(i)];
        here = fmaxf(here, scores[tile].value[i]);
      }
      GRETA_UNROLL
      for (int s = 0; s < kSlots; ++s) {
        most[s] = QueryTile::reduce(most[s], Max{});
        if (QueryTile::query_lane() == 0)
          shared().maxima[key_tile(tile)][QueryTile::query(s)] = most[s];
      }
    }
    __syncthreads();
    float shifts[kSlots];
    GRETA_UNROLL
    for (int s = 0; s < kSlots; ++s) {
      most_[s] = shared().maxima[0][QueryTile::query(s)];
      GRETA_UNROLL
      for (int tile = 1; tile < kKeyTiles; ++tile) {
        most_[s] = fmaxf(most_[s], shared().maxima[tile][QueryTile::query(s)]);
      }
      shifts[s] = exponents_.shift_of(most_[s]);
    }
    GRETA_UNROLL
    for (int tile = 0; tile < S::kOwnKeyTiles; ++tile) {
      QueryTile::Sum& here = scores[tile];
      GRETA_UNROLL
      for (int i = 0; i < kValues; ++i) {
        if (!uses(i)) continue;
        here.value[i] = exponents_.weight(here.value[i], shifts[QueryTile::slot(i)]);
      }
      GRETA_UNROLL
      for (int i = 0; i < kValues; i += 2) {
        if (!uses(i)) continue;
        const int row = QueryTile::query(QueryTile::slot(i));
        store_as(shared().weights + row * kKeyStride + key_tile(tile) * 16 + QueryTile::key(i),
                 half_pair<HalfType::kF16>(here.value[i], here.value[i + 1]));
      }
      GRETA_UNROLL
      for (int s = 0; s < kSlots; ++s) {
        shared().sums[key_tile(tile)][QueryTile::query(s)][QueryTile::query_lane()] =
            QueryTile::own_sum(here, s);
      }
    }
    __syncthreads();
  }
  /// Calls trace(to, has_next, tile, i) for keys of a head whose scores are values i and i + 1 of
  /// the lane; the first one is in the trace, at `to`, the second one if has_next.
  template <class Trace>
  __device__ void for_traced(float* array, Trace trace) const {
    float* const to = traced_block(array, token_.call.trace, 0);
    if (to == nullptr) return;
    GRETA_UNROLL
    for (int i = 0; i < kValues; i += 2) {
      const int row = QueryTile::query(QueryTile::slot(i));
      if (!uses(i) || row >= n_heads_) continue;
      GRETA_UNROLL
      for (int tile = 0; tile < S::kOwnKeyTiles; ++tile) {
        const int key = first_ + key_tile(tile) * 16 + QueryTile::key(i);
        if (key > position_) continue;
        trace(to + key * token_.call.shape.n_heads + head(row), key < position_, tile, i);
      }
    }
  }
  // kernels/gpu/attention_mfma_token.hip:
  __device__ void leave_softmax() const;
  __device__ void leave_outputs(int piece, const Outputs& out) const;
  __device__ void finish_trace(const Final* finals) const;
  __device__ float* partial(int head, int block) const {
    return token_.partials + (int64_t{head} * token_.n_partials + block) * S::kPartial;
  }
  __device__ int key_tile(int i) const { return wave_id() * S::kOwnKeyTiles + i; }
  __device__ int first_dim(int piece) const {
    return piece * S::kPieceDims + wave_id() * S::kOwnDimTiles * 16;
  }
  __device__ int head(int row) const { return head_ + row * head_step_; }
  __device__ bool sees(int row) const {
    return first_ + row >= n_hidden_ && first_ + row < n_visible_;
  }
  __device__ bool sees_all() const {
    return first_ >= n_hidden_ && first_ + kBlockKeys <= n_visible_;
  }

  const TokenCall& token_;
  Exponents exponents_;
  int position_, n_hidden_, n_visible_, n_scored_;
  int g_;                           // KV head
  int head_, head_step_, n_heads_;  // its query heads
  int first_;                       // key of the block
  int head_dim_, row_values_;
  HeadColumns key_columns_, value_columns_;
  Four<Stored> keys_[S::kOwnKeyTiles][S::kSteps][QueryTile::kKeyRows];
  Run values_[kKeyTiles][QueryTile::kValueKeys];
  float most_[kSlots];
};

}  // namespace greta::attention_mfma_detail
