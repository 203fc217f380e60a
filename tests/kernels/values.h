// Numbers that tests of kernels compute with.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace greta {

using Values = std::vector<float>;

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

/// Roughly normal, from integers: the same on every standard library.
Values bell_values(uint32_t seed, size_t n, double sigma = 1);

/// `n` values from `first` on.
Values slice(const Values& values, std::integral auto first, std::integral auto n) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(n)};
}

}  // namespace greta
