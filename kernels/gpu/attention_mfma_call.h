#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/gpu/attention_device.h"
#include "kernels/gpu/matrix_core.h"

// Sizes of the blocks of attention_mfma, and the cache in the form in which they read it
// (kernels/gpu/attention_mfma.hip).

namespace greta::attention_mfma_detail {

inline constexpr int kWaves = 4;
inline constexpr int kThreads = kWaves * kMatrixLanes;

/// kDim: head_dim, padded. A wavefront has 16·kGroups queries; a block of keys has kKeys. kPlain:
/// nothing is traced, and values are finite where it matters; else there is more to do, and there
/// are no registers for two groups.
template <int kDim, bool kPlain = true>
struct Sizes {
  static constexpr int kGroups = kPlain && kDim <= 128 ? 2 : 1;
  static constexpr int kWaveQueries = 16 * kGroups;
  static constexpr int kQueries = kWaves * kWaveQueries;
  static constexpr int kKeys = kDim > 128 ? 32 : 64;
  static constexpr int kDimStride = kDim + kSharedRowPad;
  static constexpr int kKeyStride = kKeys + kSharedRowPad;
  static constexpr int kKeyValues = kKeys * kDimStride;
  static constexpr int kValueValues = kDim * kKeyStride;
  static constexpr int kQueryValues = kQueries * kDimStride;
  // Where a lane has registers to spare it keeps its queries there: shared memory is small.
  static constexpr bool kQueriesInRegisters = kMatrixLanes == 64;
  static constexpr size_t kSharedBytes =
      sizeof(uint16_t) * (kQueriesInRegisters ? std::max(kKeyValues + kValueValues, kQueryValues)
                                              : kKeyValues + kValueValues + kQueryValues);
};

/// The cache in f16, in scratch. Rows of keys that no query sees, and dimensions that do not exist,
/// are zeros.
struct HalfCache {
  uint16_t* keys;       // [n_kv_heads, n_blocks, kKeys, kDim]
  uint16_t* values;     // [n_kv_heads, n_blocks, kDim, kKeys]
  uint32_t* nonfinite;  // [n_kv_heads, n_blocks]: whether a value is not finite
  int n_blocks;
};

struct Call {
  AttentionShape shape;
  const int32_t* first_pos;
  const float* q;
  const float* k;
  const float* v;
  float* out;
  AttentionTrace trace;
  HalfCache cache;
};

}  // namespace greta::attention_mfma_detail
