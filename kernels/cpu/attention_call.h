#pragma once

#include <cstdint>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/simd_kernels.h"

// What the two routes of attention.h share: one call's arguments, and the layout of its arrays.

namespace greta {

/// Keys or values, each head of a row in `dim` values.
struct HeadRows {
  const float* data;
  int64_t head_stride;
  int64_t row_stride;
  const float* head(int64_t g) const { return data + g * head_stride; }
};

/// The arrays of an AttentionTrace.
enum class Traced { kScores, kProbs };

/// Borrows its arguments. t is a query, g a KV head, i one of the query heads that share it, h a
/// query head.
class AttentionCall {
 public:
  /// Throws std::invalid_argument as attention.h says.
  AttentionCall(const AttentionShape& shape, const float* q, ConstKvRows k, ConstKvRows v,
                float* out, const AttentionTrace& trace, Isa isa);

  const AttentionShape& shape() const { return shape_; }
  Isa isa() const { return isa_; }
  const AttentionKernels& kernels() const { return kernels_; }
  SoftmaxRule rule() const { return {shape_.subtract_max, shape_.score_shift}; }

  int64_t group() const { return shape_.n_heads / shape_.n_kv_heads; }
  int64_t dim() const { return (shape_.head_dim + kDimStep - 1) / kDimStep * kDimStep; }
  int64_t head(int64_t g, int64_t i) const {
    return shape_.modulo_heads ? g + i * shape_.n_kv_heads : g * group() + i;
  }

  int64_t position(int64_t t) const { return shape_.first_pos + t; }
  SeenKeys visible(int64_t t) const;
  int64_t n_scored(int64_t t) const;      ///< end of the keys that are visible or in the trace
  int64_t first_scored(int64_t t) const;  ///< the first of them, down to a whole block
  // What is read of the cache by all queries: from here on, below there.
  int64_t first_key() const;
  int64_t n_keys() const;

  /// Copies a query head to `to` [dim], filled with zeros; a result [head_dim] to its place.
  void load_query(int64_t t, int64_t h, float* to) const;
  void store_output(int64_t t, int64_t h, const float* from) const;

  /// The first value of (t, h) in an array of the trace, where key j's is j · n_heads further;
  /// nullptr: not wanted.
  float* traced(Traced what, int64_t t, int64_t h) const;

  /// The cache's rows as they stand if each is needed once and its heads are whole vectors of f32;
  /// else each head's rows copied to scratch, one after the other.
  HeadRows keys(ThreadScratch& scratch, ThreadPool& pool) const;
  HeadRows values(ThreadScratch& scratch, ThreadPool& pool) const;

  /// keys[j][g] transposed in blocks: [n_kv_heads, blocks of kBlockKeys, dim, kBlockKeys], zeros
  /// where there is no key or value.
  const float* key_blocks(ThreadScratch& scratch, ThreadPool& pool) const;
  int64_t n_blocks() const { return (n_keys() + kBlockKeys - 1) / kBlockKeys; }

 private:
  int64_t row_values() const { return shape_.n_kv_heads * shape_.head_dim; }
  bool rows_can_stay() const;
  bool keys_stand_apart() const;
  template <class Stored>
  void load_key(const Stored* keys, int64_t row, int64_t g, float* to) const;
  template <class Stored>
  void load_value(const Stored* values, int64_t row, int64_t g, float* to) const;
  template <class Load>
  HeadRows copy_rows(ThreadScratch& scratch, ThreadPool& pool, Load load) const;

  AttentionShape shape_;
  const float* q_;
  ConstKvRows k_;
  ConstKvRows v_;
  float* out_;
  AttentionTrace trace_;
  Isa isa_;
  const AttentionKernels& kernels_;
};

}  // namespace greta
