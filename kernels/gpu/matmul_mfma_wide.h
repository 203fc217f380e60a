#pragma once

#include <cstdint>
#include <span>

#include "kernels/gpu/device.h"
#include "kernels/gpu/matmul_mfma.h"

namespace greta {

/// Whether the device has the instructions of kernels/gpu/warpgroup.h, and the product suits them.
bool fits_wide_matmul(const HalfProduct& product);

/// Queues matmul_mfma() of products of one x by them, in wide tiles and in one launch: the same
/// bits, in less time.
void wide_matmul(std::span<const HalfProduct> products, Stream& stream);

}  // namespace greta
