#include "kernels/cpu/row_difference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/fingerprint/fingerprint.h"

namespace greta {
namespace {

using PartSums = std::array<double, kDifferenceLanes>;

double total(PartSums& lanes) {
  for (size_t step = kDifferenceLanes / 2; step > 0; step /= 2) {
    for (size_t lane = 0; lane < step; ++lane) lanes[lane] += lanes[lane + step];
  }
  return lanes[0];
}

bool is_nan(uint32_t bits) { return (bits & kMagnitudeMask) > kInfinityBits; }

}  // namespace

RowDifference row_difference(const RowPair& pair) {
  const RowSegments& segments = pair.segments;
  if (segments.n < 1 || segments.n > kMaxSegments || segments.period < 0) {
    throw std::invalid_argument("row_difference: a row has 1 to " + std::to_string(kMaxSegments) +
                                " segments, not " + std::to_string(segments.n));
  }
  RowDifference result;
  result.n = pair.n;
  std::vector<PartSums> parts(static_cast<size_t>(segments.n));
  PartSums x_parts{}, y_parts{};
  for (int64_t i = 0; i < pair.n; ++i) {
    const auto x_bits = std::bit_cast<uint32_t>(pair.x[i]);
    const auto y_bits = std::bit_cast<uint32_t>(pair.y[i]);
    const auto lane = static_cast<size_t>(i % kDifferenceLanes);
    if (x_bits != y_bits && !(is_nan(x_bits) && is_nan(y_bits))) {
      if (result.differing++ == 0) result.first = i;
      result.last = i;
    }
    if ((x_bits & kMagnitudeMask) >= kInfinityBits || (y_bits & kMagnitudeMask) >= kInfinityBits) {
      continue;
    }
    const double x = static_cast<double>(pair.x[i]), y = static_cast<double>(pair.y[i]);
    x_parts[lane] += x * x;
    y_parts[lane] += y * y;
    if (x_bits == y_bits) continue;
    const double difference = y - x;
    parts[static_cast<size_t>(segments.of(i, pair.n))][lane] += difference * difference;
    if (std::fabs(difference) > result.max_abs || result.max_abs_at < 0) {
      result.max_abs = std::fabs(difference);
      result.max_abs_at = i;
    }
    const int64_t ulp = int64_t{order_key(x_bits)} - order_key(y_bits);
    result.max_ulp = std::max(result.max_ulp, ulp < 0 ? -ulp : ulp);
  }
  result.x_sum_sq = total(x_parts);
  result.y_sum_sq = total(y_parts);
  for (size_t s = 0; s < parts.size(); ++s) result.segment_sum_sq[s] = total(parts[s]);
  return result;
}

}  // namespace greta
