#include "kernels/cpu/matmul.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/blocks.h"
#include "kernels/cpu/quantise.h"
#include "kernels/cpu/simd_kernels.h"

namespace greta {
namespace {

// Below this many products, waking another thread takes longer than it saves.
constexpr int64_t kMinProducts = 1 << 16;
// Pieces are small against what a thread does in a whole product, so that one that is interrupted
// holds up little.
constexpr int64_t kPiecesPerThread = 8;
constexpr int64_t kDotPieceBytes = 128 << 10;
constexpr int64_t kGemmPieceRows = 48;

// Tokens of one gemm pass: their packed block of columns and the sums of a piece share a
// second-level cache with the weights.
constexpr int64_t kGemmTokens = 512;

// One is shared by a call's threads and owned by the caller's, the other is each thread's own.
thread_local ThreadScratch t_shared;
thread_local ThreadScratch t_own;

void check(const char* function, const Matrix& w, int64_t n_tokens) {
  const auto block = static_cast<int64_t>(weight_type_info(w.type).block_values);
  if (w.rows < 0 || n_tokens < 0 || w.cols < 0 || w.cols % block != 0) {
    throw std::invalid_argument(std::string(function) + ": " + std::to_string(w.rows) + " × " +
                                std::to_string(w.cols) + " weights of type " +
                                std::string(weight_type_info(w.type).name) + ", " +
                                std::to_string(n_tokens) + " tokens");
  }
}

// Rows of a piece: at most `most`, a multiple of `unit`; all rows when the product is small.
int64_t piece_rows(const Matrix& w, int64_t n_tokens, const ThreadPool& pool, int64_t most,
                   int64_t unit) {
  const int64_t products_of_row = std::max<int64_t>(1, w.cols * n_tokens);
  const int64_t least = divide_up(kMinProducts, products_of_row);
  const int64_t share = divide_up(w.rows, kPiecesPerThread * pool.size());
  return divide_up(std::max(least, std::min(most, share)), unit) * unit;
}

bool is_aligned(const float* values) {
  return reinterpret_cast<uintptr_t>(values) % ThreadScratch::kBytes == 0;
}

// Where tokens are not aligned they are copied to t_shared: a vector that straddles cache lines
// takes two loads.
void align_tokens(ThreadPool& pool, DotTask& task) {
  constexpr auto kAlignedValues = static_cast<int64_t>(ThreadScratch::kBytes / sizeof(float));
  const int64_t cols = task.w.cols;
  if (is_aligned(task.x) && cols % kAlignedValues == 0) return;
  const float* x = task.x;
  const int64_t stride = divide_up(cols, kAlignedValues) * kAlignedValues;
  float* copy = t_shared.get(task.n_tokens * stride);
  pool.run(task.n_tokens, divide_up(kMinProducts, std::max<int64_t>(1, cols)),
           [&](int64_t begin, int64_t end) {
             for (int64_t t = begin; t < end; ++t)
               std::copy_n(x + t * cols, cols, copy + t * stride);
           });
  task.x = copy;
  task.x_stride = stride;
}

// n_tokens ≤ kGemmTokens
void gemm_pass(const GemmKernels& kernels, const Matrix& w, const float* x, int64_t n_tokens,
               float* out, ThreadPool& pool) {
  GemmTask task{.w = w, .x = x, .n_tokens = n_tokens, .out = out};
  task.n_groups = divide_up(n_tokens, kernels.lanes);
  const int64_t n_parts = divide_up(w.cols, kGemmColumns) * task.n_groups;
  const int64_t part_values = kGemmColumns * kernels.lanes;
  task.packed = t_shared.get(n_parts * part_values);
  pool.run(n_parts, divide_up(kMinProducts, part_values),
           [&](int64_t begin, int64_t end) { kernels.pack(task, begin, end); });
  const int64_t piece = piece_rows(w, n_tokens, pool, kGemmPieceRows, kernels.tile_rows);
  pool.run(w.rows, piece, [&](int64_t begin, int64_t end) {
    kernels.rows(task, begin, end, t_own.get(kernels.scratch_values(task, end - begin)));
  });
}

}  // namespace

void matmul_dot(const Matrix& w, const float* x, int64_t n_tokens, float* out, ThreadPool& pool,
                Isa isa) {
  check("matmul_dot", w, n_tokens);
  const DotKernels& kernels = GRETA_SELECT_KERNELS(isa, dot_kernels);
  DotTask task{.w = w, .x = x, .x_stride = w.cols, .n_tokens = n_tokens, .out = out};
  align_tokens(pool, task);
  const auto row_bytes = static_cast<int64_t>(std::max<size_t>(1, w.row_bytes()));
  const int64_t scratch = kernels.scratch_values(n_tokens);
  const int64_t piece =
      piece_rows(w, n_tokens, pool, std::max<int64_t>(1, kDotPieceBytes / row_bytes),
                 scratch > 0 ? kernels.block_rows : 1);
  pool.run(w.rows, piece, [&](int64_t begin, int64_t end) {
    kernels.rows(task, begin, end, scratch > 0 ? t_own.get(scratch) : nullptr);
  });
}

void matmul_gemm(const Matrix& w, const float* x, int64_t n_tokens, float* out, ThreadPool& pool,
                 Isa isa) {
  check("matmul_gemm", w, n_tokens);
  const GemmKernels& kernels = GRETA_SELECT_KERNELS(isa, gemm_kernels);
  for (int64_t t = 0; t < n_tokens; t += kGemmTokens) {
    gemm_pass(kernels, w, x + t * w.cols, std::min(kGemmTokens, n_tokens - t), out + t * w.rows,
              pool);
  }
}

void matmul_dot(const Matrix& w, const float* x, int64_t n_tokens, float* out, ThreadPool& pool) {
  matmul_dot(w, x, n_tokens, out, pool, best_isa());
}

void matmul_gemm(const Matrix& w, const float* x, int64_t n_tokens, float* out, ThreadPool& pool) {
  matmul_gemm(w, x, n_tokens, out, pool, best_isa());
}

void matmul_fp16_accumulate(const Matrix& w, const float* x, int64_t n_tokens, int64_t step,
                            float* out, ThreadPool& pool) {
  check("matmul_fp16_accumulate", w, n_tokens);
  if (step < 1) throw std::invalid_argument("matmul_fp16_accumulate: step must be at least 1");
  const auto n_columns = static_cast<size_t>(w.cols);
  pool.run(w.rows, 1, [&](int64_t row, int64_t) {
    std::vector<float> weights(n_columns);
    dequantise(w.type, {w.data + static_cast<size_t>(row) * w.row_bytes(), w.row_bytes()}, weights);
    for (int64_t t = 0; t < n_tokens; ++t) {
      const float* token = x + t * w.cols;
      float sum = 0;
      for (int64_t k = 0; k < w.cols; ++k) {
        sum += weights[static_cast<size_t>(k)] * token[k];
        if ((k + 1) % step == 0 || k + 1 == w.cols) sum = f16_to_f32(f32_to_f16(sum));
      }
      out[t * w.rows + row] = sum;
    }
  });
}

}  // namespace greta
