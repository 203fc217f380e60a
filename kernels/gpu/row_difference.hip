#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/fingerprint/fingerprint.h"
#include "kernels/gpu/row_difference.h"
#include "kernels/gpu/runtime.h"

// Thread t of a block has lane t of every sum of one part of a row: blocks are as long as sums have
// lanes, so that the order of a sum is that of the host, whatever a wavefront is.

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
  double lanes[kMaxSegments + 2][kThreads];  // of x and of y, then of segments
  Extremes extremes[kThreads];
};
constexpr int kOfX = 0, kOfY = 1, kOfSegments = 2;

__device__ bool is_nan(uint32_t bits) { return (bits & kMagnitudeMask) > kInfinityBits; }
__device__ bool is_finite(uint32_t bits) { return (bits & kMagnitudeMask) < kInfinityBits; }

__device__ void add_values(const RowPair& pair, int64_t begin, int64_t end, Shared& shared,
                           int thread) {
  Extremes own{0, -1, -1, -1, 0, 0};
  for (int64_t i = begin + thread; i < end; i += kThreads) {
    const float x_value = pair.x[i], y_value = pair.y[i];
    const auto x_bits = bits_as<uint32_t>(x_value), y_bits = bits_as<uint32_t>(y_value);
    if (x_bits != y_bits && !(is_nan(x_bits) && is_nan(y_bits))) {
      ++own.differing;
      if (own.first < 0) own.first = i;
      own.last = i;
    }
    if (!is_finite(x_bits) || !is_finite(y_bits)) continue;
    const double x = static_cast<double>(x_value), y = static_cast<double>(y_value);
    shared.lanes[kOfX][thread] += x * x;
    shared.lanes[kOfY][thread] += y * y;
    if (x_bits == y_bits) continue;
    const double difference = y - x;
    shared.lanes[kOfSegments + pair.segments.of(i, pair.n)][thread] += difference * difference;
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

/// Lane 0 of every sum becomes the sum, and extremes[0] the block's.
__device__ void add_lanes(int n_sums, Shared& shared, int thread) {
  for (int step = kThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    for (int i = thread; i < step * n_sums; i += kThreads) {
      double* const lanes = shared.lanes[i / step];
      lanes[i % step] += lanes[i % step + step];
    }
    if (thread < step) shared.extremes[thread].take(shared.extremes[thread + step]);
  }
  __syncthreads();
}

__global__ __launch_bounds__(kThreads) void row_task_kernel(const RowTask* tasks,
                                                            RowDifference* results) {
  GRETA_SHARED(Shared, shared);
  const auto thread = static_cast<int>(threadIdx.x);
  const RowTask task = tasks[blockIdx.x];
  const RowPair& pair = task.pair;
  const int64_t left = pair.n - task.first;
  const int64_t n = left < kDifferencePart ? left : kDifferencePart, end = task.first + n;
  if (task.keep != nullptr) {
    for (int64_t i = task.first + thread; i < end; i += kThreads) task.keep[i] = pair.y[i];
  }
  if (pair.x == nullptr) return;
  const int n_sums = kOfSegments + pair.segments.n;
  for (int s = 0; s < n_sums; ++s) shared.lanes[s][thread] = 0;
  add_values(pair, task.first, end, shared, thread);
  add_lanes(n_sums, shared, thread);
  RowDifference& result = results[task.result];
  for (int s = thread; s < kMaxSegments; s += kThreads) {
    result.segment_sum_sq[s] = s < pair.segments.n ? shared.lanes[kOfSegments + s][0] : 0.0;
  }
  if (thread != 0) return;
  const Extremes& all = shared.extremes[0];
  result.n = n;
  result.differing = all.differing;
  result.first = all.first;
  result.last = all.last;
  result.max_abs = all.max_abs;
  result.max_abs_at = all.max_abs_at;
  result.max_ulp = all.max_ulp;
  result.x_sum_sq = shared.lanes[kOfX][0];
  result.y_sum_sq = shared.lanes[kOfY][0];
}

}  // namespace

void add_row_tasks(const RowPair& pair, float* keep, size_t& n_results,
                   std::vector<RowTask>& tasks) {
  if (pair.x == nullptr && keep == nullptr) return;
  for (int64_t first = 0; first < pair.n; first += kDifferencePart) {
    tasks.push_back({pair, keep, first, static_cast<int64_t>(n_results)});
    if (pair.x != nullptr) ++n_results;
  }
}

void run_row_tasks(const RowTask* tasks, int64_t n, RowDifference* results, Stream& stream) {
  if (n < 0 || n > std::numeric_limits<int32_t>::max()) {
    throw std::invalid_argument("run_row_tasks: " + std::to_string(n) +
                                " tasks, at most 2^31 - 1 are supported");
  }
  launch({.name = "row_tasks", .grid = static_cast<unsigned>(n), .block = kThreads}, stream,
         row_task_kernel, tasks, results);
}

}  // namespace greta
