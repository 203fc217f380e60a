#pragma once

#include <cstdint>

#include "kernels/gpu/async_copy.h"
#include "kernels/gpu/attention_device.h"
#include "kernels/gpu/attention_mfma_call.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/query_tile.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// What a block of attention_mfma does: a tile of queries of one head against the keys that they see
// (kernels/gpu/attention_mfma.hip). What is traced of it is in kernels/gpu/attention_tile_trace.h.
// Device code.

namespace greta::attention_mfma_detail {

inline constexpr float kLog2E = 0x1.715476p0f;

/// What a block does for a tile of queries, from first_token on, and a head. A query's result is
/// the same in a tile that is kPlain and in one that is not. First load_queries(), then, when the
/// cache is there, attend().
template <int kDim, bool kPlain>
class TileAttention {
 public:
  __device__ TileAttention(const Call& call, int head, int first_token, uint16_t* shared);
  __device__ void load_queries();
  __device__ void attend();
  __device__ bool has_nonfinite_values() const;

 private:
  using S = Sizes<kDim, kPlain>;
  static constexpr int kGroups = S::kGroups, kKeys = S::kKeys;
  static constexpr int kSteps = kDim / 16;  // products of 16 dimensions
  static constexpr int kKeyTiles = kKeys / 16;
  static constexpr int kSlots = QueryTile::kSlots, kValues = QueryTile::kValues;
  static constexpr int kHeld = S::kQueriesInRegisters ? kSteps : 1;

  // Of one lane's queries.
  struct State {
    float most[kGroups][kSlots];  // of the products so far, without scale
    float sum[kGroups][kSlots];   // of this lane's weights
  };
  using GroupScores = QueryTile::Sum[kKeyTiles];
  using Scores = GroupScores[kGroups];
  using Weights = QueryTile::Operand[kGroups][kKeyTiles];

  __device__ void place_tiles();
  template <bool kVectors>
  __device__ void stage_queries();
  __device__ void copy_keys(int block) const;
  __device__ void copy_values(int block) const;
  __device__ QueryTile::Operand query_operand(int group, int step) const;
  __device__ QueryTile::Operand value_operand(int tile, int step) const;
  __device__ void multiply_keys(Scores& scores) const;
  __device__ void mask(int first, Scores& scores) const;
  __device__ void update_most(int group, const GroupScores& scores);
  __device__ float shift_of(float most) const;
  __device__ float factor(float before, float most) const;
  __device__ void softmax(Scores& scores, Weights& weights);
  __device__ void multiply_values(const Weights& weights);
  __device__ void multiply_nonfinite_values(const Weights& weights, int first);
  __device__ void store();
  // kernels/gpu/attention_tile_trace.h:
  template <class Trace>
  __device__ void for_traced(float* array, int block, Trace trace) const;
  __device__ void trace_scores(int block, const Scores& scores) const;
  __device__ void trace_weights(int block, const Scores& weights) const;
  __device__ void finish_trace() const;

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
  __device__ int last_row() const {
    return static_cast<int>(call_.shape.n_tokens) - 1 - first_token_;
  }
  /// Keys that a row sees.
  __device__ int visible(int row) const { return visible_keys(call_.shape, position_ + row); }

  /// Keys whose scores are wanted for it.
  __device__ int scored(int row) const { return scored_keys(call_.shape, position_ + row); }

  /// Whether some row up to this one is traced.
  __device__ bool is_traced(int row) const {
    const AttentionTrace& trace = call_.trace;
    return (trace.scores != nullptr || trace.probs != nullptr) &&
           first_token_ + row >= trace.first_query;
  }

