#pragma once

#include <cstdint>

#include "kernels/gpu/device.h"
#include "kernels/row_difference.h"

namespace greta {

/// Queues results[i] = how the rows of pairs[i] differ, to the bit as row_difference() on the host.
/// pairs, results: [n], device memory, and so are the rows. n < 2³¹, else std::invalid_argument.
void row_differences(const RowPair* pairs, int64_t n, RowDifference* results, Stream& stream);

}  // namespace greta
