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
  int64_t part = 0;       ///< which of the parts' results
};

/// The parts of a compared row, and which of the results they make.
struct RowParts {
  int64_t first = 0;
  int64_t n = 0;  ///< 0: no row at all
  int64_t result = 0;
};

/// The rows of one launch, cut into tasks. Made on the host, then copied to the device.
struct RowTasks {
  std::vector<RowTask> tasks;
  std::vector<RowParts> rows;  ///< those that are compared
  int64_t n_parts = 0;         ///< of all of them

  /// keep: where y is copied to; nullptr: nowhere. result: for a pair that is compared.
  void add(const RowPair& pair, float* keep, int64_t result);
  void clear();
};

/// Queues results[row.result] = how the rows differ, to the bit as row_difference() on the host,
/// and what is to be kept. tasks [n_tasks], rows [n_rows], parts: scratch [n_parts], results:
/// device memory. Numbers < 2³¹, else std::invalid_argument.
void run_row_tasks(const RowTask* tasks, int64_t n_tasks, const RowParts* rows, int64_t n_rows,
                   RowDifference* parts, RowDifference* results, Stream& stream);

}  // namespace greta
