#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/attention_shape.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/runtime.h"

// What both routes of kernels/gpu/attention.h share: the meaning of an AttentionShape on the
// device, where first_pos has been replaced by what lies in memory and there is always a window,
// and its checks on the host.

namespace greta {

/// Keys that the query at `position` sees.
__device__ inline int visible_keys(const AttentionShape& shape, int64_t position) {
  const int64_t n = position + 1 + shape.mask_shift;
  return static_cast<int>(n < shape.cache_rows ? n : shape.cache_rows);
}

/// Keys, the first ones, that the window hides from the query at `position`: at most all but its
/// own.
__device__ inline int hidden_keys(const AttentionShape& shape, int64_t position) {
  const int n = static_cast<int>(position) + 1 - static_cast<int>(shape.window);
  return n > 0 ? n : 0;
}

/// Keys up to the last one whose score is wanted: those it sees and those of its trace.
__device__ inline int scored_keys(const AttentionShape& shape, int64_t position) {
  const int visible = visible_keys(shape, position);
  return visible > position + 1 ? visible : static_cast<int>(position + 1);
}

/// The KV head of a query head, and query head i of those that share KV head g.
__device__ inline int kv_head_of(const AttentionShape& shape, int head) {
  const auto n_kv_heads = static_cast<int>(shape.n_kv_heads);
  const int group = static_cast<int>(shape.n_heads) / n_kv_heads;
  return shape.modulo_heads ? head % n_kv_heads : head / group;
}
__device__ inline int query_head_of(const AttentionShape& shape, int g, int i) {
  const auto n_kv_heads = static_cast<int>(shape.n_kv_heads);
  const int group = static_cast<int>(shape.n_heads) / n_kv_heads;
  return shape.modulo_heads ? g + i * n_kv_heads : g * group + i;
}

/// Where in a row of the cache a head's values lie: value d at column(d).
struct HeadColumns {
  int first, step, row_values;

  __device__ int column(int d) const {
    const int beyond = first + d * step - row_values;
    return beyond + (row_values & beyond >> 31);  // columns are counted round the row
  }
};
__device__ inline HeadColumns key_columns(const AttentionShape& shape, int g) {
  const auto row_values = static_cast<int>(shape.n_kv_heads * shape.head_dim);
  const int64_t first = g * shape.k_head_stride;
  // A division, which takes long, only for a stride that is wrong.
  return {static_cast<int>(first < row_values ? first : first % row_values), 1, row_values};
}
__device__ inline HeadColumns value_columns(const AttentionShape& shape, int g) {
  const auto row_values = static_cast<int>(shape.n_kv_heads * shape.head_dim);
  if (shape.v_transposed) return {g, static_cast<int>(shape.n_kv_heads), row_values};
  return {g * static_cast<int>(shape.head_dim), 1, row_values};
}

/// Values of a head from d on, zeros where they are not below n; beyond head_dim and below n they
/// are any of the head's. row is one that can be read even if n is 0. kVectors: they lie together,
/// at an address that suits one load, and n is a multiple of their number.
template <bool kVectors, class Stored>
__device__ inline Four<Stored> load_values(const Stored* row, const HeadColumns& columns, int d,
                                           int n, int head_dim) {
  using Values = Four<Stored>;
  constexpr int kCount = 4;
  Values values = {};
#if defined(GRETA_AMD)
  // A load under a condition would be a branch, and many could not be under way together.
  if constexpr (kVectors) values = load_as<Values>(row + columns.column(d < head_dim ? d : 0));
  GRETA_UNROLL
  for (int i = 0; i < kCount; ++i) {
    if constexpr (!kVectors) values.value[i] = row[columns.column(d + i < head_dim ? d + i : 0)];
    values.value[i] = masked(values.value[i], mask_below(d + (kVectors ? 0 : i), n));
  }
#else
  if constexpr (kVectors) {
    if (d < n && d < head_dim) values = load_as<Values>(row + columns.column(d));
  } else {
    GRETA_UNROLL
    for (int i = 0; i < kCount; ++i) {
      if (d + i < n && d + i < head_dim) values.value[i] = row[columns.column(d + i)];
    }
  }
#endif
  return values;
}

/// Where a trace has query t's value of head 0 and key 0; nullptr: it is not wanted.
__device__ inline float* traced_block(float* array, const AttentionTrace& trace, int64_t t) {
  if (array == nullptr || t < trace.first_query) return nullptr;
  return array + (t - trace.first_query) * trace.stride;
}

/// True if anything of query t is wanted.
__device__ inline bool is_traced(const AttentionTrace& trace, int64_t t) {
  return (trace.scores != nullptr || trace.probs != nullptr) && t >= trace.first_query;
}

/// True if groups of four neighbouring values of a head are neighbours in the cache, at addresses
/// that suit one load.
inline bool fours_align(const ConstKvRows& rows) {
  const size_t bytes = rows.type == KvType::kF16 ? sizeof(Four<uint16_t>) : sizeof(Four<float>);
  return reinterpret_cast<uintptr_t>(rows.data) % bytes == 0;
}
inline bool keys_in_fours(const AttentionShape& shape, const ConstKvRows& k) {
  return shape.head_dim % 4 == 0 && shape.k_head_stride % 4 == 0 && fours_align(k);
}
inline bool values_in_fours(const AttentionShape& shape, const ConstKvRows& v) {
  return shape.head_dim % 4 == 0 && !shape.v_transposed && fours_align(v);
}

/// function.template operator()<Stored>(), Stored what the cache holds. Throws
/// std::invalid_argument when K and V differ in that.
template <class Function>
auto with_stored(const ConstKvRows& k, const ConstKvRows& v, Function function) {
  if (k.type != v.type) {
    throw std::invalid_argument("attention: K and V are stored as different types");
  }
  if (k.type == KvType::kF16) return function.template operator()<uint16_t>();
  return function.template operator()<float>();
}

inline constexpr int64_t kMaxHeadDim = 256;  ///< of both routes

/// function.template operator()<kDim>(), kDim what kernels pad head_dim to.
template <class Function>
auto with_padded_dim(int64_t head_dim, Function function) {
  if (head_dim <= 64) return function.template operator()<64>();
  if (head_dim <= 128) return function.template operator()<128>();
  return function.template operator()<256>();
}

/// The shape as kernels take it. Throws std::invalid_argument.
inline AttentionShape checked_shape(AttentionShape s) {
  s = consistent_shape(s);
  const auto refuse = [](const std::string& what, int64_t most) {
    throw std::invalid_argument("attention: " + what + ", at most " + std::to_string(most));
  };
  if (s.head_dim > kMaxHeadDim) {
    refuse("a head of " + std::to_string(s.head_dim) + " values", kMaxHeadDim);
  }
  if (s.cache_rows > INT32_MAX) {
    refuse("a cache of " + std::to_string(s.cache_rows) + " rows", INT32_MAX);
  }
  if (s.window == 0 || s.window > s.cache_rows) s.window = s.cache_rows;  // which hides nothing
  return s;
}

/// Keys for which a call is laid out when no query sees more than max_keys: with a mask that hides
/// the own key, that key still has a score.
inline int64_t keys_at_most(const AttentionShape& shape, int64_t max_keys) {
  return std::clamp<int64_t>(max_keys - std::min<int64_t>(shape.mask_shift, 0), 1,
                             std::max<int64_t>(shape.cache_rows, 1));
}

}  // namespace greta
