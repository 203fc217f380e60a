#pragma once

#include <cstdint>

#include "kernels/gpu/device.h"
#include "kernels/matrix.h"

namespace greta {

/// The bug of an accumulator in half precision, for fault injection: products are added up in order
/// and the sum is rounded to f16 after every `step` of them, as kernels/cpu/matmul.h does. x f32
/// [n_tokens, w.cols], out f32 [n_tokens, w.rows], device; weights in the layout of
/// kernels/gpu/weight_layout.h. Work is queued, nothing is allocated. Throws std::invalid_argument
/// for a step below 1 and for columns that are no whole blocks, DeviceError when the launch fails.
void matmul_fp16_accumulate(const float* x, int64_t n_tokens, int64_t step, const Product& product,
                            Stream& stream);

}  // namespace greta
