#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/blocks.h"
#include "kernels/cpu/quantise.h"
#include "kernels/matrix.h"
#include "tests/kernels/kernel_fixture.h"

// Values as the CPU stores and reads them.

namespace greta {

/// Where the f16 numbers of a block lie that scale its values.
inline std::vector<size_t> scale_places(WeightType type) {
  switch (type) {
    case WeightType::kQ4_1:
    case WeightType::kQ5_1:
    case WeightType::kQ4_K:
    case WeightType::kQ5_K:
      return {0, 2};
    case WeightType::kQ2_K:
      return {offsetof(BlockQ2K, d), offsetof(BlockQ2K, dmin)};
    case WeightType::kQ3_K:
      return {offsetof(BlockQ3K, d)};
    case WeightType::kQ6_K:
      return {offsetof(BlockQ6K, d)};
    default:
      return {0};
  }
}

/// Random bytes as blocks of a quantised type, but for their scales: finite, below 2.
inline std::vector<std::byte> random_blocks(WeightType type, size_t n_values, uint32_t seed) {
  const WeightTypeInfo& info = weight_type_info(type);
  std::vector<std::byte> bytes(n_values / info.block_values * info.block_bytes);
  std::mt19937 random(seed);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() >> 24);
  for (size_t block = 0; block < bytes.size(); block += info.block_bytes) {
    // Without the highest bit of the exponent.
    for (const size_t place : scale_places(type)) bytes[block + place + 1] &= std::byte{0xbf};
  }
  return bytes;
}

using Bytes = std::vector<std::byte>;

inline Values expand(WeightType type, const Bytes& data, size_t n) {
  Values values(n);
  dequantise(type, data, values);
  return values;
}

}  // namespace greta
