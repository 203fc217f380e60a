#pragma once

#include <array>
#include <cmath>
#include <cstdint>

// How two rows differ, value by value. The same bits on every device: differences are taken in
// double, and every sum has one order, whoever computes it.

namespace greta {

inline constexpr int kMaxSegments = 32;

/// Which part of a row a value belongs to: its head, where the row has heads, else a slice.
struct RowSegments {
  int32_t n = 1;       ///< 1 .. kMaxSegments
  int64_t period = 0;  ///< 0: n equal slices; else the parts repeat with every `period` values

  constexpr int of(int64_t index, int64_t length) const {
    const int64_t whole = period > 0 ? period : length;
    return static_cast<int>((period > 0 ? index % period : index) * n / whole);
  }
};

/// Two rows x and y of n f32 values each, to be compared.
struct RowPair {
  const float* x = nullptr;
  const float* y = nullptr;
  int64_t n = 0;
  RowSegments segments;
};

/// What is different. Values of which one is not finite count in `differing`, `first` and `last`
/// only.
struct RowDifference {
  int64_t n = 0;
  int64_t differing = 0;          ///< values whose bits differ; every NaN is alike
  int64_t first = -1, last = -1;  ///< of those; -1 none
  double max_abs = 0;             ///< greatest |y - x|
  int64_t max_abs_at = -1;        ///< its index, the lowest; -1: nothing differs
  int64_t max_ulp = 0;            ///< greatest number of floats between x and y, 1 for neighbours
  double x_sum_sq = 0, y_sum_sq = 0;
  std::array<double, kMaxSegments> segment_sum_sq{};  ///< Σ (y - x)² of each segment

  double sum_sq() const {
    double sum = 0;
    for (double one : segment_sum_sq) sum += one;
    return sum;
  }
  /// ‖y − x‖ over the larger norm: 0 for equal rows, 1 for a row of zeros against another.
  double rel_l2() const {
    const double norm = x_sum_sq > y_sum_sq ? x_sum_sq : y_sum_sq;
    return norm > 0 ? std::sqrt(sum_sq() / norm) : 0.0;
  }
};

/// Sums are kept in as many parts, value i in part i mod kDifferenceLanes, in ascending order; then
/// part p takes part p + 32, then p + 16, and so on to 1.
inline constexpr int kDifferenceLanes = 64;

}  // namespace greta
