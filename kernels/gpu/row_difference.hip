#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/fingerprint/fingerprint.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/fingerprint.h"
#include "kernels/gpu/runtime.h"

// Thread t of a block has lane t of every sum of one part of a row: blocks are as long as sums have
// lanes, so that the order of a sum is that of the host, whatever a wavefront is.

namespace greta {
namespace {

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
  double lanes[kMaxSegments + 2][kDifferenceLanes];  // of x and of y, then of segments
  Extremes extremes[kDifferenceLanes];
};
constexpr int kOfX = 0, kOfY = 1, kOfSegments = 2;

__device__ bool is_nan(uint32_t bits) { return (bits & kMagnitudeMask) > kInfinityBits; }
__device__ bool is_finite(uint32_t bits) { return (bits & kMagnitudeMask) < kInfinityBits; }

// The segments of every kDifferenceLanes-th value: a division for each would take longer than all
// else.
class SegmentCursor {
 public:
  __device__ SegmentCursor(const RowPair& pair, int64_t first)
      : pair_(pair),
        whole_(pair.segments.whole(pair.n)),
        step_(kDifferenceLanes % whole_),
        at_(first % whole_) {
    turn();
  }

  __device__ int segment() const { return segment_; }
  /// True if the next value is of another segment.
  __device__ bool advance() {
    at_ += step_;
    const bool wraps = at_ >= whole_;
    if (wraps) at_ -= whole_;
    if (at_ < end_ && !wraps) return false;
    const int before = segment_;
    turn();
    return segment_ != before;
  }

 private:
  __device__ void turn() {
    segment_ = pair_.segments.at(at_, pair_.n);
    end_ = pair_.segments.end(segment_, pair_.n);
  }

  const RowPair& pair_;
  int64_t whole_, step_, at_;
  int64_t end_ = 0;
  int segment_ = 0;
};

constexpr int kPairsAhead = 4;  // values that a thread has in hand: their latencies overlap

// A thread's next values of both rows; equal beyond the end.
struct PairsHand {
  float x[kPairsAhead], y[kPairsAhead];