  const Call& call_;
  int head_, g_;
  int first_token_, position_;  // of row 0
  int n_blocks_;                // of keys that some query of the tile sees, or that its trace has
  float log_scale_;             // |scale|·log2 e
  uint16_t *own_keys_, *own_values_, *own_queries_;
  uint16_t* keys_;
  uint16_t* values_;
  uint16_t* queries_;
  QueryTile::Operand held_[kGroups][kHeld];
  QueryTile::Sum out_[kGroups][kSteps];
  State state_;
};

template <int kDim, bool kPlain>
__device__ TileAttention<kDim, kPlain>::TileAttention(const Call& call, int head, int first_token,
                                                      uint16_t* shared)
    : call_(call), head_(head), g_(kv_head_of(call.shape, head)), first_token_(first_token) {
  position_ = *call.first_pos + first_token_;
  log_scale_ = fabsf(call.shape.scale) * kLog2E;
  const int last = tile_end() - 1;
  n_blocks_ = ((!kPlain && is_traced(last) ? scored(last) : visible(last)) + kKeys - 1) / kKeys;
  keys_ = shared;
  values_ = shared + S::kKeyValues;
  queries_ = S::kQueriesInRegisters ? shared : values_ + S::kValueValues;
  place_tiles();
}

template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::place_tiles() {
  own_keys_ = keys_ + opaque(QueryTile::place(S::kDimStride));
  own_values_ = values_ + opaque(QueryTile::place(S::kKeyStride));
  own_queries_ =
      queries_ + opaque(wave_row() * S::kDimStride + QueryTile::place_of_queries(S::kDimStride));
}

/// Queries to f16, negative for a negative scale: a maximum is then one after scaling as well.
template <int kDim, bool kPlain>
template <bool kVectors>
__device__ void TileAttention<kDim, kPlain>::stage_queries() {
  constexpr int kFours = kDim / 4, kEach = S::kQueries * kFours / kThreads;
  constexpr int kAtOnce = kEach < 8 ? kEach : 8;
  static_assert(S::kQueries * kFours % (kAtOnce * kThreads) == 0);
  const float sign = call_.shape.scale < 0 ? -1.0f : 1.0f;
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
      fours[pass] = load_four<kVectors>(from, columns, i % kFours * 4,
                                        i / kFours <= last_row() ? head_dim : 0, head_dim);
    }
    GRETA_UNROLL
    for (int pass = 0; pass < kAtOnce; ++pass) {
      const int i = first + pass * kThreads + static_cast<int>(threadIdx.x);
      const float* q = fours[pass].value;
      const uint64_t low = half_pair<HalfType::kF16>(sign * q[0], sign * q[1]);
      const uint64_t high = half_pair<HalfType::kF16>(sign * q[2], sign * q[3]);
      store_as<uint64_t>(queries_ + i / kFours * S::kDimStride + i % kFours * 4, high << 32 | low);
    }
  }
}

