#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/attention_device.h"
#include "kernels/gpu_math.h"
#include "kernels/gpu_runtime.h"
#include "kernels/wave.h"

// What a block of attention_valu does: some query heads against a split of the keys, and for the
// last one to finish the combination of all (kernels/attention_valu.hip). Device code, but for the
// sizes.

namespace greta::attention_valu_detail {

inline constexpr int kThreads = 256;
inline constexpr int kShortSplit = 64;  // keys
inline constexpr int kKeyLanes = 8;     // neighbouring threads that share a row of K
inline constexpr int kKeyRows = kThreads / kKeyLanes;
inline constexpr int kSoftmaxLanes = 32;
inline constexpr int kMaxHeads = kThreads / kSoftmaxLanes;
inline constexpr int kStats = 4;  // of a partial: maximum and sum, padded to 16 bytes

// ---- Where keys are split. A split is kChunk·2^n keys long. Up to 64 splits keep a device busy;
// ---- longer ones would take more shared memory than their number saves, up to a point.

inline constexpr int kFewSplits = 64;
inline constexpr int kLongSplit = 512;

__host__ __device__ inline int64_t most_keys(int64_t split_keys) {
  return split_keys * (split_keys < kLongSplit ? kFewSplits : split_keys);
}
__host__ __device__ inline int split_keys_of(int64_t n_keys) {
  int64_t split_keys = kShortSplit;
  while (most_keys(split_keys) < n_keys) split_keys *= 2;
  return static_cast<int>(split_keys);
}

struct Call {
  AttentionShape shape;
  const int32_t* first_pos;
  const float* q;
  const float* k;
  const float* v;
  float* out;
  AttentionTrace trace;
  uint32_t* counters;  // [tokens of the launch, gridDim.x]
  float* partials;     // [tokens, gridDim.x, gridDim.y, kHeads, padded head_dim + kStats]
  int64_t first_token;
};

// head_dim padded to 32·kSteps; kVectors: as keys_in_fours() and values_in_fours() say.
template <int kSteps, int kHeads, bool kVectors>
class Split {
 public:
  static constexpr int kDim = 4 * kKeyLanes * kSteps;
  static constexpr int kPartial = kHeads * (kDim + kStats);
  static constexpr size_t shared_bytes(int64_t split_keys) {
    const auto working = static_cast<size_t>(kHeads * (kDim + split_keys));
    return std::max(working, size_t{kRows * kHeads * kDim}) * sizeof(float);
  }

  __device__ Split(const Call& call, float* shared);
  __device__ bool has_keys() const { return static_cast<int>(blockIdx.y) < n_splits_; }
  __device__ void score();
  __device__ void weigh();
  __device__ void leave_partial();
  __device__ bool is_last();
  __device__ void combine();

 private:
  static constexpr int kChunk = kVectors && kSteps < 8 ? 64 : 32;  // keys in registers
  static constexpr int kKeyPasses = kChunk / kKeyRows;
  static constexpr int kColumns = kDim / 4;          // threads that share a row of V
  static constexpr int kRows = kThreads / kColumns;  // rows of V that a block has at a time
  static constexpr int kValuePasses = kChunk / kRows;

  // A key's row; the last one for keys beyond, which weigh nothing.
  __device__ const float* row_of(const float* cache, int key) const {
    return cache + static_cast<int64_t>(key < end_ ? key : end_ - 1) * row_values_;
  }
  __device__ void load_keys(int first);
  __device__ void load_values(int first);
  __device__ void score_chunk(int first);
  __device__ void softmax();
  __device__ void trace_weights() const;
  __device__ float* partial(int split) const {
    return partials_ + static_cast<int64_t>(split) * kPartial;
  }
  __device__ int head(int i) const { return query_head_of(call_.shape, g_, first_head_ + i); }

