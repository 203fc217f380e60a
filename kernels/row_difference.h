#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

// How two rows differ, value by value. The same bits on every device: differences are taken in
// double, and every sum has one order, whoever computes it.

namespace greta {

inline constexpr int kMaxSegments = 32;

/// Which part of a row a value belongs to: its head, where the row has heads, else a slice.
struct RowSegments {
  int32_t n = 1;       ///< 1 .. kMaxSegments
  int64_t period = 0;  ///< 0: n equal slices; else the parts repeat with every `period` values

  /// What the parts divide, of a row of `length`: all of it, or one period.
  constexpr int64_t whole(int64_t length) const { return period > 0 ? period : length; }
  /// The part of a value at `index` in that.
  constexpr int at(int64_t index, int64_t length) const {
    return static_cast<int>(index * n / whole(length));
  }
  /// Where in that a part ends.
  constexpr int64_t end(int segment, int64_t length) const {
    return ((segment + 1) * whole(length) + n - 1) / n;
  }
  constexpr int of(int64_t index, int64_t length) const {
    return at(index % whole(length), length);
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

  /// Takes the part of the row that comes next.
  void take(const RowDifference& next) {
    n += next.n;
    differing += next.differing;
    if (first < 0) first = next.first;
    if (next.last >= 0) last = next.last;
    if (next.max_abs_at >= 0 && (max_abs_at < 0 || next.max_abs > max_abs)) {
      max_abs = next.max_abs;
      max_abs_at = next.max_abs_at;
    }
    if (next.max_ulp > max_ulp) max_ulp = next.max_ulp;
    x_sum_sq += next.x_sum_sq;
    y_sum_sq += next.y_sum_sq;
    for (size_t s = 0; s < segment_sum_sq.size(); ++s) segment_sum_sq[s] += next.segment_sum_sq[s];
  }
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

/// A row is cut into parts of as many values, whose results are taken in ascending order, so that
/// many can be worked on at once.
inline constexpr int64_t kDifferencePart = 4096;
/// Sums of a part are kept in as many lanes, value i in lane i mod kDifferenceLanes, in ascending
/// order; then lane l takes lane l + 32, then l + 16, and so on to 1.
inline constexpr int kDifferenceLanes = 64;

/// How the rows of a pair differ. Host memory. Throws std::invalid_argument for segments that are
/// none.
RowDifference row_difference(const RowPair& pair);

}  // namespace greta
