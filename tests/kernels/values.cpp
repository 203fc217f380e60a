#include "tests/kernels/values.h"

#include <random>

namespace greta {

// What is not inlined here the linker takes from elsewhere in the tests, hardly optimised.
[[gnu::flatten]] Values bell_values(uint32_t seed, size_t n, double sigma) {
  std::mt19937 random(seed);
  Values values(n);
  for (float& value : values) {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random()) * 0x1p-32;
    value = static_cast<float>(sum * sigma);
  }
  return values;
}

}  // namespace greta
