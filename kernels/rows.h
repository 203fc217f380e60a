#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention_shape.h"

// What operations on rows of activations are told about their tensors: f32, row-major without gaps,
// in the memory of whoever computes.

namespace greta {

/// How two values of a head form the plane that RoPE turns.
enum class RopePairing {
  kInterleaved,  ///< (2i, 2i + 1), as GGUF files of Llama
  kHalves,       ///< (i, i + d/2), as those of Qwen
};

/// What RoPE turns by: plane i of position p by the angle p·inv_freq[i], its length times
/// magnitude.
struct RopeTurn {
  std::span<const double> inv_freq;  ///< host, [half of the values of a head that are turned]
  double magnitude = 1;
  RopePairing pairing = RopePairing::kInterleaved;
};

/// One tensor [n_tokens, n_heads, head_dim] that RoPE turns; in and out may be equal.
struct RopeTensor {
  const float* in = nullptr;
  int64_t n_heads = 0;
  float* out = nullptr;
};

/// One tensor [n_tokens, n_heads, head_dim] of which every head is finished after its product: the
/// bias is added, then the head is RMS-normed by itself, each where there is one.
struct HeadTensor {
  float* rows = nullptr;
  int64_t n_heads = 0;
  const float* bias = nullptr;  ///< [n_heads, head_dim]
  const float* norm = nullptr;  ///< [head_dim], the weight
};

/// Rows [n_rows, width] and the cache they are stored to, as it stores values; nullptr: nothing to
/// do.
struct RowStore {
  const float* rows = nullptr;
  KvRows cache = {};
};

/// Rows of a cache, and where they go as f32; the first of them to the first there.
struct RowRead {
  ConstKvRows cache = {};
  float* to = nullptr;
};

}  // namespace greta
