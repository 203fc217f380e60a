#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/gpu/attention_device.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// Layout that the blocks of attention_valu agree on: where keys are split, and what lies in scratch
// (kernels/gpu/attention_valu.hip).

namespace greta::attention_valu_detail {

inline constexpr int kThreads = 256;
inline constexpr int kShortSplit = 64;  // keys
inline constexpr int kMostSplits = 32;

// ---- Where keys are split: into up to kMostSplits, which keep a device busy, of whole short ones.

__host__ __device__ inline int splits_of(int n_keys, int split_keys) {
  return n_keys / split_keys + (n_keys % split_keys != 0 ? 1 : 0);
}
__host__ __device__ inline int split_keys_of(int n_keys) {
  return splits_of(splits_of(n_keys, kShortSplit), kMostSplits) * kShortSplit;
}

/// The key that a query's splits begin with: what is before it the window hides.
__device__ inline int first_split_key(const AttentionShape& shape, int64_t position) {
  return hidden_keys(shape, position) / kShortSplit * kShortSplit;
}

/// Traced weights are relative to the maxima of their groups until all splits are combined. What
/// finishes them is kept by query head, so that it lies in the same place however heads share
/// blocks. For every token of a launch: {overall maximum, share of a weight relative to it} of
/// every head, then maxima [splits, kGroups, n_heads].
struct UnfinishedLayout {
  int64_t token_values;

  UnfinishedLayout(int64_t n_heads, int n_groups, int n_splits)
      : token_values((n_heads * (2 + int64_t{n_groups} * n_splits) + 3) / 4 * 4) {}  // 16 bytes
  __device__ int64_t head(int token, int h) const { return token * token_values + 2 * h; }
  template <int kGroups>
  __device__ int64_t maxima(int token, int split, int n_heads) const {
    return head(token, n_heads) + split * kGroups * n_heads;
  }
};

struct Call {
  AttentionShape shape;
  const int32_t* first_pos;
  const float* q;
  const void* k;  // as the cache stores values
  const void* v;
  float* out;
  AttentionTrace trace;
  uint32_t* counters;  // [tokens of the launch, gridDim.x]
  float* partials;     // [tokens, gridDim.x, gridDim.y, kPartial]
  float* unfinished;   // with this layout
  UnfinishedLayout layout;
  int64_t first_token;
};

/// State of the sums of groups of threads and splits.
struct alignas(8) Softmax {
  float most, sum;
};

/// Number added to scores before they are exponents. Where every score is −∞ there is nothing to
/// be relative to.
__device__ inline float shift_of(float most) { return most == -INFINITY ? 0.0f : -most; }

template <int kDim>
struct Sizes {
  static constexpr int kLanes = kDim < 128 ? kDim / 4 : 32;  // neighbours that share a row
  static constexpr int kPieces = kDim / (4 * kLanes);        // 16 bytes each
  static constexpr int kGroups = kThreads / kLanes;
  static constexpr int kChunk = kDim > 128 ? 32 : 64;  // keys in registers
  static constexpr int kPasses = kChunk / kGroups;     // keys of a group
  static constexpr int kPartial = kDim + 4;            // of a head: the sums and its Softmax
};

// ---- What a block of attention_valu does: some query heads against a split of the keys. What
// comes of all splits is in kernels/gpu/attention_valu.hip.
//
// Neighbouring threads share a row of K or V, and a group of them all of a split's keys that are
// congruent: scores, softmax and sums of a group need no other, so until the split's end there is
// no barrier. Dot products are reduced by halves: with every exchange a lane keeps half of the sums
// and gives the other, until it has one score, of one head and key, and with it one weight.

/// The sum of two lanes' parts at some distance from each other: of `low` for one, of `high` for
/// the other.
__device__ inline float exchange(float low, float high, int distance) {
  const bool upper = (lane_id() & distance) != 0;
  return (upper ? high : low) + wave_shuffle_xor(upper ? low : high, distance);
}

/// Stored: what the cache holds; kDim: head_dim, padded; kVectors: as Call's arrays allow
/// (kernels/gpu/attention_valu.hip).
template <class Stored, int kDim, int kHeads, bool kVectors>
class Split {
 public:
  static constexpr int kPartial = kHeads * Sizes<kDim>::kPartial;

