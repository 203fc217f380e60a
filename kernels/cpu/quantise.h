#pragma once

#include <cstddef>
#include <span>

#include "kernels/matrix.h"

// f32 to weights, for models that greta makes.

namespace greta {

/// Storage of values with little squared error. Sizes as dequantise (kernels/cpu/dequantise.h).
///
/// The same bytes everywhere: basic f32 and f64 operations in a fixed order, none of them fused.
/// f16 and bf16 round to nearest even. The others try a range of scales for every block or
/// sub-block, fit each by least squares and keep the best; their scales are f16, so magnitudes
/// below about 2^−25 times the greatest q (and scale) become 0. Throws std::invalid_argument for a
/// value that is not finite or that the type cannot hold: nothing becomes infinite or is clipped.
void quantise(WeightType type, std::span<const float> values, std::span<std::byte> out);

}  // namespace greta
