#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/matrix.h"
#include "kernels/simd/isa.h"

// What matmul.cpp asks of the vector kernels: the loops over one piece of the rows of a matrix.

namespace greta {

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

}  // namespace greta
