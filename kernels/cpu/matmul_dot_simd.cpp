#include <algorithm>
#include <cstdint>

#include "kernels/cpu/matmul_blocks.h"
#include "kernels/cpu/simd_kernels.h"

// Every output is one dot product whose operations and their order depend on the number of columns
// alone: weights are expanded to f32, whatever their type, and summed in chains. Several tokens are
// taken in one pass over a row only to read and expand the weights once: token by token they do
// what a single one does. Many are taken with a block of rows,
// where they do the same.

namespace greta::GRETA_ISA {

// ---- Dot products of a block of rows with many tokens: the very operations, in the very order, of
// a row and a token below. Columns are taken in chains, after which a dot product has nothing in
// hand but its total. The block's weights of a chain are expanded once; then kTileRows by
// kTileTokens dot products at a time are in registers, where every value that is loaded serves
// several.

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

namespace {

constexpr int kTile = kLanes == 16 ? 4 : 2;  // tokens of a pass, as many as registers can hold
constexpr int64_t kAhead = 4096;             // bytes: hides the latency of memory behind arithmetic

// What one pass over a row reads and writes. Places beyond the last token repeat it.
template <int kTokens>
struct Pass {
  const float* x[kTokens];
  float result[kTokens];
};

template <int kBytes>
GRETA_INLINE void prefetch(const uint8_t* p) {
  for (int i = 0; i < kBytes; i += 64) __builtin_prefetch(p + kAhead + i);
}

template <int kTokens>
struct Sums {
  ChainSums chain[kTokens] = {};
  F32 total[kTokens] = {};
};

template <int kTokens>
GRETA_INLINE void end_chain(Sums<kTokens>& sums) {
  for (int t = 0; t < kTokens; ++t) {
    sums.total[t] += total_of(sums.chain[t]);
    for (F32& sum : sums.chain[t]) sum = F32{};
  }
}

/// A vector of weights, number i of its step, from column k on.
template <int kTokens>
GRETA_INLINE void add_vector(F32 w, int i, int64_t k, const Pass<kTokens>& pass,
                             Sums<kTokens>& sums) {
  for (int t = 0; t < kTokens; ++t) {
    sums.chain[t][i] = madd(w, load_f32(pass.x[t] + k), sums.chain[t][i]);
  }
}

// ---- Quantised types.

// Spans whose scales and mins are made at once: enough for their latency to vanish.
constexpr int kBatch = 8;
constexpr int kChainSpans = kChainColumns / kSpanValues;
static_assert(kBatch % kChainSpans == 0);

template <class Type, int kTokens>
GRETA_INLINE void add_span(const uint8_t* p, const Numbers& numbers, int64_t column,
                           const Pass<kTokens>& pass, Sums<kTokens>& sums) {
  Type::visit(
      p, Type::kSpanGroups,
      numbers, [&](int g, const GroupVectors<Type::kGroup>& w) __attribute__((always_inline)) {
        for (int i = 0; i < w.kCount; ++i) {
          add_vector(w.v[i], (g * w.kCount + i) % 4, column + g * Type::kGroup + i * kLanes, pass,
                     sums);
        }
      });
}

/// What is left of a row, shorter than a span: whole steps go on with its chain.
template <class Type, int kTokens>
GRETA_INLINE void add_rest(const uint8_t* p, int64_t column, int64_t n, const Pass<kTokens>& pass,
                           Sums<kTokens>& sums) {
  alignas(64) float w[kSpanValues];
  expand_span<Type>(p, static_cast<int>(n) / Type::kGroup, w);
  int64_t k = 0;
  for (; k + kStepColumns <= n; k += kStepColumns) {
    for (int i = 0; i < 4; ++i) {
      add_vector(load_f32(w + k + i * kLanes), i, column + k + i * kLanes, pass, sums);
    }
  }
  if (k > 0 || column % kChainColumns != 0) end_chain(sums);
  for (; k < n; k += kLanes) {
    for (int t = 0; t < kTokens; ++t) {
      sums.total[t] = madd(load_f32(w + k), load_f32(pass.x[t] + column + k), sums.total[t]);
    }
  }
}

template <class Type, int kTokens>
GRETA_INLINE void dot_blocks(const uint8_t* row, int64_t cols, Pass<kTokens>& pass) {
  constexpr int kSpanBytes = kSpanValues / Type::kBlockValues * Type::kBlockBytes;
  alignas(64) Numbers numbers[kBatch];
  Sums<kTokens> sums;
  const uint8_t* p = row;
  int64_t column = 0;
  for (int64_t n_left = cols / kSpanValues; n_left > 0;) {
    const int n = n_left < kBatch ? static_cast<int>(n_left) : kBatch;
    Type::scales(p, n, Type::kSpanGroups, numbers);
    keep_in_memory(numbers);
    for (int i = 0; i < n; ++i, p += kSpanBytes, column += kSpanValues) {
      prefetch<kSpanBytes>(p);
      add_span<Type>(p, numbers[i], column, pass, sums);
      if (i % kChainSpans == kChainSpans - 1) end_chain(sums);
    }
    n_left -= n;
  }
  if (column < cols) {
    if constexpr (Type::kBlockValues < kSpanValues) {
      add_rest<Type>(p, column, cols - column, pass, sums);
    }
  } else if (column % kChainColumns != 0) {
    end_chain(sums);
  }
  for (int t = 0; t < kTokens; ++t) pass.result[t] = sum(sums.total[t]);
}

// ---- Float types: a step at a time, then a vector, then what is left of one.

template <class Type, int kTokens>
GRETA_INLINE void dot_floats(const uint8_t* row, int64_t cols, Pass<kTokens>& pass) {
  Sums<kTokens> sums;
  int64_t k = 0;
  while (k + kStepColumns <= cols) {
    const int64_t end = k + kChainColumns < cols ? k + kChainColumns : cols;
    for (; k + kStepColumns <= end; k += kStepColumns) {
      prefetch<kStepColumns * Type::kBytes>(row + k * Type::kBytes);
      for (int i = 0; i < 4; ++i) {
        const int64_t at = k + i * kLanes;
        add_vector(Type::values(row + at * Type::kBytes), i, at, pass, sums);
      }
    }
    end_chain(sums);
  }
  for (; k < cols; k += kLanes) {
    const int64_t n = cols - k < kLanes ? cols - k : kLanes;
    const F32 w = Type::values_part(row + k * Type::kBytes, n);
    for (int t = 0; t < kTokens; ++t) {
      sums.total[t] = madd(w, load_f32_part(pass.x[t] + k, n), sums.total[t]);
    }
  }
  for (int t = 0; t < kTokens; ++t) pass.result[t] = sum(sums.total[t]);
}

// ---- Rows and tokens.

template <class Type, int kTokens>
void rows_for_tokens(const DotTask& task, int64_t row_begin, int64_t row_end, int64_t token,
                     size_t row_bytes) {
  const int64_t cols = task.w.cols;
  Pass<kTokens> pass;
  for (int t = 0; t < kTokens; ++t) {
    const int64_t source = token + t < task.n_tokens ? token + t : task.n_tokens - 1;
    pass.x[t] = task.x + source * task.x_stride;
  }
  for (int64_t row = row_begin; row < row_end; ++row) {
    const auto* data =
        reinterpret_cast<const uint8_t*>(task.w.data) + static_cast<size_t>(row) * row_bytes;
    if constexpr (requires { Type::kGroup; }) {
      dot_blocks<Type>(data, cols, pass);
    } else {
      dot_floats<Type>(data, cols, pass);
    }
    for (int t = 0; t < kTokens && token + t < task.n_tokens; ++t) {
      task.out[(token + t) * task.w.rows + row] = pass.result[t];
    }
  }
}

/// From how many tokens on expanding a block's weights pays.
constexpr int64_t kManyTokens = 12;

template <class Type>
void rows_of_type(const DotTask& task, int64_t row_begin, int64_t row_end, float* scratch) {
  const size_t row_bytes = row_bytes_of<Type>(task.w.cols);
  int64_t token = 0;
  if (task.n_tokens >= kManyTokens) {
    DotBlock<Type> block(task, scratch);
    for (; token < task.n_tokens; token += kBlockTokens) {
      const int64_t n_tokens = std::min(kBlockTokens, task.n_tokens - token);
      for (int64_t row = row_begin; row < row_end; row += kBlockRows) {
        block.multiply(row, std::min(kBlockRows, row_end - row), token, n_tokens);
      }
    }
    return;
  }
  for (; token + 1 < task.n_tokens; token += kTile) {
    rows_for_tokens<Type, kTile>(task, row_begin, row_end, token, row_bytes);
  }
  if (token < task.n_tokens) rows_for_tokens<Type, 1>(task, row_begin, row_end, token, row_bytes);
}

void rows(const DotTask& task, int64_t row_begin, int64_t row_end, float* scratch) {
  with_type(task.w.type,
            [&](auto type) { rows_of_type<decltype(type)>(task, row_begin, row_end, scratch); });
}

int64_t scratch_values(int64_t n_tokens) { return n_tokens >= kManyTokens ? kDotScratchValues : 0; }

}  // namespace

const DotKernels dot_kernels = {kBlockRows, scratch_values, rows};

}  // namespace greta::GRETA_ISA