template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::load_queries() {
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

template <int kDim, bool kPlain>
__device__ QueryTile::Operand TileAttention<kDim, kPlain>::query_operand(int group,
                                                                         int step) const {
  if constexpr (S::kQueriesInRegisters) {
    return held_[group][step];
  } else {
    return QueryTile::load_queries(own_queries_ + group * 16 * S::kDimStride + step * 16,
                                   S::kDimStride);
  }
}

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

template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::copy_keys(int block) const {
  const int64_t at = int64_t{g_} * call_.cache.n_blocks + block;
  copy_rows<kKeys, kDim, S::kDimStride>(call_.cache.keys + at * (kKeys * kDim), keys_);
}
template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::copy_values(int block) const {
  const int64_t at = int64_t{g_} * call_.cache.n_blocks + block;
  copy_rows<kDim, kKeys, S::kKeyStride>(call_.cache.values + at * (kKeys * kDim), values_);
}

template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::multiply_keys(Scores& scores) const {
  GRETA_UNROLL
  for (int group = 0; group < kGroups; ++group) {
    GRETA_UNROLL
    for (int tile = 0; tile < kKeyTiles; ++tile) scores[group][tile] = {};
  }
  GRETA_UNROLL
  for (int step = 0; step < kSteps; ++step) {
    QueryTile::Operand q[kGroups];
    GRETA_UNROLL
    for (int group = 0; group < kGroups; ++group) q[group] = query_operand(group, step);
    GRETA_UNROLL
    for (int tile = 0; tile < kKeyTiles; ++tile) {
      const auto k =
          QueryTile::load(own_keys_ + tile * 16 * S::kDimStride + step * 16, S::kDimStride);
      GRETA_UNROLL
      for (int group = 0; group < kGroups; ++group) {
        QueryTile::multiply_add(q[group], k, scores[group][tile]);
      }
    }
  }
}

/// Scores of keys that a query does not see to −∞. What this needs is only needed at the end:
/// opaque offsets keep it from being prepared ahead of the loop.
template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::mask(int first, Scores& scores) const {
  const int own_key = opaque(QueryTile::key(0));
  GRETA_UNROLL
  for (int group = 0; group < kGroups; ++group) {
    int n[kSlots];
    GRETA_UNROLL
    for (int s = 0; s < kSlots; ++s) n[s] = visible(opaque(row(group, s))) - first - own_key;
    GRETA_UNROLL
    for (int tile = 0; tile < kKeyTiles; ++tile) {
      GRETA_UNROLL
      for (int i = 0; i < kValues; ++i) {
        const int key = tile * 16 + QueryTile::key(i) - QueryTile::key(0);
        if (key >= n[QueryTile::slot(i)]) scores[group][tile].value[i] = -INFINITY;
      }
    }
  }
}

/// What is added to scores in units of log2, before they are exponents.
template <int kDim, bool kPlain>
__device__ float TileAttention<kDim, kPlain>::shift_of(float most) const {
  // While every score is −∞ there is nothing to be relative to.
  const float shift = most == -INFINITY ? 0.0f : -(most * log_scale_);
  // Nor to a maximum of ∞, which without subtract_max is there from the start.
  const float last = call_.shape.subtract_max ? -INFINITY : call_.shape.score_shift * kLog2E;
  return most == INFINITY ? last : shift;
}

/// What sums with a maximum of before are multiplied with to be relative to a later one.
template <int kDim, bool kPlain>
__device__ float TileAttention<kDim, kPlain>::factor(float before, float most) const {
  const float power = fast_exp2(shift_of(most) - shift_of(before));
  return before == -INFINITY ? 0.0f : power;
}

/// Brings maxima, sums and outputs up to date. Without branches but one of the whole wavefront:
/// lanes that part must meet again before they exchange values.
template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::update_most(int group, const GroupScores& scores) {
  float most[kSlots], factors[kSlots];
  GRETA_UNROLL
  for (int s = 0; s < kSlots; ++s) most[s] = -INFINITY;
  GRETA_UNROLL
  for (int tile = 0; tile < kKeyTiles; ++tile) {
    GRETA_UNROLL
    for (int i = 0; i < kValues; ++i) {
      float& here = most[QueryTile::slot(i)];
      here = fmaxf(here, scores[tile].value[i]);
    }
  }
  bool changed = false;
  GRETA_UNROLL
  for (int s = 0; s < kSlots; ++s) {
    const float before = state_.most[group][s];
    most[s] = fmaxf(before, QueryTile::reduce(most[s], Max{}));
    factors[s] = factor(before, most[s]);
    changed |= most[s] > before;
    state_.most[group][s] = most[s];
  }
  if (wave_ballot(changed) == 0) return;
  GRETA_UNROLL
  for (int s = 0; s < kSlots; ++s) state_.sum[group][s] *= factors[s];
  GRETA_UNROLL
  for (int step = 0; step < kSteps; ++step) {
    GRETA_UNROLL
    for (int i = 0; i < kValues; ++i) {
      out_[group][step].value[i] *= factors[QueryTile::slot(i)];
    }
  }
}

/// Scores to weights, which are added to the sums, and to operands.
template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::softmax(Scores& scores, Weights& weights) {
  GRETA_UNROLL
  for (int group = 0; group < kGroups; ++group) {
    update_most(group, scores[group]);
    float shift[kSlots];
    GRETA_UNROLL
    for (int s = 0; s < kSlots; ++s) shift[s] = shift_of(state_.most[group][s]);
    GRETA_UNROLL
    for (int tile = 0; tile < kKeyTiles; ++tile) {
      GRETA_UNROLL
      for (int i = 0; i < kValues; ++i) {
        const int s = QueryTile::slot(i);
        const float weight = fast_exp2(fmaf(scores[group][tile].value[i], log_scale_, shift[s]));
        state_.sum[group][s] += weight;
        scores[group][tile].value[i] = weight;
      }
      weights[group][tile] = QueryTile::weights(scores[group][tile]);
    }
  }
}

template <int kDim, bool kPlain>
__device__ QueryTile::Operand TileAttention<kDim, kPlain>::value_operand(int tile, int step) const {
  return QueryTile::load(own_values_ + step * 16 * S::kKeyStride + tile * 16, S::kKeyStride);
}

template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::multiply_values(const Weights& weights) {
  GRETA_UNROLL
  for (int tile = 0; tile < kKeyTiles; ++tile) {
    GRETA_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      const auto v = value_operand(tile, step);
      GRETA_UNROLL
      for (int group = 0; group < kGroups; ++group) {
        QueryTile::multiply_add(weights[group][tile], v, out_[group][step]);
      }
    }
  }
}

/// With a value that is not finite, a key that a query does not see must not even be multiplied
/// with 0: one key after the other, and the sums of who does not see it stay as they are.
template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::multiply_nonfinite_values(const Weights& weights,
                                                                       int first) {
  GRETA_UNROLL
  for (int group = 0; group < kGroups; ++group) {
    int n[kSlots];
    GRETA_UNROLL
    for (int s = 0; s < kSlots; ++s) n[s] = visible(row(group, s)) - first;
    GRETA_UNROLL
    for (int tile = 0; tile < kKeyTiles; ++tile) {
      GRETA_NO_UNROLL
      for (int key = 0; key < 16; ++key) {
        const auto own = QueryTile::only(weights[group][tile], key);
        GRETA_UNROLL
        for (int step = 0; step < kSteps; ++step) {
          QueryTile::Sum sum = out_[group][step];
          QueryTile::multiply_add(own, QueryTile::only(value_operand(tile, step), key), sum);
          GRETA_UNROLL
          for (int i = 0; i < kValues; ++i) {
            const bool seen = tile * 16 + key < n[QueryTile::slot(i)];
            out_[group][step].value[i] = seen ? sum.value[i] : out_[group][step].value[i];
          }
        }
      }
    }
  }
}

