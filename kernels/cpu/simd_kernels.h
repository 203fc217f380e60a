#pragma once
#include <cstdint>

#include "kernels/matrix.h"
#include "kernels/simd/isa.h"

// The vector kernels, compiled once per instruction set. All arrays are f32, of any alignment.

namespace greta {

// ---- Matrix products: the loops over one piece of the rows of a matrix.

/// A product by dot products. Read by all threads, each for rows of its own.
struct DotTask {
  Matrix w;
  const float* x = nullptr;  ///< f32 [n_tokens, x_stride], the first w.cols of each
  int64_t x_stride = 0;
  int64_t n_tokens = 0;
  float* out = nullptr;  ///< f32 [n_tokens, w.rows]
};

struct DotKernels {
  int64_t block_rows;  ///< pieces that are taken in blocks should be a multiple of it
  /// f32 values of scratch for a piece; 0: it is not taken in blocks, and needs none.
  int64_t (*scratch_values)(int64_t n_tokens);
  /// scratch: 64-byte aligned; its content does not matter, before or after.
  void (*rows)(const DotTask& task, int64_t row_begin, int64_t row_end, float* scratch);
};
GRETA_DECLARE_KERNELS(DotKernels, dot_kernels)

/// Columns whose weights are expanded together; also how x is cut for gemm.
inline constexpr int64_t kGemmColumns = 256;

/// A blocked product over at most as many tokens as stay in a cache beside the weights.
///
/// x is packed, for each block of kGemmColumns columns and each group of `lanes` tokens: f32
/// [columns of the block, lanes], the missing tokens of the last group zero. Group g of block b
/// starts at (b · n_groups + g) · kGemmColumns · lanes.
struct GemmTask {
  Matrix w;
  const float* x = nullptr;  ///< f32 [n_tokens, w.cols]
  float* packed = nullptr;   ///< f32 [blocks, n_groups, kGemmColumns, lanes], 64-byte aligned
  int64_t n_tokens = 0;
  int64_t n_groups = 0;  ///< of lanes tokens, rounded up
  float* out = nullptr;  ///< f32 [n_tokens, w.rows]
};

struct GemmKernels {
  int64_t lanes;      ///< tokens of a group
  int64_t tile_rows;  ///< pieces should be a multiple of it
  /// Packs group-blocks [begin, end) of x, numbered b · n_groups + g.
  void (*pack)(const GemmTask& task, int64_t begin, int64_t end);
  /// f32 values of scratch for a piece of n_rows rows.
  int64_t (*scratch_values)(const GemmTask& task, int64_t n_rows);
  /// scratch: 64-byte aligned; its content does not matter, before or after.
  void (*rows)(const GemmTask& task, int64_t row_begin, int64_t row_end, float* scratch);
};
GRETA_DECLARE_KERNELS(GemmKernels, gemm_kernels)

// ---- The loops of both routes of attention. `dim` is a head's length rounded up to a multiple of
// kDimStep; the values added are zero.

inline constexpr int64_t kDimStep = 16;
inline constexpr int64_t kBlockKeys = 64;  ///< keys that are taken in at a time
inline constexpr int64_t kTileRows = 6;    ///< rows whose sums over a block fit in registers

/// weight = exp(score − m), m the greatest score; without subtract_max exp(score + shift).
struct SoftmaxRule {
  bool subtract_max;
  float shift;
};

/// State of an online softmax for one row; sum is of weights relative to max.
struct OnlineState {
  float max;
  float sum;
};

/// Keys that a query sees: from `begin` on, below `end`, which is not before.
struct SeenKeys {
  int64_t begin, end;
};

struct AttentionKernels {
  // ---- Two passes: q, out [n_heads, dim]; a block of at most kBlockKeys keys or values in rows
  // `stride` apart. ahead: a whole block that is needed soon, with the same stride, to be fetched
  // from memory meanwhile; nullptr: none.

  /// scores[h·score_stride + j] = scale·(q[h]·k[j]), j < n_keys. What lies between n_keys and the
  /// next multiple of kDimStep is overwritten with anything.
  void (*dot_scores)(const float* q, int64_t n_heads, int64_t dim, const float* k, int64_t stride,
                     int64_t n_keys, const float* ahead, float scale, float* scores,
                     int64_t score_stride);

  /// Turns scores [n], n ≥ 1, into probabilities; overwrites up to the next multiple of kDimStep.
  void (*softmax)(float* scores, int64_t n, SoftmaxRule rule);

  /// out[h] += Σ_j probs[h·prob_stride + j]·v[j], j < n_keys.
  void (*weigh)(const float* probs, int64_t prob_stride, int64_t n_heads, const float* v,
                int64_t stride, int64_t n_keys, const float* ahead, int64_t dim, float* out);

  // ---- Online: kTileRows rows of queries against a block of at most kBlockKeys keys. seen [row]:
  // which of the keys the row sees. The others are not used.

  /// scores[r·kBlockKeys + j] = scale·(q[r]·k[j]), j < n_keys; q [kTileRows, dim],
  /// k [dim, kBlockKeys].
  void (*tile_scores)(const float* q, int64_t dim, const float* k, int64_t n_keys, float scale,
                      float* scores);

  /// Turns scores into weights relative to their rows' new maxima and takes them into states [row].
  /// factors [row] gets what sums made with the old maxima must be multiplied with.
  void (*tile_weights)(float* scores, const SeenKeys* seen, SoftmaxRule rule, OnlineState* states,
                       float* factors);

  /// sums[r] = sums[r]·factors[r] + Σ_j weights[r·kBlockKeys + j]·v[j]; sums [kTileRows, dim].
  void (*tile_values)(const float* weights, const SeenKeys* seen, const float* factors,
                      const float* v, int64_t stride, int64_t dim, float* sums);
};

GRETA_DECLARE_KERNELS(AttentionKernels, attention_kernels)

/// The loops of elementwise.cpp; out may be an input. A value's bits do not depend on its place in
/// the array.
struct ElementwiseKernels {
  /// One row, [dim].
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t dim, float* out);

  /// One head, out[i] = in[i]·cosine[i] + in[partner of i]·sine[i], all [rope_dim], where sine is
  /// negative for the first of each pair. Pairs are (2i, 2i+1), or (i, i + rope_dim/2).
  void (*rotate_interleaved)(const float* in, const float* cosine, const float* sine,
                             int64_t rope_dim, float* out);
  void (*rotate_halves)(const float* in, const float* cosine, const float* sine, int64_t rope_dim,
                        float* out);

  void (*swiglu)(const float* gate, const float* up, int64_t n, float* out);
  void (*add)(const float* a, const float* b, int64_t n, float* out);
};

GRETA_DECLARE_KERNELS(ElementwiseKernels, elementwise_kernels)

}  // namespace greta
