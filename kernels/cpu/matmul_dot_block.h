#pragma once

#include <cstdint>

#include "kernels/cpu/matmul_expand.h"
#include "kernels/cpu/matmul_kernels.h"

// Dot products of a block of rows with many tokens: the very operations, in the very order, that
// matmul_dot_simd.cpp does for a row and a token. Columns are taken in chains, after which a dot
// product has nothing in hand but its total. The block's weights of a chain are expanded once; then
// kTileRows by kTileTokens dot products at a time are in registers, where every value that is
// loaded serves several. Only for matmul_dot_simd.cpp.

namespace greta::GRETA_ISA {

/// Chains of additions end before they grow long enough to lose accuracy.
constexpr int64_t kChainColumns = 1024;
static_assert(kChainColumns % kSpanValues == 0);

/// The sums of a chain: four vectors of products at a time, each into its own.
typedef F32 ChainSums[4];
constexpr int64_t kStepColumns = 4 * kLanes;
GRETA_INLINE F32 total_of(const ChainSums& sums) {
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

constexpr int64_t kBlockRows = 16;    // whose weights of a chain stay in a cache,
constexpr int64_t kBlockTokens = 64;  // as do those of so many tokens
// As registers can hold: each dot product has four sums.
constexpr int kTileRows = kLanes == 16 ? 2 : 1, kTileTokens = kLanes == 16 ? 3 : 2;

/// f32 values of scratch.
constexpr int64_t kDotScratchValues =
    kBlockRows * kChainColumns + (kBlockTokens + kTileTokens) * kBlockRows * kLanes;

template <class Type>
class DotBlock {
 public:
  /// scratch: kDotScratchValues of them, 64-byte aligned.
  DotBlock(const DotTask& task, float* scratch)
      : task_(task), weights_(scratch), totals_(scratch + kBlockRows * kChainColumns) {}

  /// Rows [row, row + n_rows), at most kBlockRows of them, with tokens [token, token + n_tokens),
  /// at most kBlockTokens.
  void multiply(int64_t row, int64_t n_rows, int64_t token, int64_t n_tokens) {
    row_ = row, n_rows_ = n_rows, token_ = token, n_tokens_ = n_tokens;
    const int64_t n_totals = (n_tokens + kTileTokens) * kBlockRows;
    for (int64_t i = 0; i < n_totals; ++i) store(totals_ + i * kLanes, F32{});
    const int64_t cols = task_.w.cols;
    for (int64_t column = 0; column < cols; column += kChainColumns) {
      const int64_t n = cols - column < kChainColumns ? cols - column : kChainColumns;
      expand(column, n);
      for (int64_t t = 0; t < n_tokens; t += kTileTokens) {
        for (int64_t r = 0; r < n_rows; r += kTileRows) multiply_tile(column, n, r, t);
      }
    }
    for (int64_t t = 0; t < n_tokens; ++t) {
      for (int64_t r = 0; r < n_rows; ++r) {
        task_.out[(token + t) * task_.w.rows + row + r] = sum(load_f32(total(r, t)));
      }
    }
  }

 private:
  float* weights(int64_t r) { return weights_ + r * kChainColumns; }
  float* total(int64_t r, int64_t t) { return totals_ + (t * kBlockRows + r) * kLanes; }

  void expand(int64_t column, int64_t n) {
    for (int64_t r = 0; r < n_rows_; ++r) {
      const auto* row = reinterpret_cast<const uint8_t*>(task_.w.data) +
                        static_cast<size_t>(row_ + r) * row_bytes_of<Type>(task_.w.cols);
      expand_columns<Type>(row, column, n, weights(r));
    }
  }

  /// Rows and tokens that do not exist are the last ones that do.
  void multiply_tile(int64_t column, int64_t n, int64_t r, int64_t t) {
    const float* w[kTileRows];
    const float* x[kTileTokens];
    F32 totals[kTileRows][kTileTokens];
    for (int i = 0; i < kTileRows; ++i) {
      w[i] = weights(r + i < n_rows_ ? r + i : n_rows_ - 1);
      for (int j = 0; j < kTileTokens; ++j) totals[i][j] = load_f32(total(r + i, t + j));
    }
    for (int j = 0; j < kTileTokens; ++j) {
      const int64_t token = token_ + (t + j < n_tokens_ ? t + j : n_tokens_ - 1);
      x[j] = task_.x + token * task_.x_stride + column;
    }
    int64_t k = 0;
    if (n >= kStepColumns) {
      ChainSums acc[kTileRows][kTileTokens] = {};
      for (; k + kStepColumns <= n; k += kStepColumns) {
        for (int v = 0; v < 4; ++v) {
          F32 own[kTileRows];
          for (int i = 0; i < kTileRows; ++i) {
            own[i] = in_register(load_f32(w[i] + k + v * kLanes));
          }
          for (int j = 0; j < kTileTokens; ++j) {
            const F32 token = in_register(load_f32(x[j] + k + v * kLanes));
            for (int i = 0; i < kTileRows; ++i) acc[i][j][v] = madd(own[i], token, acc[i][j][v]);
          }
        }
      }
      for (int i = 0; i < kTileRows; ++i) {
        for (int j = 0; j < kTileTokens; ++j) {
          totals[i][j] += total_of(acc[i][j]);
        }
      }
    }
    for (; k < n; k += kLanes) {
      for (int j = 0; j < kTileTokens; ++j) {
        const F32 token = load_f32_part(x[j] + k, n - k < kLanes ? n - k : kLanes);
        for (int i = 0; i < kTileRows; ++i) {
          totals[i][j] = madd(load_f32(w[i] + k), token, totals[i][j]);
        }
      }
    }
    for (int i = 0; i < kTileRows; ++i) {
      for (int j = 0; j < kTileTokens; ++j) store(total(r + i, t + j), totals[i][j]);
    }
  }

  const DotTask& task_;
  float* const weights_;  // [kBlockRows, kChainColumns]
  float* const totals_;   // [tokens, kBlockRows, kLanes]
  int64_t row_ = 0, n_rows_ = 0, token_ = 0, n_tokens_ = 0;
};

}  // namespace greta::GRETA_ISA