  __device__ explicit Split(const Call& call) : call_(call) {
    const AttentionShape& shape = call.shape;
    const int group = static_cast<int>(shape.n_heads) / static_cast<int>(shape.n_kv_heads);
    const int batches = (group + kHeads - 1) / kHeads;
    token_ = static_cast<int>(call.first_token) + static_cast<int>(blockIdx.z);
    first_pos_ = *call.first_pos;
    position_ = first_pos_ + token_;
    g_ = static_cast<int>(blockIdx.x) / batches;
    first_head_ = static_cast<int>(blockIdx.x) % batches * kHeads;
    n_heads_ = group - first_head_ < kHeads ? group - first_head_ : kHeads;
    head_dim_ = static_cast<int>(shape.head_dim);
    row_values_ = static_cast<int>(shape.n_kv_heads) * head_dim_;
    n_hidden_ = hidden_keys(shape, position_);
    n_visible_ = visible_keys(shape, position_);
    const int n_scored = scored_keys(shape, position_);
    first_key_ = first_split_key(shape, position_);
    split_keys_ = split_keys_of(n_scored - first_key_);
    n_splits_ = splits_of(n_scored - first_key_, split_keys_);
    begin_ = first_key_ + static_cast<int>(blockIdx.y) * split_keys_;
    end_ = begin_ + split_keys_ < n_scored ? begin_ + split_keys_ : n_scored;
    key_columns_ = key_columns(shape, g_);
    value_columns_ = value_columns(shape, g_);
  }
  __device__ bool has_keys() const { return static_cast<int>(blockIdx.y) < n_splits_; }
  /// True if all of its keys have been in the cache for long.
  __device__ bool is_old() const { return end_ <= first_pos_ - kFreshRows; }
  __device__ void load_first_keys() {
    load_keys(begin_);
    load_values(begin_);
  }
  /// Head own_head() first, in an order in which half of the lanes need what the others do not.
  __device__ void load_queries() {
    const HeadColumns columns{0, 1, head_dim_};
    GRETA_UNROLL
    for (int i = 0; i < kHeads; ++i) {
      const int h = i ^ own_head();
      const bool exists = h < n_heads_;
      const int64_t row = token_ * call_.shape.n_heads + head(exists ? h : 0);
      GRETA_UNROLL
      for (int piece = 0; piece < kPieces; ++piece) {
        q_[i][piece] = greta::load_values<kVectors>(call_.q + row * head_dim_, columns, d(piece),
                                                    exists ? head_dim_ : 0, head_dim_);
      }
    }
  }
  __device__ void attend() {
    most_ = call_.shape.subtract_max ? -INFINITY : 0.0f;
    sum_ = 0;
    GRETA_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      GRETA_UNROLL
      for (int piece = 0; piece < kPieces; ++piece) acc_[h][piece] = {};
    }
    for (int first = begin_; first < end_; first += kChunk) {
      const bool more = first + kChunk < end_;
      const float own = score();
      if (more) load_keys(first + kChunk);
      add_values(weigh(first, own));
      if (more) load_values(first + kChunk);
    }
    if (first_key_ > 0 && is_traced(call_.trace, token_)) score_hidden();
  }
  // kernels/gpu/attention_valu.hip:
  __device__ void leave_partial();
  __device__ bool is_last() const;
  __device__ void combine() const;

 private:
  using S = Sizes<kDim>;
  static constexpr int kLanes = S::kLanes, kPieces = S::kPieces, kGroups = S::kGroups;
  static constexpr int kChunk = S::kChunk, kPasses = S::kPasses;
  static constexpr int kHeadLanes = kLanes / kHeads;       // neighbours with scores of one head
  static constexpr int kSameLanes = kHeadLanes / kPasses;  // with the same score
  static_assert(kHeadLanes >= kPasses);