  const Call& call_;
  int64_t token_, position_;
  int g_, first_head_, n_heads_;  // KV head, and which of its query heads
  int head_dim_, row_values_;
  int n_visible_, n_scored_;
  int split_keys_, n_splits_;
  int begin_, end_;  // keys of this split, end_ at most n_scored_
  float* partials_;
  float* q_;       // shared [kHeads, kDim]
  float* scores_;  // shared [kHeads, split_keys], then the weights
  float* sums_;    // shared [kRows, kHeads, kDim], in place of both
  HeadColumns key_columns_, value_columns_;
  Floats4 keys_[kKeyPasses][kSteps];
  Floats4 values_[kValuePasses];
  Floats4 acc_[kHeads];
  float max_ = 0, sum_ = 0;  // of head threadIdx.x / kSoftmaxLanes
};

template <int kSteps, int kHeads, bool kVectors>
__device__ Split<kSteps, kHeads, kVectors>::Split(const Call& call, float* shared) : call_(call) {
  const AttentionShape& shape = call.shape;
  const auto group = static_cast<int>(shape.n_heads / shape.n_kv_heads);
  const int batches = (group + kHeads - 1) / kHeads;
  token_ = call.first_token + blockIdx.z;
  position_ = *call.first_pos + token_;
  g_ = static_cast<int>(blockIdx.x) / batches;
  first_head_ = static_cast<int>(blockIdx.x) % batches * kHeads;
  n_heads_ = group - first_head_ < kHeads ? group - first_head_ : kHeads;
  head_dim_ = static_cast<int>(shape.head_dim);
  row_values_ = static_cast<int>(shape.n_kv_heads) * head_dim_;
  n_visible_ = visible_keys(shape, position_);
  n_scored_ = scored_keys(shape, position_);
  split_keys_ = split_keys_of(n_scored_);
  n_splits_ = (n_scored_ + split_keys_ - 1) / split_keys_;
  begin_ = static_cast<int>(blockIdx.y) * split_keys_;
  end_ = begin_ + split_keys_ < n_scored_ ? begin_ + split_keys_ : n_scored_;
  partials_ = call.partials +
              (int64_t{blockIdx.z} * gridDim.x + blockIdx.x) * gridDim.y * int64_t{kPartial};
  key_columns_ = key_columns(shape, g_);
  value_columns_ = value_columns(shape, g_);
  q_ = shared;
  scores_ = shared + kHeads * kDim;
  sums_ = shared;
}

template <int kSteps, int kHeads, bool kVectors>
__device__ void Split<kSteps, kHeads, kVectors>::load_keys(int first) {
  const int lane = static_cast<int>(threadIdx.x) % kKeyLanes;
  GRETA_UNROLL
  for (int pass = 0; pass < kKeyPasses; ++pass) {
    const int key = first + static_cast<int>(threadIdx.x) / kKeyLanes + pass * kKeyRows;
    const float* row = row_of(call_.k, key);
    GRETA_UNROLL
    for (int i = 0; i < kSteps; ++i) {
      const int d = 4 * (lane + kKeyLanes * i);
      // A head has more than half of kDim values: the first ones all exist.
      const int n = i < kSteps / 2 ? kDim : head_dim_;
      keys_[pass][i] = load_four<kVectors>(row, key_columns_, d, n, head_dim_);
    }
  }
}

// What a query does not see may be anything, and must not be multiplied even with 0.
template <int kSteps, int kHeads, bool kVectors>
__device__ void Split<kSteps, kHeads, kVectors>::load_values(int first) {
  const int d = 4 * (static_cast<int>(threadIdx.x) % kColumns);
  GRETA_UNROLL
  for (int pass = 0; pass < kValuePasses; ++pass) {
    const int key = first + static_cast<int>(threadIdx.x) / kColumns + pass * kRows;
    // Beyond head_dim there are columns of which nothing comes.
    const int n = key < n_visible_ ? kDim : 0;
    values_[pass] = load_four<kVectors>(row_of(call_.v, key), value_columns_, d, n, head_dim_);
  }
}

template <int kSteps, int kHeads, bool kVectors>
__device__ void Split<kSteps, kHeads, kVectors>::score() {
  const auto thread = static_cast<int>(threadIdx.x);
  load_keys(begin_);
  load_values(begin_);
  for (int i = thread; i < kHeads * kDim; i += kThreads) {
    const int h = i / kDim, d = i % kDim;
    const bool exists = h < n_heads_ && d < head_dim_;
    q_[i] = exists ? call_.q[(token_ * call_.shape.n_heads + head(h)) * head_dim_ + d] : 0.0f;
  }
  __syncthreads();
  for (int first = begin_; first < end_; first += kChunk) {
    score_chunk(first);
    if (first + kChunk < end_) load_keys(first + kChunk);
  }
  __syncthreads();
}

template <int kSteps, int kHeads, bool kVectors>
__device__ void Split<kSteps, kHeads, kVectors>::score_chunk(int first) {
  const int lane = static_cast<int>(threadIdx.x) % kKeyLanes;
  float dots[kKeyPasses][kHeads] = {};
  GRETA_UNROLL
  for (int i = 0; i < kSteps; ++i) {
    GRETA_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      const auto part = load_as<Floats4>(q_ + h * kDim + 4 * (lane + kKeyLanes * i));
      GRETA_UNROLL
      for (int pass = 0; pass < kKeyPasses; ++pass) {
        GRETA_UNROLL
        for (int j = 0; j < 4; ++j) {
          dots[pass][h] = fmaf(part.value[j], keys_[pass][i].value[j], dots[pass][h]);
        }
      }
    }
  }
  float* trace = traced_block(call_.trace.scores, call_.trace, token_);
  GRETA_UNROLL
  for (int pass = 0; pass < kKeyPasses; ++pass) {
    const int key = first + static_cast<int>(threadIdx.x) / kKeyLanes + pass * kKeyRows;
    GRETA_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      const float dot = wave_reduce<kKeyLanes>(dots[pass][h], Plus{});
      if (lane != h) continue;  // the lanes share the heads: kHeads is at most kKeyLanes
      const float score = dot * call_.shape.scale;
      scores_[h * split_keys_ + key - begin_] = key < n_visible_ ? score : -INFINITY;
      if (trace != nullptr && key <= position_ && h < n_heads_) {
        trace[key * call_.shape.n_heads + head(h)] = score;
      }
    }
  }
}

