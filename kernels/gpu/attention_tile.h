#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gpu/async_copy.h"
#include "kernels/gpu/attention_device.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/query_tile.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// What a block of attention_mfma does: a tile of queries of one head against the keys that they see
// (kernels/gpu/attention_mfma.hip). Device code, but for the sizes.

// For loops whose every turn would keep registers of its own.
#if defined(GRETA_EMULATOR)
#define GRETA_NO_UNROLL
#else
#define GRETA_NO_UNROLL _Pragma("unroll 1")
#endif

namespace greta::attention_mfma_detail {

inline constexpr int kWaves = 4;
inline constexpr int kThreads = kWaves * kMatrixLanes;
inline constexpr float kLog2E = 0x1.715476p0f;

// kDim: head_dim, padded. A wavefront has 16·kGroups queries; a block of keys has kKeys. kPlain:
// nothing is traced, and values are finite where it matters; else there is more to do, and there
// are no registers for two groups.
template <int kDim, bool kPlain = true>
struct Sizes {
  static constexpr int kGroups = kPlain && kDim <= 128 ? 2 : 1;
  static constexpr int kWaveQueries = 16 * kGroups;
  static constexpr int kQueries = kWaves * kWaveQueries;
  static constexpr int kKeys = kDim > 128 ? 32 : 64;
  static constexpr int kDimStride = kDim + kSharedRowPad;
  static constexpr int kKeyStride = kKeys + kSharedRowPad;
  static constexpr int kKeyValues = kKeys * kDimStride;
  static constexpr int kValueValues = kDim * kKeyStride;
  static constexpr int kQueryValues = kQueries * kDimStride;
  // Where a lane has registers to spare it keeps its queries there: shared memory is small.
  static constexpr bool kQueriesInRegisters = kMatrixLanes == 64;
  static constexpr size_t kSharedBytes =
      sizeof(uint16_t) * (kQueriesInRegisters ? std::max(kKeyValues + kValueValues, kQueryValues)
                                              : kKeyValues + kValueValues + kQueryValues);
};

// The cache in f16, in scratch. Rows of keys that no query sees, and dimensions that do not exist,
// are zeros.
struct HalfCache {
  uint16_t* keys;       // [n_kv_heads, n_blocks, kKeys, kDim]
  uint16_t* values;     // [n_kv_heads, n_blocks, kDim, kKeys]
  uint32_t* nonfinite;  // [n_kv_heads, n_blocks]: whether a value is not finite
  int n_blocks;
};

struct Call {
  AttentionShape shape;
  const int32_t* first_pos;
  const float* q;
  const float* k;
  const float* v;
  float* out;
  AttentionTrace trace;
  HalfCache cache;
};

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

// Offsets that the compiler does not see through: else it computes every address of a loop ahead of
// it, and there are more of them than registers.
__device__ inline int opaque(int offset) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  asm volatile("" : "+r"(offset));
#elif defined(GRETA_AMD) && defined(__HIP_DEVICE_COMPILE__)
  asm volatile("" : "+v"(offset));
#endif
  return offset;
}

template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::place_tiles() {
  own_keys_ = keys_ + opaque(QueryTile::place(S::kDimStride));
  own_values_ = values_ + opaque(QueryTile::place(S::kKeyStride));
  own_queries_ =
      queries_ + opaque(wave_row() * S::kDimStride + QueryTile::place_of_queries(S::kDimStride));
}

// Queries to f16, negative for a negative scale: a maximum is then one after scaling as well.
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
      const uint64_t low = QueryTile::half_pair(sign * q[0], sign * q[1]);
      const uint64_t high = QueryTile::half_pair(sign * q[2], sign * q[3]);
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

// Begins to copy rows of kLength halves that follow each other to rows kStride apart.
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

// Scores of keys that a query does not see to −∞. What this needs is only needed at the end: opaque
// offsets keep it from being prepared ahead of the loop.
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

// What is added to scores in units of log2, before they are exponents.
template <int kDim, bool kPlain>
__device__ float TileAttention<kDim, kPlain>::shift_of(float most) const {
  // While every score is −∞ there is nothing to be relative to.
  const float shift = most == -INFINITY ? 0.0f : -(most * log_scale_);
  // Nor to a maximum of ∞, which without subtract_max is there from the start.
  const float last = call_.shape.subtract_max ? -INFINITY : call_.shape.score_shift * kLog2E;
  return most == INFINITY ? last : shift;
}

// What sums with a maximum of before are multiplied with to be relative to a later one.
template <int kDim, bool kPlain>
__device__ float TileAttention<kDim, kPlain>::factor(float before, float most) const {
  const float power = fast_exp2(shift_of(most) - shift_of(before));
  return before == -INFINITY ? 0.0f : power;
}

// Brings maxima, sums and outputs up to date. Without branches but one of the whole wavefront:
// lanes that part must meet again before they exchange values.
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

// Scores to weights, which are added to the sums, and to operands.
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

// With a value that is not finite, a key that a query does not see must not even be multiplied with
// 0: one key after the other, and the sums of who does not see it stay as they are.
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

// Whether a value is not finite that some of the tile's queries see and others do not.
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

// ---- Traces. Of two neighbouring keys the first weight is stored with the lower half of the
// ---- maximum that it is relative to, the second one with the upper half: a weight is an f16. When
// ---- the last maximum and the sum are known, what they amount to is put in place.

// Calls trace(to, key, group, tile, i) for keys key and key + 1 of a traced query, whose scores are
// values i and i + 1 of the lane; the first one is in the trace, at `to`.
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

// By all threads of the block: a lane's own pairs would be few, and one after the other.
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
