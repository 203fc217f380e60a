#pragma once

#include <cstdint>

#include "kernels/gpu/device.h"
#include "kernels/gpu/half_type.h"

// Floats rounded to 16 bits, which products on matrix cores take. Device memory.

namespace greta {

/// out[i] = x[i] to nearest even, n values.
void halves_of(const float* x, int64_t n, HalfType type, uint16_t* out, Stream& stream);

/// out[i] = silu(gate[i])·up[i], computed as swiglu() does, then to nearest even.
void swiglu_halves(const float* gate, const float* up, int64_t n, HalfType type, uint16_t* out,
                   Stream& stream);

}  // namespace greta
