#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/gpu/device.h"
#include "kernels/gpu/matmul_valu.h"
#include "kernels/matrix.h"

// Products of one token on matrix cores, with all that kernels/gpu/matmul_valu.h does before and
// after them, straight from stored weights of any type: decode where a token must have the bits
// that it has in a batch. The activations, and weights not stored in 16 bits, are rounded as
// halves_of() and to_halves() do; results have the bits of matmul_mfma() of these. Device memory;
// work is queued, nothing is allocated.

namespace greta {

/// Whether the device's shared memory holds a token of so many columns. Where it does not,
/// halves_of() and matmul_mfma() give the same bits.
bool fits_token_matmul_mfma(int64_t cols);

/// Up to kMaxProducts products of in.x, normed first if in.weight is not null. Types may differ.
void token_matmul_mfma(const NormedRow& in, std::span<const Product> products, Stream& stream);

/// As qkv_matmul_valu() does.
void token_qkv_matmul_mfma(const NormedRow& in, const std::array<Product, 3>& qkv,
                           const RopeRow& rope, Stream& stream);

/// As matmul_add_valu() does.
void token_matmul_add_mfma(const float* x, const Product& product, const float* residual,
                           float* sum, Stream& stream);

/// As gated_matmul_valu() does.
void token_gated_matmul_mfma(const NormedRow& in, const Matrix& gate, const Matrix& up, float* out,
                             Stream& stream);

}  // namespace greta
