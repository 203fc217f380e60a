#pragma once

#include <cstddef>
#include <vector>

#include "kernels/gpu/matmul_valu.h"
#include "tests/kernels/gpu/gpu_test.h"
#include "tests/kernels/gpu/weights.h"

// Fixture of tests of kernels/gpu/matmul_valu.h.

namespace greta {

class GpuMatmulValu : public GpuTest {
 protected:
  /// One product on its own.
  Values product(const Values& x, const TestWeights& w) {
    const size_t n_tokens = x.size() / w.cols;
    const auto device_x = upload(x);
    auto out = buffer<float>(n_tokens * w.rows);
    const Product product{w.device_matrix(), out.data()};
    matmul_valu(device_x.data(), static_cast<int64_t>(n_tokens), {&product, 1}, stream_);
    return download(out);
  }
};

}  // namespace greta