  __device__ PairsHand(const RowPair& pair, int64_t base, int64_t end) {
    GRETA_UNROLL
    for (int j = 0; j < kPairsAhead; ++j) {
      const int64_t i = base + j * kDifferenceLanes;
      x[j] = i < end ? pair.x[i] : 0;
      y[j] = i < end ? pair.y[i] : 0;
    }
  }
};

__device__ void add_values(const RowPair& pair, int64_t begin, int64_t end, Shared& shared,
                           int thread) {
  Extremes own{0, -1, -1, -1, 0, 0};
  double x_sum = 0, y_sum = 0, segment_sum = 0;
  if (begin + thread < end) {
    SegmentCursor cursor(pair, begin + thread);
    for (int64_t base = begin + thread; base < end; base += kPairsAhead * kDifferenceLanes) {
      const PairsHand hand(pair, base, end);
      GRETA_UNROLL
      for (int j = 0; j < kPairsAhead; ++j) {
        const int64_t i = base + j * kDifferenceLanes;
        const auto x_bits = bits_as<uint32_t>(hand.x[j]), y_bits = bits_as<uint32_t>(hand.y[j]);
        const bool finite = is_finite(x_bits) && is_finite(y_bits);
        const double x = finite ? static_cast<double>(hand.x[j]) : 0;
        const double y = finite ? static_cast<double>(hand.y[j]) : 0;
        const double difference = y - x;
        x_sum += x * x;
        y_sum += y * y;
        segment_sum += difference * difference;
        if (x_bits != y_bits && !(is_nan(x_bits) && is_nan(y_bits))) {
          ++own.differing;
          if (own.first < 0) own.first = i;
          own.last = i;
          const double size = difference < 0 ? -difference : difference;
          if (finite && (own.max_abs_at < 0 || size > own.max_abs)) {
            own.max_abs = size;
            own.max_abs_at = i;
          }
          const int64_t ulp = static_cast<int64_t>(order_key(x_bits)) - order_key(y_bits);
          const int64_t distance = ulp < 0 ? -ulp : ulp;
          if (finite && distance > own.max_ulp) own.max_ulp = distance;
        }
        // The sum of a segment goes on where it was left, in the order of the host.
        const int segment = cursor.segment();
        if (cursor.advance()) {
          shared.lanes[kOfSegments + segment][thread] = segment_sum;
          segment_sum = shared.lanes[kOfSegments + cursor.segment()][thread];
        }
      }
    }
    shared.lanes[kOfSegments + cursor.segment()][thread] = segment_sum;
  }
  shared.lanes[kOfX][thread] = x_sum;
  shared.lanes[kOfY][thread] = y_sum;
  shared.extremes[thread] = own;
}

/// Lane 0 of every sum becomes the sum, and extremes[0] the block's.
__device__ void add_lanes(int n_sums, Shared& shared, int thread) {
  for (int step = kDifferenceLanes / 2; step > 0; step /= 2) {
    __syncthreads();
    for (int i = thread; i < step * n_sums; i += kDifferenceLanes) {
      double* const lanes = shared.lanes[i / step];
      lanes[i % step] += lanes[i % step + step];
    }
    if (thread < step) shared.extremes[thread].take(shared.extremes[thread + step]);
  }
  __syncthreads();
}

__device__ void store_extremes(const Extremes& all, RowDifference& result) {
  result.differing = all.differing;
  result.first = all.first;
  result.last = all.last;
  result.max_abs = all.max_abs;
  result.max_abs_at = all.max_abs_at;
  result.max_ulp = all.max_ulp;
}

__global__ __launch_bounds__(kDifferenceLanes) void row_task_kernel(const RowTask* tasks,
                                                                    RowDifference* parts) {
  GRETA_SHARED(Shared, shared);
  const auto thread = static_cast<int>(threadIdx.x);
  const RowTask task = tasks[blockIdx.x];
  const RowPair& pair = task.pair;
  const int64_t left = pair.n - task.first;
  const int64_t n = left < kDifferencePart ? left : kDifferencePart, end = task.first + n;
  if (task.keep != nullptr) {
    copy_values<kDifferenceLanes>(pair.y + task.first, static_cast<uint32_t>(n),
                                  task.keep + task.first);
  }
  if (pair.x == nullptr) return;
  const int n_sums = kOfSegments + pair.segments.n;
  for (int s = 0; s < n_sums; ++s) shared.lanes[s][thread] = 0;
  add_values(pair, task.first, end, shared, thread);
  add_lanes(n_sums, shared, thread);
  RowDifference& result = parts[task.part];
  for (int s = thread; s < kMaxSegments; s += kDifferenceLanes) {
    result.segment_sum_sq[s] = s < pair.segments.n ? shared.lanes[kOfSegments + s][0] : 0.0;
  }
  if (thread != 0) return;
  store_extremes(shared.extremes[0], result);
  result.n = n;
  result.x_sum_sq = shared.lanes[kOfX][0];
  result.y_sum_sq = shared.lanes[kOfY][0];
}

// Adds up a number of every part of a row, in order; `first`: of the first part.
__device__ double sum_parts(const double* first, int64_t n) {
  constexpr int64_t kStride = sizeof(RowDifference) / sizeof(double);
  constexpr int kAtOnce = 8;  // loads: they take longer than the additions
  double sum = 0;
  int64_t i = 0;
  for (; i + kAtOnce <= n; i += kAtOnce) {
    double values[kAtOnce];
    GRETA_UNROLL
    for (int j = 0; j < kAtOnce; ++j) values[j] = first[(i + j) * kStride];
    GRETA_UNROLL
    for (int j = 0; j < kAtOnce; ++j) sum += values[j];
  }
  for (; i < n; ++i) sum += first[i * kStride];
  return sum;
}
static_assert(sizeof(RowDifference) % sizeof(double) == 0 && alignof(RowDifference) == 8);

// A block has a row: the first threads take a sum each, then all of them its other numbers.
__global__ __launch_bounds__(kDifferenceLanes) void row_parts_kernel(const RowParts* rows,
                                                                     const RowDifference* all_parts,
                                                                     RowDifference* results) {
  GRETA_SHARED(Shared, shared);
  const auto thread = static_cast<int>(threadIdx.x);
  const RowParts row = rows[blockIdx.x];
  if (row.n == 0) return;
  const RowDifference* const parts = all_parts + row.first;
  RowDifference& result = results[row.result];
  static_assert(kDifferenceLanes >= kMaxSegments + 2);
  if (thread < kMaxSegments) {
    result.segment_sum_sq[thread] = sum_parts(&parts->segment_sum_sq[thread], row.n);
  } else if (thread == kMaxSegments) {
    result.x_sum_sq = sum_parts(&parts->x_sum_sq, row.n);
  } else if (thread == kMaxSegments + 1) {
    result.y_sum_sq = sum_parts(&parts->y_sum_sq, row.n);
  }
  Extremes own{0, -1, -1, -1, 0, 0};
  for (int64_t i = thread; i < row.n; i += kDifferenceLanes) {
    const RowDifference& part = parts[i];
    own.take({part.differing, part.first, part.last, part.max_abs_at, part.max_ulp, part.max_abs});
  }
  shared.extremes[thread] = own;
  add_lanes(0, shared, thread);
  if (thread == 0) store_extremes(shared.extremes[0], result);
  if (thread == 0) result.n = (row.n - 1) * kDifferencePart + parts[row.n - 1].n;
}

void check_count(int64_t n, const char* what) {
  if (n < 0 || n > std::numeric_limits<int32_t>::max()) {
    throw std::invalid_argument("run_row_tasks: " + std::to_string(n) + " " + what +
                                ", at most 2^31 - 1 are supported");
  }
}

}  // namespace

void RowTasks::add(const RowPair& pair, float* keep, int64_t result) {
  if (pair.x == nullptr && keep == nullptr) return;
  const int64_t before = n_parts;
  for (int64_t first = 0; first < pair.n; first += kDifferencePart) {
    tasks.push_back({pair, keep, first, n_parts});
    if (pair.x != nullptr) ++n_parts;
  }
  if (n_parts > before) rows.push_back({before, n_parts - before, result});
}

void RowTasks::clear() {
  tasks.clear();
  rows.clear();
  n_parts = 0;
}

void run_row_tasks(const RowTask* tasks, int64_t n_tasks, const RowParts* rows, int64_t n_rows,
                   RowDifference* parts, RowDifference* results, Stream& stream) {
  check_count(n_tasks, "tasks");
  check_count(n_rows, "rows");
  launch({.name = "row_tasks", .grid = static_cast<unsigned>(n_tasks), .block = kDifferenceLanes},
         stream, row_task_kernel, tasks, parts);
  launch({.name = "row_parts", .grid = static_cast<unsigned>(n_rows), .block = kDifferenceLanes},
         stream, row_parts_kernel, rows, parts, results);
}

}  // namespace greta
