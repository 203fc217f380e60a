#include "kernels/row_difference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/fingerprint/fingerprint.h"

namespace greta {
namespace {

using LaneSums = std::array<double, kDifferenceLanes>;

double total(LaneSums& lanes) {
  for (size_t step = kDifferenceLanes / 2; step > 0; step /= 2) {
    for (size_t lane = 0; lane < step; ++lane) lanes[lane] += lanes[lane + step];
  }
  return lanes[0];
}

bool is_nan(uint32_t bits) { return (bits & kMagnitudeMask) > kInfinityBits; }
bool is_finite(uint32_t bits) { return (bits & kMagnitudeMask) < kInfinityBits; }

/// The segments that values are of, one after the other: a division for each would take longer than
/// all else.
class SegmentCursor {
 public:
  SegmentCursor(const RowSegments& segments, int64_t n, int64_t first)
      : segments_(segments), n_(n), at_(first) {
    turn();
  }

  int segment() const { return segment_; }
  /// Values from here on that are of the same segment, `most` at most.
  int64_t run(int64_t most) const { return std::min(most, end_ - at_); }
  void advance(int64_t count) {
    at_ += count;
    if (at_ == end_) turn();
  }

 private:
  void turn() {
    segment_ = segments_.of(at_, n_);
    end_ = at_ - at_ % segments_.whole(n_) + segments_.end(segment_, n_);
  }

  RowSegments segments_;
  int64_t n_, at_;
  int64_t end_ = 0;  // of the segment
  int segment_ = 0;
};

/// Up to kDifferenceLanes values, as they go into the lanes; what is not finite goes in as 0.
struct Block {
  std::array<double, kDifferenceLanes> difference;
  bool differs = false;

  Block(const float* x, const float* y, size_t n, LaneSums& x_sums, LaneSums& y_sums) {
    uint32_t other_bits = 0;
    for (size_t lane = 0; lane < n; ++lane) {
      const auto x_bits = std::bit_cast<uint32_t>(x[lane]);
      const auto y_bits = std::bit_cast<uint32_t>(y[lane]);
      other_bits |= x_bits ^ y_bits;
      const bool both = is_finite(x_bits) && is_finite(y_bits);
      const double a = static_cast<double>(both ? x[lane] : 0.0f);
      const double b = static_cast<double>(both ? y[lane] : 0.0f);
      x_sums[lane] += a * a;
      y_sums[lane] += b * b;
      difference[lane] = b - a;
    }
    differs = other_bits != 0;
  }
};

/// Which values differ, and the greatest differences, of n values from number `begin` of the row.
void find_extremes(const float* x, const float* y, const Block& block, size_t n, int64_t begin,
                   RowDifference& result) {
  for (size_t lane = 0; lane < n; ++lane) {
    const auto x_bits = std::bit_cast<uint32_t>(x[lane]);
    const auto y_bits = std::bit_cast<uint32_t>(y[lane]);
    if (x_bits == y_bits || (is_nan(x_bits) && is_nan(y_bits))) continue;
    const int64_t i = begin + static_cast<int64_t>(lane);
    if (result.differing++ == 0) result.first = i;
    result.last = i;
    if (!is_finite(x_bits) || !is_finite(y_bits)) continue;
    const double size = std::fabs(block.difference[lane]);
    if (size > result.max_abs || result.max_abs_at < 0) {
      result.max_abs = size;
      result.max_abs_at = i;
    }
    const int64_t ulp = int64_t{order_key(x_bits)} - order_key(y_bits);
    result.max_ulp = std::max(result.max_ulp, ulp < 0 ? -ulp : ulp);
  }
}

/// Of the values from `begin` up to `end`.
RowDifference part_difference(const RowPair& pair, int64_t begin, int64_t end,
                              SegmentCursor& cursor, std::vector<LaneSums>& segments) {
  RowDifference result;
  result.n = end - begin;
  for (LaneSums& sums : segments) sums.fill(0);
  LaneSums x_sums{}, y_sums{};
  for (int64_t first = begin; first < end; first += kDifferenceLanes) {
    const auto n = static_cast<size_t>(std::min<int64_t>(kDifferenceLanes, end - first));
    const float *const x = pair.x + first, *const y = pair.y + first;
    const Block block(x, y, n, x_sums, y_sums);
    for (size_t lane = 0; lane < n;) {
      LaneSums& sums = segments[static_cast<size_t>(cursor.segment())];
      const auto count = static_cast<size_t>(cursor.run(static_cast<int64_t>(n - lane)));
      cursor.advance(static_cast<int64_t>(count));
      for (const size_t stop = lane + count; lane < stop; ++lane) {
        sums[lane] += block.difference[lane] * block.difference[lane];
      }
    }
    if (block.differs) find_extremes(x, y, block, n, first, result);
  }
  result.x_sum_sq = total(x_sums);
  result.y_sum_sq = total(y_sums);
  for (size_t s = 0; s < segments.size(); ++s) result.segment_sum_sq[s] = total(segments[s]);
  return result;
}

}  // namespace

RowDifference row_difference(const RowPair& pair) {
  if (pair.segments.n < 1 || pair.segments.n > kMaxSegments || pair.segments.period < 0) {
    throw std::invalid_argument("row_difference: a row has 1 to " + std::to_string(kMaxSegments) +
                                " segments, not " + std::to_string(pair.segments.n));
  }
  RowDifference result;
  if (pair.n == 0) return result;
  std::vector<LaneSums> segments(static_cast<size_t>(pair.segments.n));
  SegmentCursor cursor(pair.segments, pair.n, 0);
  for (int64_t begin = 0; begin < pair.n; begin += kDifferencePart) {
    const int64_t end = std::min(begin + kDifferencePart, pair.n);
    result.take(part_difference(pair, begin, end, cursor, segments));
  }
  return result;
}

}  // namespace greta
