#include "kernels/gpu/matmul_fp16_accumulate.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/matmul.h"
#include "tests/kernels/gpu/gpu_test.h"
#include "tests/kernels/gpu/weights.h"

namespace greta {
namespace {

class GpuMatmulFp16Accumulate : public GpuTest {};

TEST_F(GpuMatmulFp16Accumulate, AnAccumulatorInHalfPrecisionHasTheCpusBits) {
  ThreadPool pool(1);
  for (const WeightTypeInfo& info : kWeightTypes) {
    const size_t cols = info.block_values == 1 ? 333 : 2 * std::max<size_t>(info.block_values, 96);
    const TestWeights w = bell_weights(info.type, 70, cols, 1, stream_);
    const Values x = bell_values(2, 2 * cols);
    const auto device_x = upload(x);
    for (int64_t step : {1, 7, 64, 5000}) {
      auto out = buffer<float>(2 * w.rows);
      matmul_fp16_accumulate(device_x.data(), 2, step, {w.device_matrix(), out.data()}, stream_);
      Values expected(out.size());
      matmul_fp16_accumulate(w.host_matrix(), x.data(), 2, step, expected.data(), pool);
      EXPECT_EQ(bits_of(download(out)), bits_of(expected)) << info.name << " " << step;
    }
  }
}

TEST_F(GpuMatmulFp16Accumulate, WhatDoesNotFitIsRefused) {
  const auto x = upload(Values(512, 0.0f));
  auto out = buffer<float>(64);
  const std::byte* const data = nullptr;
  EXPECT_THROW(matmul_fp16_accumulate(x.data(), 1, 0, {{WeightType::kF32, data, 1, 64}, out.data()},
                                      stream_),
               std::invalid_argument);
  EXPECT_THROW(matmul_fp16_accumulate(x.data(), 1, 1,
                                      {{WeightType::kQ4_K, data, 1, 128}, out.data()}, stream_),
               std::invalid_argument);
}

}  // namespace
}  // namespace greta
