#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "kernels/attention_shape.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/matmul_valu.h"
#include "kernels/gpu/weight_planes.h"

// What a launch of products is told, whether vector units or matrix cores compute them: the
// products, and what becomes of them (kernels/gpu/matmul_valu.hip,
// kernels/gpu/matmul_mfma_token.hip).

namespace greta::matmul_detail {

/// What happens to a product.
enum class Finish {
  kStore,
  kAdd,      ///< stored, and stored again with a residual added
  kGated,    ///< of two products, silu(first)·second
  kGateOut,  ///< silu(product)·out, which has the second already
};

struct Part {
  DeviceWeights w;
  uint32_t rows;
  uint32_t first_group;  ///< of rows; groups are numbered through all parts
  float* out;
  float* turned;  ///< out after RoPE; nullptr: it takes none
  KvRows cache;   ///< has a row for what comes of that; nullptr: none
};

/// RoPE and the place in the caches; of one token.
struct Rope {
  const float* table;  ///< nullptr: no part takes any
  uint32_t head_dim, turned_dim;
  const int32_t* pos;
  int64_t row_shift;
};

/// The norm that x still lacks; of one token.
struct Norm {
  const float* weight;  ///< nullptr: x lacks none
  float eps;
  float* out;
};

struct Task {
  const float* x;
  Norm norm;
  int64_t n_tokens;
  uint32_t cols;
  Finish finish;
  int n_parts;
  uint32_t n_groups;
  uint32_t segment_steps;  ///< of which x is kept in shared memory at a time
  bool aligned;            ///< tokens of x, and what the norm reads and writes, to 16 bytes
  Part parts[kMaxProducts];
  Rope rope;
  const float* residual;
  float* sum;
};

}  // namespace greta::matmul_detail