// Scores to weights, in place; kSoftmaxLanes threads a head.
template <int kSteps, int kHeads, bool kVectors>
__device__ void Split<kSteps, kHeads, kVectors>::softmax() {
  const int h = static_cast<int>(threadIdx.x) / kSoftmaxLanes;
  const int lane = static_cast<int>(threadIdx.x) % kSoftmaxLanes;
  const int n_keys = h < kHeads ? (end_ - begin_ + kChunk - 1) / kChunk * kChunk : 0;
  float* scores = scores_ + h * split_keys_;
  float shift = call_.shape.score_shift;
  if (call_.shape.subtract_max) {
    float most = -INFINITY;
    for (int j = lane; j < n_keys; j += kSoftmaxLanes) most = Max{}(most, scores[j]);
    max_ = wave_reduce<kSoftmaxLanes>(most, Max{});
    // Where every score is −∞ there is nothing to be relative to.
    shift = max_ == -INFINITY ? 0.0f : -max_;
  }
  float sum = 0;
  for (int j = lane; j < n_keys; j += kSoftmaxLanes) {
    const float weight = exp_f32(scores[j] + shift);
    scores[j] = weight;
    sum += weight;
  }
  sum_ = wave_reduce<kSoftmaxLanes>(sum, Plus{});
  __syncthreads();
}

template <int kSteps, int kHeads, bool kVectors>
__device__ void Split<kSteps, kHeads, kVectors>::trace_weights() const {
  float* trace = traced_block(call_.trace.probs, call_.trace, token_);
  if (trace == nullptr) return;
  const auto own_end = static_cast<int>(end_ <= position_ ? end_ : position_ + 1);
  for (int i = static_cast<int>(threadIdx.x); i < (own_end - begin_) * n_heads_; i += kThreads) {
    const int j = i / n_heads_, h = i % n_heads_;
    trace[(begin_ + j) * call_.shape.n_heads + head(h)] = scores_[h * split_keys_ + j];
  }
}

template <int kSteps, int kHeads, bool kVectors>
__device__ void Split<kSteps, kHeads, kVectors>::weigh() {
  softmax();
  trace_weights();
  GRETA_UNROLL
  for (int h = 0; h < kHeads; ++h) acc_[h] = {};
  for (int first = begin_; first < end_; first += kChunk) {
    const float* weights = scores_ + first - begin_ + static_cast<int>(threadIdx.x) / kColumns;
    GRETA_UNROLL
    for (int pass = 0; pass < kValuePasses; ++pass) {
      GRETA_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        const float weight = weights[h * split_keys_ + pass * kRows];
        GRETA_UNROLL
        for (int j = 0; j < 4; ++j) {
          acc_[h].value[j] = fmaf(weight, values_[pass].value[j], acc_[h].value[j]);
        }
      }
    }
    if (first + kChunk < end_) load_values(first + kChunk);
  }
}

