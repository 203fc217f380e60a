#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/simd/isa.h"
#include "tests/kernels/values.h"

// What the tests of the CPU kernels share: comparisons, and every instruction set at hand.

namespace greta {

/// Those that this processor has.
inline std::vector<Isa> instruction_sets() {
  std::vector<Isa> isas;
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa <= best_isa()) isas.push_back(isa);
  }
  return isas;
}

/// A test that runs once per instruction set: derive, then GRETA_EVERY_ISA(Derived).
class IsaTest : public testing::TestWithParam<Isa> {};

inline std::string isa_test_name(const testing::TestParamInfo<Isa>& info) {
  return isa_name(info.param);
}

#define GRETA_EVERY_ISA(Suite) \
  INSTANTIATE_TEST_SUITE_P(Every, Suite, testing::ValuesIn(instruction_sets()), isa_test_name)

inline bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// ‖actual − expected‖ / ‖expected‖ over the values that are finite; infinite where only one is.
/// A root mean square of the expected values below `least_rms` counts as least_rms: the measure of
/// values that come out near 0 by cancellation.
double rel_l2(const Values& actual, const std::vector<double>& expected, double least_rms = 0);

}  // namespace greta
