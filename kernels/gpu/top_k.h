#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gpu/device.h"

// The greatest values of a row, as the CPU backend orders them.

namespace greta {

inline constexpr int kMaxTopK = 8;

/// Scratch of top_k in bytes, for any n; zeroed before the first call, left fit for the next.
size_t top_k_scratch();

/// Queues the greatest k of n values, greatest first, in the CPU backend's order: ties go to the
/// lower index, −0 equals +0, NaN counts as −∞. top: f32 [k], the values with their bits; ids: i32
/// [k], their indices; beyond n: NaN and −1. k ≤ kMaxTopK, n < 2³¹, else std::invalid_argument.
/// Device memory; scratch is 8-byte aligned.
void top_k(const float* values, int64_t n, int k, float* top, int32_t* ids, void* scratch,
           Stream& stream);

}  // namespace greta
