#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/gpu/dequant.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/matmul_valu.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/weight_planes.h"

// out[t][r] = sum over k, in order, of x[t][k]·w[r][k], rounded to f16 after every `step` of them:
// a thread per row. Weights are expanded a few columns at a time, by all threads together, so that
// they read next to each other.

namespace greta {
namespace {

constexpr int kChainThreads = 64;
constexpr int kChainColumns = 32;

template <WeightType kType>
__global__ __launch_bounds__(kChainThreads) void fp16_accumulate_kernel(const float* x,
                                                                        DeviceWeights w,
                                                                        int64_t rows, int64_t cols,
                                                                        int64_t step, float* out) {
  GRETA_SHARED(float, weights, [kChainThreads][kChainColumns + 1]);
  constexpr int kEach = kWeightsPerLoad<kType>;
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * kChainThreads;
  const int thread = static_cast<int>(threadIdx.x);
  const float* const token = x + blockIdx.y * cols;
  float sum = 0;
  for (int64_t begin = 0; begin < cols; begin += kChainColumns) {
    __syncthreads();
    for (int i = thread * kEach; i < kChainThreads * kChainColumns; i += kChainThreads * kEach) {
      const int64_t row = first_row + i / kChainColumns, column = begin + i % kChainColumns;
      if (row >= rows || column >= cols) continue;
      float values[kEach];
      load_weights<kType>(w, row * cols + column, values);
      for (int j = 0; j < kEach; ++j) weights[i / kChainColumns][i % kChainColumns + j] = values[j];
    }
    __syncthreads();
    if (first_row + thread >= rows) continue;
    for (int i = 0; i < kChainColumns && begin + i < cols; ++i) {
      const int64_t n_added = begin + i + 1;
      sum += weights[thread][i] * token[begin + i];
      if (n_added % step == 0 || n_added == cols) sum = f16_value(f16_bits(sum));
    }
  }
  if (first_row + thread < rows) out[blockIdx.y * rows + first_row + thread] = sum;
}

}  // namespace

void matmul_fp16_accumulate(const float* x, int64_t n_tokens, int64_t step, const Product& product,
                            Stream& stream) {
  const Matrix& w = product.w;
  const auto block = static_cast<int64_t>(weight_type_info(w.type).block_values);
  if (w.rows < 0 || w.cols < 0 || w.cols % block != 0) {
    throw std::invalid_argument("matmul_fp16_accumulate: " + std::to_string(w.rows) + " × " +
                                std::to_string(w.cols) + " weights of type " +
                                std::string(weight_type_info(w.type).name));
  }
  if (step < 1) throw std::invalid_argument("matmul_fp16_accumulate: step must be at least 1");
  with_weight_type(w.type, [&](auto constant) {
    // A grid is at most 65535 high.
    constexpr int64_t kMaxTokens = 65535;
    for (int64_t first = 0; first < n_tokens; first += kMaxTokens) {
      const auto tokens = static_cast<unsigned>(std::min(kMaxTokens, n_tokens - first));
      launch({"matmul_fp16_accumulate", {blocks_for(w.rows, kChainThreads), tokens}, kChainThreads},
             stream, fp16_accumulate_kernel<decltype(constant)::value>, x + first * w.cols,
             device_weights(w), w.rows, w.cols, step, product.out + first * w.rows);
    }
  });
}

}  // namespace greta
