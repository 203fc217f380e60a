#pragma once

#include <cstdint>

#include "kernels/gpu/device.h"

namespace greta {

/// d [size, size] += a [size, 16] · b [size, 16]ᵀ by one wavefront; size 16 or 32; a, b: f16, or
/// bf16 when asked; d: f32. All in device memory.
void multiply_tile(bool bf16, int size, const uint16_t* a, const uint16_t* b, float* d,
                   Stream& stream);

/// Register layout as the device has it: for every lane and value of its part of d, row · size +
/// column; [lanes, size² / lanes], device memory.
void tile_elements(int size, int32_t* elements, Stream& stream);

}  // namespace greta
