#pragma once

#include <cstdint>

#include "kernels/gpu/matmul_mfma.h"
#include "kernels/gpu/runtime.h"

// Which part of a product on matrix cores a block computes, and of which lines. Device code.

namespace greta::matmul_mfma_detail {

inline constexpr int kGroup = 16;  ///< tiles of tokens that share w in the cache

/// Lines of x or w that a tile has, and the last of them that exists.
struct Lines {
  const uint16_t* first;
  uint32_t last;
};

__device__ inline Lines lines_from(const uint16_t* matrix, int64_t cols, int64_t line,
                                   int64_t n_lines, int tile_lines) {
  const int64_t left = n_lines - line - 1;
  return {matrix + line * cols, static_cast<uint32_t>(left < tile_lines ? left : tile_lines - 1)};
}

struct TilePlace {
  int64_t token, row;
};

/// Blocks that run at the same time have few tiles of w between them, and at most kGroup of x.
template <class Shape>
__device__ TilePlace place_of(uint32_t block, const HalfProduct& product) {
  const auto across =
      static_cast<uint32_t>((product.n_tokens + Shape::kTokens - 1) / Shape::kTokens);
  const auto down = static_cast<uint32_t>((product.rows + Shape::kRows - 1) / Shape::kRows);
  const uint32_t group = block / (kGroup * down), within = block % (kGroup * down);
  const uint32_t left = across - group * kGroup;
  const uint32_t width = left < kGroup ? left : kGroup;
  return {int64_t{group * kGroup + within % width} * Shape::kTokens,
          int64_t{within / width} * Shape::kRows};
}

}  // namespace greta::matmul_mfma_detail
