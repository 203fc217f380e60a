#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/attention_shape.h"
#include "kernels/gpu/device.h"
#include "kernels/matrix.h"

// Matrix products on vector units, straight from stored weights of any type: the route of decode,
// and of everything that must not depend on the batch. All activations f32, row-major without gaps,
// device memory; weights in the layout of kernels/gpu/weight_layout.h. Work is queued, nothing is
// allocated.
//
// Accumulation in f32, in an order that depends on cols and the weight type alone: a token's result
// has the same bits in any batch and on any device, and whether products are computed together or
// alone. With quantised weights 32 neighbouring activations are first rounded to 22 bits and sign
// of the largest of them; their products with a sub-block's weights are then summed up exactly.

namespace greta {

inline constexpr size_t kMaxProducts = 3;

/// One token before its RMSNorm, which the products do: rms_norm()'s bits, without its launch.
/// x, weight, out: f32 [cols], device; out, the normed row, is written as well and overlaps none.
struct NormedRow {
  const float* x = nullptr;
  const float* weight = nullptr;
  float eps = 0;
  float* out = nullptr;
};

/// Up to kMaxProducts products of one x [n_tokens, cols]; types may differ.
void matmul_valu(const float* x, int64_t n_tokens, std::span<const Product> products,
                 Stream& stream);
void matmul_valu(const NormedRow& in, std::span<const Product> products, Stream& stream);

/// RoPE of one token's q and k, and the rows of the cache that k and v go to.
struct RopeRow {
  const float* table = nullptr;        ///< [half_dim, 2], of rope_table()
  int64_t head_dim = 0, half_dim = 0;  ///< values from 2·half_dim on are not turned
  float *q_out = nullptr, *k_out = nullptr;
  KvRows k_cache = {}, v_cache = {};
  const int32_t* pos = nullptr;  ///< device: the rows are *pos + row_shift
  int64_t row_shift = 0;
};

/// matmul_valu() of q, k and v, and with their results what rope_and_store() does to them, for
/// RopePairing::kInterleaved. Rows of q and k are a multiple of head_dim, which is even.
void qkv_matmul_valu(const NormedRow& in, const std::array<Product, 3>& qkv, const RopeRow& rope,
                     Stream& stream);

/// out = x · wᵀ and sum = residual + out, [n_tokens, w.rows] each.
void matmul_add_valu(const float* x, int64_t n_tokens, const Product& product,
                     const float* residual, float* sum, Stream& stream);

/// out [n_tokens, rows] = silu(x · gateᵀ) ⊙ (x · upᵀ), with the arithmetic of swiglu(). gate and up
/// have one shape; their types may differ.
void gated_matmul_valu(const float* x, int64_t n_tokens, const Matrix& gate, const Matrix& up,
                       float* out, Stream& stream);
void gated_matmul_valu(const NormedRow& in, const Matrix& gate, const Matrix& up, float* out,
                       Stream& stream);

/// The bug of an accumulator in half precision, for fault injection: products are added up in order
/// and the sum is rounded to f16 after every `step` of them, as kernels/cpu/matmul.h does. x f32
/// [n_tokens, w.cols], out f32 [n_tokens, w.rows], device; weights in the layout of
/// kernels/gpu/weight_layout.h. Work is queued, nothing is allocated. Throws std::invalid_argument
/// for a step below 1 and for columns that are no whole blocks, DeviceError when the launch fails.
void matmul_fp16_accumulate(const float* x, int64_t n_tokens, int64_t step, const Product& product,
                            Stream& stream);

}  // namespace greta
