#pragma once

#include <cstdint>

// What operations on rows of activations are told about their tensors: f32, row-major without gaps,
// in the memory of whoever computes.

namespace greta {

/// How two values of a head form the plane that RoPE turns.
enum class RopePairing {
  kInterleaved,  ///< (2i, 2i + 1), as GGUF Llama files
  kHalves,       ///< (i, i + d/2)
};

/// One tensor [n_tokens, n_heads, head_dim] that RoPE turns; in and out may be equal.
struct RopeTensor {
  const float* in = nullptr;
  int64_t n_heads = 0;
  float* out = nullptr;
};

/// Rows [n_rows, width] and the cache they are copied to; nullptr: nothing to do.
struct RowStore {
  const float* rows = nullptr;
  float* cache = nullptr;
};

}  // namespace greta
