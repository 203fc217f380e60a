#include "tests/kernels/kernel_fixture.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace greta {

double rel_l2(const Values& actual, const std::vector<double>& expected, double least_rms) {
  EXPECT_EQ(actual.size(), expected.size());
  double error = 0, norm = 0, n = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const auto value = static_cast<double>(actual[i]);
    if (!std::isfinite(value) && !std::isfinite(expected[i])) continue;
    if (!std::isfinite(value - expected[i])) return std::numeric_limits<double>::infinity();
    error += (value - expected[i]) * (value - expected[i]);
    norm += expected[i] * expected[i];
    ++n;
  }
  norm = std::max(norm, n * least_rms * least_rms);
  return norm == 0 ? std::sqrt(error) : std::sqrt(error / norm);
}

}  // namespace greta
