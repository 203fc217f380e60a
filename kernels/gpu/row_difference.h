#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/gpu/device.h"
#include "kernels/row_difference.h"

namespace greta {

/// What one block does with kDifferencePart values of a row, or as many as it has left. Pointers
/// are device memory, to the first value of the whole row.
struct RowTask {
  RowPair pair;           ///< x nullptr: nothing is compared, y is only kept; both: no task at all
  float* keep = nullptr;  ///< where y is copied to; nullptr: nowhere
  int64_t first = 0;      ///< value
  int64_t result = 0;     ///< which of the results
};

/// Appends the tasks of a row; where it is compared, those have results n_results, n_results + 1,
/// ..., to be taken in that order.
void add_row_tasks(const RowPair& pair, float* keep, size_t& n_results,
                   std::vector<RowTask>& tasks);

/// Queues the work of tasks: results[task.result] = how that part of its rows differs, to the bit
/// as row_difference() on the host. tasks [n], results: device memory. n < 2³¹, else
/// std::invalid_argument.
void run_row_tasks(const RowTask* tasks, int64_t n, RowDifference* results, Stream& stream);

}  // namespace greta
