#include "kernels/cpu/matmul_blocks.h"
#include "kernels/cpu/simd_kernels.h"

// The product as a sum of outer products: a tile of kTileRows rows × kTileGroups vectors of tokens
// stays in registers while k runs over kChain columns; what it has summed is then added to the
// totals in memory. Weights are expanded to f32 for a block of columns and a piece of the rows at a
// time, x is packed so that the tokens of a group lie side by side.

namespace greta::GRETA_ISA {
namespace {

constexpr int kTileRows = 6;
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kTileGroups = 4;  // 24 sums in 32 registers
#else
constexpr int kTileGroups = 2;  // 12 sums in 16 registers
#endif

// Additions are nested in three levels, since long chains lose accuracy: kChain products, the
// chains of a section, the sections. What a tile reads of x in one chain also fits a first-level
// cache.
constexpr int kChain = 64;
constexpr int kSectionBlocks = 4;
static_assert(kGemmColumns % kChain == 0 && kGemmColumns == kSpanValues);

// ---- Packing x.

/// The rows of a square matrix become its columns: log2(kLanes) perfect shuffles.
GRETA_INLINE void transpose(F32 (&m)[kLanes]) {
  for (int step = 1; step < kLanes; step *= 2) {
    F32 next[kLanes];
    for (int i = 0; i < kLanes / 2; ++i) {
      const F32 a = m[i], b = m[i + kLanes / 2];
#if defined(__AVX512F__)
      next[2 * i] =
          __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      next[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                                14, 30, 15, 31);
#elif defined(__AVX2__)
      next[2 * i] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
      next[2 * i + 1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
      next[2 * i] = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      next[2 * i + 1] = __builtin_shufflevector(a, b, 2, 6, 3, 7);
#endif
    }
    for (int i = 0; i < kLanes; ++i) m[i] = next[i];
  }
}

// Columns [column, column + n_columns) of the tokens of one group; to: [n_columns, kLanes].
void pack_group(const GemmTask& task, int64_t group, int64_t column, int64_t n_columns, float* to) {
  const int64_t first = group * kLanes;
  for (int64_t k = 0; k < n_columns; k += kLanes) {
    const int64_t n = n_columns - k < kLanes ? n_columns - k : kLanes;
    F32 m[kLanes] = {};
    for (int64_t t = 0; t < kLanes && first + t < task.n_tokens; ++t) {
      const float* x = task.x + (first + t) * task.w.cols + column + k;
      m[t] = n == kLanes ? load_f32(x) : load_f32_part(x, n);
    }
    transpose(m);
    for (int64_t i = 0; i < n; ++i) store(to + (k + i) * kLanes, m[i]);
  }
}

int64_t columns_of_block(const GemmTask& task, int64_t block) {
  const int64_t left = task.w.cols - block * kGemmColumns;
  return left < kGemmColumns ? left : kGemmColumns;
}

void pack(const GemmTask& task, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const int64_t block = i / task.n_groups;
    pack_group(task, i % task.n_groups, block * kGemmColumns, columns_of_block(task, block),
               task.packed + i * kGemmColumns * kLanes);
  }
}

// ---- Weights to f32.

template <class Type>
void expand(const GemmTask& task, int64_t row, int64_t n_rows, int64_t column, int64_t n_columns,
            float* to) {
  const size_t row_bytes = row_bytes_of<Type>(task.w.cols);
  for (int64_t r = 0; r < n_rows; ++r) {
    const auto* data =
        reinterpret_cast<const uint8_t*>(task.w.data) + static_cast<size_t>(row + r) * row_bytes;
    expand_columns<Type>(data, column, n_columns, to + r * kGemmColumns);
  }
}

// ---- The product of a tile.

// w: [kTileRows, kGemmColumns]; x: kVectors groups of [kGemmColumns, kLanes]; sums: row r at
// r · stride, kVectors vectors each; n columns of w and x.
template <int kVectors>
GRETA_INLINE void multiply_tile(const float* w, const float* x, int64_t n, float* sums,
                                int64_t stride) {
  F32 acc[kTileRows][kVectors] = {};
  for (int64_t k = 0; k < n; ++k) {
    F32 tokens[kVectors];
    for (int v = 0; v < kVectors; ++v) tokens[v] = load_f32(x + (v * kGemmColumns + k) * kLanes);
    for (int r = 0; r < kTileRows; ++r) {
      const F32 weight = splat(w[r * kGemmColumns + k]);
      for (int v = 0; v < kVectors; ++v) acc[r][v] = madd(weight, tokens[v], acc[r][v]);
    }
  }
  for (int r = 0; r < kTileRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      float* at = sums + r * stride + v * kLanes;
      store(at, load_f32(at) + acc[r][v]);
    }
  }
}

void multiply(int n_vectors, const float* w, const float* x, int64_t n, float* sums,
              int64_t stride) {
  switch (n_vectors) {
    case 1:
      return multiply_tile<1>(w, x, n, sums, stride);
    case 2:
      return multiply_tile<2>(w, x, n, sums, stride);
    case 3:
      return multiply_tile<3>(w, x, n, sums, stride);
    case 4:
      return multiply_tile<4>(w, x, n, sums, stride);
  }
}

// ---- A piece of the rows.

int64_t padded_rows(int64_t n_rows) { return (n_rows + kTileRows - 1) / kTileRows * kTileRows; }

// Values of an array [n_rows padded, n_groups · kLanes].
int64_t tile_values(const GemmTask& task, int64_t n_rows) {
  return padded_rows(n_rows) * task.n_groups * kLanes;
}

int64_t scratch_values(const GemmTask& task, int64_t n_rows) {
  return padded_rows(n_rows) * kGemmColumns + 2 * tile_values(task, n_rows);
}

// Adds block `block` of the columns to sums [n_rows padded, n_groups · kLanes].
void add_block(const GemmTask& task, int64_t block, int64_t n_rows, const float* weights,
               float* sums) {
  const int64_t stride = task.n_groups * kLanes;
  const int64_t n_columns = columns_of_block(task, block);
  const float* x = task.packed + block * task.n_groups * kGemmColumns * kLanes;
  for (int64_t k = 0; k < n_columns; k += kChain) {
    const int64_t n = n_columns - k < kChain ? n_columns - k : kChain;
    for (int64_t g = 0; g < task.n_groups; g += kTileGroups) {
      const int64_t left = task.n_groups - g;
      const int n_vectors = left < kTileGroups ? static_cast<int>(left) : kTileGroups;
      for (int64_t r = 0; r < n_rows; r += kTileRows) {
        multiply(n_vectors, weights + r * kGemmColumns + k, x + (g * kGemmColumns + k) * kLanes, n,
                 sums + r * stride + g * kLanes, stride);
      }
    }
  }
}

// out[t][row + r] = totals[r][t]
void write_out(const GemmTask& task, int64_t row, int64_t n_rows, const float* totals) {
  const int64_t stride = task.n_groups * kLanes;
  for (int64_t r = 0; r < n_rows; r += kLanes) {
    const int64_t n = n_rows - r < kLanes ? n_rows - r : kLanes;
    for (int64_t g = 0; g < task.n_groups; ++g) {
      F32 m[kLanes] = {};
      for (int64_t i = 0; i < n; ++i) m[i] = load_f32(totals + (r + i) * stride + g * kLanes);
      transpose(m);
      for (int64_t t = 0; t < kLanes && g * kLanes + t < task.n_tokens; ++t) {
        float* to = task.out + (g * kLanes + t) * task.w.rows + row + r;
        if (n == kLanes) {
          store(to, m[t]);
        } else {
          store_f32_part(to, m[t], n);
        }
      }
    }
  }
}

void fill_zero(float* values, int64_t n) {
  for (int64_t i = 0; i < n; ++i) values[i] = 0;
}

template <class Type>
void rows_of_type(const GemmTask& task, int64_t row, int64_t n_rows, float* scratch) {
  const int64_t n_weights = padded_rows(n_rows) * kGemmColumns;
  const int64_t n_sums = tile_values(task, n_rows);
  float* weights = scratch;
  float* sums = weights + n_weights;
  float* totals = sums + n_sums;
  // The rows that fill up the last tile are not used, but odd numbers in them cost time.
  fill_zero(weights + n_rows * kGemmColumns, n_weights - n_rows * kGemmColumns);
  fill_zero(totals, n_sums);
  const int64_t n_blocks = (task.w.cols + kGemmColumns - 1) / kGemmColumns;
  for (int64_t block = 0; block < n_blocks; ++block) {
    if (block % kSectionBlocks == 0) fill_zero(sums, n_sums);
    expand<Type>(task, row, n_rows, block * kGemmColumns, columns_of_block(task, block), weights);
    add_block(task, block, n_rows, weights, sums);
    if (block % kSectionBlocks == kSectionBlocks - 1 || block == n_blocks - 1) {
      for (int64_t i = 0; i < n_sums; ++i) totals[i] += sums[i];
    }
  }
  write_out(task, row, n_rows, totals);
}

void rows(const GemmTask& task, int64_t row_begin, int64_t row_end, float* scratch) {
  with_type(task.w.type, [&](auto type) {
    rows_of_type<decltype(type)>(task, row_begin, row_end - row_begin, scratch);
  });
}

}  // namespace

const GemmKernels gemm_kernels = {kLanes, kTileRows, pack, scratch_values, rows};

}  // namespace greta::GRETA_ISA
