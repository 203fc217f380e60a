#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/quantise.h"
#include "kernels/gpu/matmul_valu.h"
#include "kernels/gpu/weight_layout.h"
#include "kernels/gpu/weight_planes.h"
#include "tests/kernels/gpu/gpu_test.h"
#include "tests/kernels/random_blocks.h"

namespace greta {

/// Weights for tests: on the host as in a file, with their values, and on the device.
struct TestWeights {
  WeightType type;
  size_t rows, cols;
  std::vector<std::byte> bytes;  ///< as in a file
  std::vector<float> values;
  DeviceBuffer<std::byte> device;  ///< in the layout of the device

  Matrix host_matrix() const { return matrix(bytes.data()); }
  Matrix device_matrix() const { return matrix(device.data()); }

 private:
  Matrix matrix(const std::byte* data) const {
    return {type, data, static_cast<int64_t>(rows), static_cast<int64_t>(cols)};
  }
};

inline TestWeights make_weights(WeightType type, size_t rows, size_t cols,
                                std::vector<std::byte> bytes, Stream& stream) {
  TestWeights w{type, rows, cols, std::move(bytes), std::vector<float>(rows * cols), {}};
  dequantise(type, w.bytes, w.values);
  w.device = DeviceBuffer<std::byte>(w.bytes.size(), "test weights");
  if (!has_planes(type)) {
    copy_to_device<std::byte>(w.bytes, w.device.data(), stream);
  } else {
    const DeviceBuffer<std::byte> file(w.bytes.size(), "test weights");
    copy_to_device<std::byte>(w.bytes, file.data(), stream);
    Matrix matrix = w.device_matrix();
    matrix.data = file.data();
    arrange_planes(matrix, w.device.data(), stream);
    stream.synchronize();
  }
  return w;
}

/// Roughly normal weights, stored as well as the type can.
inline TestWeights bell_weights(WeightType type, size_t rows, size_t cols, uint32_t seed,
                                Stream& stream, double sigma = 1) {
  const WeightTypeInfo& info = weight_type_info(type);
  std::vector<std::byte> bytes(rows * cols / info.block_values * info.block_bytes);
  quantise(type, bell_values(seed, rows * cols, sigma), bytes);
  return make_weights(type, rows, cols, std::move(bytes), stream);
}

/// Weights of random bytes, but for their scales: finite, below 2.
inline TestWeights random_weights(WeightType type, size_t rows, size_t cols, uint32_t seed,
                                  Stream& stream) {
  const WeightTypeInfo& info = weight_type_info(type);
  if (info.block_values == 1) return bell_weights(type, rows, cols, seed, stream);
  return make_weights(type, rows, cols, random_blocks(type, rows * cols, seed), stream);
}

/// A number of columns with less and more than a whole step of any product, odd where that can be.
inline std::vector<size_t> column_counts(const WeightTypeInfo& info) {
  if (info.block_values == 1) return {1, 7, 64, 1000, 2051, 4104};
  return {info.block_values, 7 * info.block_values, 4096 + 3 * info.block_values};
}

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