template <int kSteps, int kHeads, bool kVectors>
__device__ void Split<kSteps, kHeads, kVectors>::leave_partial() {
  const auto thread = static_cast<int>(threadIdx.x);
  __syncthreads();  // sums_ lies where the weights do
  GRETA_UNROLL
  for (int h = 0; h < kHeads; ++h) {
    const int at = (thread / kColumns * kHeads + h) * kDim + thread % kColumns * 4;
    store_as(sums_ + at, acc_[h]);
  }
  __syncthreads();
  float* to = partial(static_cast<int>(blockIdx.y));
  for (int i = thread; i < kHeads * kDim; i += kThreads) {
    float sum = sums_[i];
    GRETA_UNROLL
    for (int row = 1; row < kRows; ++row) sum += sums_[row * kHeads * kDim + i];
    to[i] = sum;
  }
  const int h = thread / kSoftmaxLanes;
  if (h < kHeads && thread % kSoftmaxLanes == 0) {
    to[kHeads * kDim + 2 * h] = max_;
    to[kHeads * kDim + 2 * h + 1] = sum_;
  }
}

// Whether all other splits have left their partials. Blocks without keys do not count.
template <int kSteps, int kHeads, bool kVectors>
__device__ bool Split<kSteps, kHeads, kVectors>::is_last() {
  GRETA_SHARED(bool, last);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t* counter = call_.counters + blockIdx.z * gridDim.x + blockIdx.x;
    last = atomic_fetch_add(counter, 1) + 1 == static_cast<uint32_t>(n_splits_);
    if (last) *counter = 0;
  }
  __syncthreads();
  __threadfence();
  return last;
}

template <int kSteps, int kHeads, bool kVectors>
__device__ void Split<kSteps, kHeads, kVectors>::combine() {
  const auto thread = static_cast<int>(threadIdx.x);
  const int own = thread / kSoftmaxLanes, lane = thread % kSoftmaxLanes;
  const int n_own = own < kHeads ? n_splits_ : 0;
  const auto stat = [&](int s, int i) { return partial(s)[kHeads * kDim + 2 * own + i]; };
  float* factors = scores_ + own * split_keys_;  // [kHeads, n_splits]: there is room
  float most = -INFINITY;
  for (int s = lane; s < n_own; s += kSoftmaxLanes) most = Max{}(most, stat(s, 0));
  most = wave_reduce<kSoftmaxLanes>(most, Max{});
  const float shift = most == -INFINITY ? 0.0f : -most;
  float sum = 0;
  for (int s = lane; s < n_own; s += kSoftmaxLanes) {
    factors[s] = exp_f32(stat(s, 0) + shift);
    sum = fmaf(factors[s], stat(s, 1), sum);
  }
  const float share = 1.0f / wave_reduce<kSoftmaxLanes>(sum, Plus{});
  for (int s = lane; s < n_own; s += kSoftmaxLanes) factors[s] *= share;
  __syncthreads();

  constexpr int kAtOnce = 16;  // loads under way
  for (int i = thread; i < kHeads * kColumns; i += kThreads) {
    const int h = i / kColumns, d = i % kColumns * 4;
    Floats4 total = {};
    for (int first = 0; first < n_splits_; first += kAtOnce) {
      Floats4 parts[kAtOnce];
      GRETA_UNROLL
      for (int s = 0; s < kAtOnce; ++s) {
        const int split = first + s < n_splits_ ? first + s : n_splits_ - 1;
        parts[s] = load_as<Floats4>(partial(split) + 4 * i);
      }
      GRETA_UNROLL
      for (int s = 0; s < kAtOnce; ++s) {
        const bool exists = first + s < n_splits_;
        const float factor = scores_[h * split_keys_ + (exists ? first + s : 0)];
        GRETA_UNROLL
        for (int j = 0; j < 4; ++j) {
          const float next = fmaf(factor, parts[s].value[j], total.value[j]);
          total.value[j] = exists ? next : total.value[j];
        }
      }
    }
    if (h >= n_heads_) continue;
    float* out = call_.out + (token_ * call_.shape.n_heads + head(h)) * head_dim_;
    for (int j = 0; j < 4 && d + j < head_dim_; ++j) out[d + j] = total.value[j];
  }

  float* trace = traced_block(call_.trace.probs, call_.trace, token_);
  if (trace == nullptr) return;
  for (int64_t i = thread; i < (position_ + 1) * n_heads_; i += kThreads) {
    const auto key = static_cast<int>(i / n_heads_), h = static_cast<int>(i % n_heads_);
    if (key >= n_visible_) continue;  // its 0 stays one, whatever the share
    trace[key * call_.shape.n_heads + head(h)] *= scores_[h * split_keys_ + key / split_keys_];
  }
}

}  // namespace greta::attention_valu_detail
