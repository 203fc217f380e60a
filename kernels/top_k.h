#pragma once

#include <cstdint>

#include "kernels/device.h"

namespace greta {

inline constexpr int kMaxTopK = 8;

/// Scratch of top_k in bytes, for any n; zeroed before the first call, left fit for the next.
size_t top_k_scratch();

/// Queues the greatest k of n values, greatest first: ties to the lower index, NaN below
/// everything. top: f32 [k], the values with their bits; ids: i32 [k], their indices; beyond n: NaN
/// and −1. k ≤ kMaxTopK. Device memory.
void top_k(const float* values, int64_t n, int k, float* top, int32_t* ids, void* scratch,
           Stream& stream);

}  // namespace greta
