#pragma once

#include "kernels/gpu/device.h"
#include "kernels/gpu/matmul_mfma.h"

namespace greta {

/// Whether the device has the instructions of kernels/gpu/warpgroup.h, and the product suits them.
bool fits_wide_matmul(const HalfProduct& product);

/// Queues matmul_mfma() by them, in wide tiles: the same bits, in less time.
void wide_matmul(const HalfProduct& product, Stream& stream);

}  // namespace greta