/// Whether a value is not finite that some of the tile's queries see and others do not.
template <int kDim, bool kPlain>
__device__ bool TileAttention<kDim, kPlain>::has_nonfinite_values() const {
  bool nonfinite = false;
  for (int block = visible(0) / kKeys; block < n_blocks_; ++block) {
    nonfinite |= call_.cache.nonfinite[int64_t{g_} * call_.cache.n_blocks + block] != 0;
  }
  return nonfinite;
}

template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::attend() {
  state_ = {};
  GRETA_UNROLL
  for (int group = 0; group < kGroups; ++group) {
    GRETA_UNROLL
    for (int s = 0; s < kSlots; ++s) {
      state_.most[group][s] = call_.shape.subtract_max ? -INFINITY : INFINITY;
    }
    GRETA_UNROLL
    for (int step = 0; step < kSteps; ++step) out_[group][step] = {};
  }
  // The wavefront's first query sees least, the last one most.
  const int seen_by_all = visible(wave_row());
  const int seen_by_any = wave_row() <= last_row() ? visible(wave_end() - 1) : 0;
  const bool traced = !kPlain && wave_row() <= last_row() && is_traced(wave_end() - 1);
  const int scored_by_any = traced ? scored(wave_end() - 1) : seen_by_any;
  if (n_blocks_ > 0) copy_keys(0);
  GRETA_NO_UNROLL
  for (int block = 0; block < n_blocks_; ++block) {
    const int first = block * kKeys;
    const bool takes_part = first < scored_by_any;
    place_tiles();
    wait_for_copies<0>();
    __syncthreads();  // keys are there, values are no longer needed
    copy_values(block);
    Scores scores;
    if (takes_part) multiply_keys(scores);
    wait_for_copies<0>();
    __syncthreads();  // values are there, keys are no longer needed
    if (block + 1 < n_blocks_) copy_keys(block + 1);
    if (!takes_part) continue;
    if (traced) trace_scores(block, scores);
    if (first >= seen_by_any) continue;
    if (first + kKeys > seen_by_all) mask(first, scores);
    Weights weights;
    softmax(scores, weights);
    if (traced) trace_weights(block, scores);
    const int64_t at = int64_t{g_} * call_.cache.n_blocks + block;
    if (!kPlain && first + kKeys > seen_by_all && call_.cache.nonfinite[at] != 0) {
      multiply_nonfinite_values(weights, first);
    } else {
      multiply_values(weights);
    }
  }
  GRETA_UNROLL
  for (int group = 0; group < kGroups; ++group) {
    GRETA_UNROLL
    for (int s = 0; s < kSlots; ++s) {
      state_.sum[group][s] = QueryTile::reduce(state_.sum[group][s], Plus{});
    }
  }
  store();
  if (!kPlain && call_.trace.probs != nullptr && is_traced(tile_end() - 1)) finish_trace();
}

template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::store() {
  const auto head_dim = static_cast<int>(call_.shape.head_dim);
  const bool pairs = head_dim % 2 == 0 && reinterpret_cast<uintptr_t>(call_.out) % 8 == 0;
  GRETA_UNROLL
  for (int group = 0; group < kGroups; ++group) {
    GRETA_UNROLL
    for (int i = 0; i < kValues; i += 2) {
      const int s = QueryTile::slot(i);
      if (row(group, s) > last_row()) continue;
      const float share = 1.0f / state_.sum[group][s];
      const int dim = opaque(QueryTile::dim(i));
      const int64_t token = first_token_ + row(group, s);
      float* to = call_.out + (token * call_.shape.n_heads + head_) * head_dim;
      GRETA_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        const int d = step * 16 + dim;
        const float2 pair{out_[group][step].value[i] * share,
                          out_[group][step].value[i + 1] * share};
        if (pairs) {
          if (d < head_dim) store_as(to + d, pair);
        } else {
          if (d < head_dim) to[d] = pair.x;
          if (d + 1 < head_dim) to[d + 1] = pair.y;
        }
      }
    }
  }
}

}  // namespace greta::attention_mfma_detail
