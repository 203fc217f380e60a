#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

// Keys or values of a KV cache, row-major without gaps, in the memory of whoever computes.

namespace greta {

/// How a cache stores its values: as they are, or rounded to the nearest f16 (to even).
enum class KvType { kF32, kF16 };

/// Rows to read and write. Positions are counted in values.
struct KvRows {
  void* data = nullptr;
  KvType type = KvType::kF32;

  constexpr KvRows() = default;
  constexpr KvRows(std::nullptr_t) {}
  constexpr KvRows(float* values) : data(values) {}
  constexpr KvRows(uint16_t* halves) : data(halves), type(KvType::kF16) {}
  constexpr KvRows(void* values, KvType its) : data(values), type(its) {}

  KvRows operator+(int64_t n) const {
    if (type == KvType::kF16) return static_cast<uint16_t*>(data) + n;
    return static_cast<float*>(data) + n;
  }
};

/// Rows to read.
struct ConstKvRows {
  const void* data = nullptr;
  KvType type = KvType::kF32;

  constexpr ConstKvRows() = default;
  constexpr ConstKvRows(std::nullptr_t) {}
  constexpr ConstKvRows(const float* values) : data(values) {}
  constexpr ConstKvRows(const uint16_t* halves) : data(halves), type(KvType::kF16) {}
  constexpr ConstKvRows(const KvRows& rows) : data(rows.data), type(rows.type) {}
};

/// The same memory as words of 32 bits, of rows whose width is even: for who moves or fills it.
inline std::span<float> words_of(const KvRows& rows, int64_t n) {
  return {static_cast<float*>(rows.data),
          static_cast<size_t>(rows.type == KvType::kF16 ? n / 2 : n)};
}

// ---- Causal attention over a KV cache, grouped queries, over all keys before or a window of them:
//   s[h][j] = scale · q[h]·K[j][g(h)],  p = softmax(s),  out[h] = Σ_j p[h][j]·V[j][g(h)]
// (Vaswani et al. 2017; online softmax: Milakov and Gimelshein 2018).
//
// NaN in a visible K row makes the scores, the probabilities and the output of its heads NaN, NaN
// in a visible V row its column of the output, even where the weight is 0. Rows that are not
// visible have no influence, whatever they hold. So, as the formulas say, a query that sees no key,
// or only scores of −∞, or a score of +∞, has NaN for output.

/// What one attention call computes over. Strides are in values. A correct engine sets them from
/// the shapes; a fault is one wrong number here.
struct AttentionShape {
  int64_t n_heads = 0;  ///< a multiple of n_kv_heads
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t n_tokens = 0;   ///< queries, at consecutive positions
  int64_t first_pos = 0;  ///< of the first query; query t sees keys 0 .. first_pos + t + mask_shift
  int64_t mask_shift = 0;  ///< 0; ±1 is a mask off by one
  /// Keys that a query sees at most, its own position's the last: none below first_pos + t + 1 −
  /// window, whatever mask_shift is. 0: it sees all.
  int64_t window = 0;
  int64_t cache_rows = 0;     ///< rows that the cache has: no key beyond is ever read
  float scale = 0;            ///< 1/√head_dim
  bool modulo_heads = false;  ///< g(h) = h mod n_kv_heads instead of h·n_kv_heads/n_heads
  /// head_dim. K[j][g][d] is value (g·k_head_stride + d) mod (n_kv_heads·head_dim) of row j.
  int64_t k_head_stride = 0;
  bool v_transposed = false;  ///< reads V[g·head_dim + d] as V[d·n_kv_heads + g]
  bool subtract_max = true;   ///< false: softmax of exp(s + score_shift), which overflows
  float score_shift =
      0;  ///< added to every score inside the exponential only, without subtract_max
};

/// The shape, with the stride between K heads within a row. Throws std::invalid_argument for one
/// that contradicts itself.
inline AttentionShape consistent_shape(AttentionShape s) {
  const auto refuse = [](const std::string& why) {
    throw std::invalid_argument("attention: " + why);
  };
  if (s.n_heads < 1 || s.n_kv_heads < 1 || s.n_heads % s.n_kv_heads != 0) {
    refuse(std::to_string(s.n_heads) + " heads cannot share " + std::to_string(s.n_kv_heads) +
           " KV heads evenly");
  }
  if (s.head_dim < 1) refuse("a head of " + std::to_string(s.head_dim) + " values");
  if (s.n_tokens < 0 || s.n_tokens > s.cache_rows) {
    refuse(std::to_string(s.n_tokens) + " tokens in a cache of " + std::to_string(s.cache_rows) +
           " rows");
  }
  if (s.mask_shift < -1 || s.mask_shift > 1) {
    refuse("a mask shifted by " + std::to_string(s.mask_shift) +
           " positions, at most 1 either way");
  }
  if (s.window < 0) refuse("a window of " + std::to_string(s.window) + " keys");
  if (s.k_head_stride < 0) refuse("a negative stride between K heads");
  s.k_head_stride %= s.n_kv_heads * s.head_dim;  // columns are counted round the row
  return s;
}

/// Where a call leaves scores and probabilities of the queries that are traced, from the very
/// arrays that the output is computed from. Tracing changes no bit of the output.
///
/// Query t's block starts at (t − first_query) · stride; index in the block = key·n_heads + head,
/// keys 0 .. first_pos + t only. nullptr: not wanted. A key that mask or window hide has its score
/// as any other, and probability 0: a mask off by one shows in probs, not in scores.
struct AttentionTrace {
  float* scores = nullptr;  ///< after scale, before softmax
  float* probs = nullptr;   ///< the weights with which V was summed
  int64_t first_query = 0;
  int64_t stride = 0;  ///< of several queries: at least n_heads · (first_pos + n_tokens)
};

}  // namespace greta
