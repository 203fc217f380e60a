// Values as the CPU stores and reads them.
#pragma once
#include <vector>

#include "kernels/cpu/dequantise.h"
#include "tests/kernels/kernel_fixture.h"

namespace greta {

using Bytes = std::vector<std::byte>;

inline Values expand(WeightType type, const Bytes& data, size_t n) {
  Values values(n);
  dequantise(type, data, values);
  return values;
}

}  // namespace greta
