#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/gpu/device.h"
#include "tests/kernels/values.h"

namespace greta {

/// Tests that run kernels: on the emulator, or on a GPU (script/gpu-test).
class GpuTest : public testing::Test {
 protected:
  template <class T>
  DeviceBuffer<T> upload(const std::vector<T>& values) {
    DeviceBuffer<T> buffer(values.size(), "test data");
    copy_to_device<T>(values, buffer.data(), stream_);
    return buffer;
  }
  template <class T>
  std::vector<T> download(const DeviceBuffer<T>& buffer) {
    std::vector<T> values(buffer.size());
    copy_to_host<T>(buffer.data(), values, stream_);
    stream_.synchronize();
    return values;
  }
  /// A buffer that no kernel has written yet.
  template <class T>
  DeviceBuffer<T> buffer(size_t n) {
    DeviceBuffer<T> result(n, "test data");
    set_bytes(result.data(), n, 0xff, stream_);
    return result;
  }

  Stream stream_;
};

inline std::vector<uint32_t> bits_of(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

/// How far value is from exact, in units of the last place that exact has as an f32; 0 for two
/// zeros.
inline double ulps(float value, double exact) {
  const double unit =
      exact == 0 ? 0x1p-149 : std::ldexp(1.0, std::max(std::ilogb(exact), -126) - 23);
  return std::fabs(static_cast<double>(value) - exact) / unit;
}

}  // namespace greta
