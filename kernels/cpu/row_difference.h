#pragma once

#include "kernels/row_difference.h"

namespace greta {

/// How the rows of a pair differ. Host memory. Throws std::invalid_argument for segments that are
/// none.
RowDifference row_difference(const RowPair& pair);

}  // namespace greta
