#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/fingerprint/fingerprint.h"
#include "kernels/gpu/row_difference.h"
#include "kernels/gpu/runtime.h"

// Thread t of a block has the parts t of every sum of one pair of rows: blocks are as long as sums
// have parts, so that the order of a sum is that of the host, whatever a wavefront is.

namespace greta {
namespace {

constexpr int kThreads = kDifferenceLanes;

// What a thread has seen, and then what it and those that it took over have.
struct Extremes {
  int64_t differing, first, last, max_abs_at, max_ulp;
  double max_abs;

  __device__ void take(const Extremes& other) {
    differing += other.differing;
    if (other.first >= 0 && (first < 0 || other.first < first)) first = other.first;
    if (other.last > last) last = other.last;
    if (other.max_ulp > max_ulp) max_ulp = other.max_ulp;
    if (other.max_abs_at >= 0 && (max_abs_at < 0 || other.max_abs > max_abs ||
                                  (other.max_abs == max_abs && other.max_abs_at < max_abs_at))) {
      max_abs = other.max_abs;
      max_abs_at = other.max_abs_at;
    }
  }
};

struct Shared {
  double parts[kMaxSegments + 2][kThreads];  // of segments, then of x and of y
  Extremes extremes[kThreads];
};
constexpr int kOfX = kMaxSegments, kOfY = kMaxSegments + 1;

__device__ bool is_nan(uint32_t bits) { return (bits & kMagnitudeMask) > kInfinityBits; }
__device__ bool is_finite(uint32_t bits) { return (bits & kMagnitudeMask) < kInfinityBits; }

__device__ void add_values(const RowPair& pair, Shared& shared, int thread) {
  Extremes own{0, -1, -1, -1, 0, 0};
  for (int64_t i = thread; i < pair.n; i += kThreads) {
    const float x_value = pair.x[i], y_value = pair.y[i];
    const auto x_bits = bits_as<uint32_t>(x_value), y_bits = bits_as<uint32_t>(y_value);
    if (x_bits != y_bits && !(is_nan(x_bits) && is_nan(y_bits))) {
      ++own.differing;
      if (own.first < 0) own.first = i;
      own.last = i;
    }
    if (!is_finite(x_bits) || !is_finite(y_bits)) continue;
    const double x = static_cast<double>(x_value), y = static_cast<double>(y_value);
    shared.parts[kOfX][thread] += x * x;
    shared.parts[kOfY][thread] += y * y;
    if (x_bits == y_bits) continue;
    const double difference = y - x;
    shared.parts[pair.segments.of(i, pair.n)][thread] += difference * difference;
    const double size = difference < 0 ? -difference : difference;
    if (own.max_abs_at < 0 || size > own.max_abs) {
      own.max_abs = size;
      own.max_abs_at = i;
    }
    const int64_t ulp = static_cast<int64_t>(order_key(x_bits)) - order_key(y_bits);
    const int64_t distance = ulp < 0 ? -ulp : ulp;
    if (distance > own.max_ulp) own.max_ulp = distance;
  }
  shared.extremes[thread] = own;
}

__global__ __launch_bounds__(kThreads) void row_difference_kernel(const RowPair* pairs,
                                                                  RowDifference* results) {
  GRETA_SHARED(Shared, shared);
  const auto thread = static_cast<int>(threadIdx.x);
  const RowPair pair = pairs[blockIdx.x];
  for (int s = 0; s < kMaxSegments + 2; ++s) shared.parts[s][thread] = 0;
  add_values(pair, shared, thread);
  for (int step = kThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (thread < step) {
      for (int s = 0; s < kMaxSegments + 2; ++s) {
        shared.parts[s][thread] += shared.parts[s][thread + step];
      }
      shared.extremes[thread].take(shared.extremes[thread + step]);
    }
  }
  if (thread != 0) return;
  RowDifference& result = results[blockIdx.x];
  const Extremes& all = shared.extremes[0];
  result.n = pair.n;
  result.differing = all.differing;
  result.first = all.first;
  result.last = all.last;
  result.max_abs = all.max_abs;
  result.max_abs_at = all.max_abs_at;
  result.max_ulp = all.max_ulp;
  result.x_sum_sq = shared.parts[kOfX][0];
  result.y_sum_sq = shared.parts[kOfY][0];
  for (int s = 0; s < kMaxSegments; ++s) result.segment_sum_sq[s] = shared.parts[s][0];
}

}  // namespace

void row_differences(const RowPair* pairs, int64_t n, RowDifference* results, Stream& stream) {
  if (n < 0 || n > std::numeric_limits<int32_t>::max()) {
    throw std::invalid_argument("row_differences: " + std::to_string(n) +
                                " pairs, at most 2^31 - 1 are supported");
  }
  if (n == 0) return;
  launch({.name = "row_differences", .grid = static_cast<unsigned>(n), .block = kThreads}, stream,
         row_difference_kernel, pairs, results);
}

}  // namespace greta
