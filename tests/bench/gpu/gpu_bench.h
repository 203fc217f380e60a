#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/fingerprint/fingerprint.h"
#include "kernels/gpu/device.h"

namespace greta {

/// A kernel, or a few, timed as one: what it moves and computes at least.
struct BenchCase {
  std::string name;
  double bytes = 0;  ///< read and written, each once
  double flops = 0;
  std::function<void(Stream&)> run;  ///< queues it; owns its buffers
};

/// Numbers like activations, from -2 to 2.
inline DeviceBuffer<float> some_values(int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<int64_t>(mix64(i) >> 40) - (1 << 23)) * 0x1p-22f;
  }
  Stream stream;
  DeviceBuffer<float> buffer(values.size(), "values");
  copy_to_device<float>(values, buffer.data(), stream);
  stream.synchronize();
  return buffer;
}

std::vector<BenchCase> matmul_valu_cases();
std::vector<BenchCase> matmul_mfma_cases();
std::vector<BenchCase> attention_cases();
std::vector<BenchCase> small_cases();

}  // namespace greta