  // Its part of rows, of which it has values d(0) .. d(0) + 3, d(1) .. d(1) + 3, ...
  __device__ static int group() { return static_cast<int>(threadIdx.x) / kLanes; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
  __device__ static int d(int piece) { return 4 * (lane() + kLanes * piece); }
  // Its score.
  __device__ static int own_head() { return lane() / kHeadLanes; }
  __device__ static int own_pass() { return lane() % kHeadLanes / kSameLanes; }
  __device__ static bool counts() { return lane() % kSameLanes == 0; }  // of those with the same
  __device__ static int key_of(int first, int pass) { return first + pass * kGroups + group(); }

  // A key's row; the last one for keys beyond, which weigh nothing.
  __device__ const Stored* row_of(const void* cache, int key) const {
    return static_cast<const Stored*>(cache) +
           static_cast<int64_t>(key < end_ ? key : end_ - 1) * row_values_;
  }
  __device__ void load_keys(int first) {
    GRETA_UNROLL
    for (int pass = 0; pass < kPasses; ++pass) {
      const Stored* row = row_of(call_.k, key_of(first, pass));
      GRETA_UNROLL
      for (int piece = 0; piece < kPieces; ++piece) {
        keys_[pass][piece] =
            greta::load_values<kVectors>(row, key_columns_, d(piece), head_dim_, head_dim_);
      }
    }
  }
  /// What a query does not see may be anything, and must not be multiplied even with 0.
  __device__ void load_values(int first) {
    GRETA_UNROLL
    for (int pass = 0; pass < kPasses; ++pass) {
      const int key = key_of(first, pass);
      const Stored* row = row_of(call_.v, key);
      GRETA_UNROLL
      for (int piece = 0; piece < kPieces; ++piece) {
        // Beyond head_dim there are columns of which nothing comes.
        values_[pass][piece] = greta::load_values<kVectors>(row, value_columns_, d(piece),
                                                            sees(key) ? kDim : 0, head_dim_);
      }
    }
  }
  /// The product with a key of head own_head(), as far as kHeadLanes lanes each have a part of it.
  __device__ float dot(int pass) const {
    float dots[kHeads] = {};
    GRETA_UNROLL
    for (int piece = 0; piece < kPieces; ++piece) {
      float key[4];
      GRETA_UNROLL
      for (int j = 0; j < 4; ++j) key[j] = value_of(keys_[pass][piece].value[j]);
      GRETA_UNROLL
      for (int i = 0; i < kHeads; ++i) {
        GRETA_UNROLL
        for (int j = 0; j < 4; ++j) {
          dots[i] = fmaf(q_[i][piece].value[j], key[j], dots[i]);
        }
      }
    }
    // What a lane has second its neighbour has first.
    GRETA_UNROLL
    for (int n = kHeads / 2; n > 0; n /= 2) {
      GRETA_UNROLL
      for (int i = 0; i < n; ++i) dots[i] += wave_shuffle_xor(dots[n + i], n * kHeadLanes);
    }
    return dots[0];
  }
  /// The same of the one of kCount keys, from kPass on, that falls to the lane.
  template <int kCount, int kPass>
  __device__ float dot_of_one() const {
    if constexpr (kCount == 1) {
      return dot(kPass);
    } else {
      const float low = dot_of_one<kCount / 2, kPass>();
      const float high = dot_of_one<kCount / 2, kPass + kPasses / kCount>();
      return exchange(low, high, kHeadLanes / kCount);
    }
  }
  /// Of own_head() and own_pass().
  __device__ float score() const {
    return wave_reduce<kSameLanes>(dot_of_one<kPasses, 0>(), Plus{}) * call_.shape.scale;
  }
  /// The weight of a score, relative to the group's maximum so far, which may be a new one.
  __device__ float weigh(int first, float score) {
    const int key = key_of(first, own_pass());
    leave_trace(call_.trace.scores, key, score);
    if (!sees(key) || key >= end_) score = -INFINITY;
    float shift = call_.shape.score_shift;
    if (call_.shape.subtract_max) {
      const float most = Max{}(most_, wave_reduce<kHeadLanes>(score, Max{}));
      if (first > begin_) rescale(first, exp_f32(most_ + shift_of(most)));
      most_ = most;
      shift = shift_of(most);
    }
    const float weight = exp_f32(score + shift);
    if (counts()) sum_ += weight;
    leave_trace(call_.trace.probs, key, weight);
    return weight;
  }
  /// Scores, for a trace, of the keys that the window hides: all of a query's splits share them.
  __device__ void score_hidden() {
    GRETA_NO_UNROLL
    for (int first = static_cast<int>(blockIdx.y) * kChunk; first < first_key_;
         first += n_splits_ * kChunk) {
      load_keys(first);
      const int key = key_of(first, own_pass());
      leave_trace(call_.trace.scores, key, score());
      leave_trace(call_.trace.probs, key, 0);
    }
  }
  __device__ bool sees(int key) const { return key >= n_hidden_ && key < n_visible_; }
  /// The lane's score or weight.
  __device__ void leave_trace(float* array, int key, float value) const {
    float* to = traced_block(array, call_.trace, token_);
    if (to == nullptr || !counts() || own_head() >= n_heads_) return;
    if (key < end_ && key <= position_) to[key * call_.shape.n_heads + head(own_head())] = value;
  }
  /// Sums and traced weights of the keys before `first` to a new maximum; factor: own_head()'s.
  __device__ void rescale(int first, float factor) {
    sum_ *= factor;
    GRETA_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      const float of_head = wave_shuffle(factor, lane_id() - lane() + h * kHeadLanes);
      GRETA_UNROLL
      for (int piece = 0; piece < kPieces; ++piece) {
        GRETA_UNROLL
        for (int j = 0; j < 4; ++j) acc_[h][piece].value[j] *= of_head;
      }
    }
    float* trace = traced_block(call_.trace.probs, call_.trace, token_);
    if (trace == nullptr || factor == 1 || own_head() >= n_heads_ || !counts()) return;
    for (int key = key_of(begin_, own_pass()); key < first && key <= position_; key += kChunk) {
      if (sees(key)) trace[key * call_.shape.n_heads + head(own_head())] *= factor;
    }
  }
  __device__ void add_values(float weight) {
    struct alignas(4 * kHeads) OfHeads {
      float value[kHeads];
    };
    GRETA_SHARED(OfHeads, weights, [kGroups][kPasses]);
    wave_barrier();  // the ones before have been read
    if (counts()) weights[group()][own_pass()].value[own_head()] = weight;
    wave_barrier();
    GRETA_UNROLL
    for (int pass = 0; pass < kPasses; ++pass) {
      const auto own = load_as<OfHeads>(&weights[group()][pass]);
      GRETA_UNROLL
      for (int piece = 0; piece < kPieces; ++piece) {
        GRETA_UNROLL
        for (int j = 0; j < 4; ++j) {
          const float value = value_of(values_[pass][piece].value[j]);
          GRETA_UNROLL
          for (int h = 0; h < kHeads; ++h) {
            float& sum = acc_[h][piece].value[j];
            sum = fmaf(own.value[h], value, sum);
          }
        }
      }
    }
  }
  __device__ float* partial(int split) const {
    const int64_t heads = int64_t{blockIdx.z} * gridDim.x + blockIdx.x;
    return call_.partials + (heads * gridDim.y + split) * kPartial;
  }
  __device__ Softmax softmax_of(int split, int h) const {
    return load_as<Softmax>(partial(split) + kHeads * kDim + 4 * h);
  }
  __device__ int head(int i) const { return query_head_of(call_.shape, g_, first_head_ + i); }

  const Call& call_;
  int token_, position_, first_pos_;
  int g_, first_head_, n_heads_;  // KV head, and which of its query heads
  int head_dim_, row_values_;
  int n_hidden_, n_visible_;  // the keys it sees: from the one on, before the other
  int first_key_, split_keys_, n_splits_;
  int begin_, end_;  // keys of this split, end_ at most the number that is scored
  HeadColumns key_columns_, value_columns_;
  Floats4 q_[kHeads][kPieces];
  // As they are stored: to convert them is to wait for them.
  Four<Stored> keys_[kPasses][kPieces];
  Four<Stored> values_[kPasses][kPieces];
  Floats4 acc_[kHeads][kPieces];
  float most_, sum_;  // of own_head(): the group's maximum, and of the lane's own weights
};

}  // namespace greta::attention_valu_detail
