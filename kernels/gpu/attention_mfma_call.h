#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/gpu/attention_device.h"
#include "kernels/gpu/device.h"
#include "kernels/gpu/matrix_core.h"

// What the kernels of attention_mfma agree on (kernels/gpu/attention_mfma.hip): where keys are cut,
// sizes of blocks, and the cache in the form in which tiles read it.

namespace greta::attention_mfma_detail {

/// Keys of a block: they share a maximum and have sums of their own.
inline constexpr int kBlockKeys = 128;

__host__ __device__ constexpr int blocks_of(int n_keys) {
  return n_keys / kBlockKeys + (n_keys % kBlockKeys != 0 ? 1 : 0);
}

// ---- Tiles of queries.

inline constexpr int kWaves = 4;
inline constexpr int kThreads = kWaves * kMatrixLanes;

/// kDim: head_dim, padded. A wavefront has 16·kGroups queries; keys and values are staged
/// kStageKeys at a time. kPlain: nothing is traced, and values are finite where it matters; else
/// there is more to do, and there are no registers for two groups.
template <int kDim, bool kPlain = true>
struct Sizes {
  static constexpr int kGroups = kMatrixLanes == 64 && kPlain && kDim <= 128 ? 2 : 1;
  static constexpr int kWaveQueries = 16 * kGroups;
  static constexpr int kQueries = kWaves * kWaveQueries;
  static constexpr int kStageKeys = kDim > 128 ? 32 : 64;
  static constexpr int kStages = kBlockKeys / kStageKeys;
  // Outputs of a block; others, which compute the scores anew, take the rest.
  static constexpr int kOutDims = kDim <= 128 ? kDim : kMatrixLanes == 64 ? 64 : 128;
  static constexpr int kOutParts = kDim / kOutDims;
  static constexpr int kDimStride = kDim + kSharedRowPad;
  static constexpr int kKeyStride = kStageKeys + kSharedRowPad;
  static constexpr int kStageValues = std::max(kStageKeys * kDimStride, kOutDims* kKeyStride);
  static constexpr int kQueryValues = kQueries * kDimStride;
  // Where a lane has registers to spare it keeps its queries there: shared memory is small.
  static constexpr bool kQueriesInRegisters = kMatrixLanes == 64;
  static constexpr size_t kSharedBytes =
      sizeof(uint16_t) * (kQueriesInRegisters ? std::max(2 * kStageValues, kQueryValues)
                                              : 2 * kStageValues + kQueryValues);
};

/// The cache in f16, in scratch, in pieces of kStageKeys keys. Rows of keys that no query sees, and
/// dimensions that do not exist, are zeros.
struct HalfCache {
  uint16_t* keys;       // [n_kv_heads, n_pieces, kStageKeys, kDim], each row as QueryTile wants it
  uint16_t* values;     // [n_kv_heads, n_pieces, kDim, kStageKeys]
  uint32_t* nonfinite;  // [n_kv_heads, n_pieces]: whether a value is not finite
  int n_pieces;         // whole blocks of keys
};

struct Call {
  AttentionShape shape;
  const int32_t* first_pos;
  const float* q;
  const void* k;  // as the cache stores values
  const void* v;
  float* out;
  AttentionTrace trace;
};

// ---- One token (kernels/gpu/attention_mfma_token.hip).

/// Device memory that a call needs, in bytes.
size_t token_scratch(const AttentionShape& shape, int64_t max_keys);

/// The attention of one token, call.shape checked. counters: kAttentionCounters words, zero before
/// and left so; memory: token_scratch() bytes, 16-byte aligned; its contents need not be kept.
/// Throws std::invalid_argument when there are more heads than counters.
void attend_token(const Call& call, const ConstKvRows& k, const ConstKvRows& v, int64_t max_keys,
                  uint32_t* counters, void* memory, Stream& stream);

// ---- Tiles by warpgroups (kernels/gpu/attention_mfma_wide.hip).

inline constexpr int kWideQueries = 128;  ///< of a tile

/// True if this device has warpgroups, and they are used for heads padded to kDim.
template <int kDim>
#if defined(GRETA_WARPGROUPS) && !defined(GRETA_AMD)
inline constexpr bool kWideTiles = kDim <= 128;
#else
inline constexpr bool kWideTiles = false;
#endif

/// The first n_tiles tiles of queries, with the bits of TileAttention, but for those where
/// has_nonfinite_values(): nothing is stored for them. kDim is 64 or 128; throws std::logic_error
/// where there are no kWideTiles.
template <int kDim>
void attend_wide_tiles(const Call& call, const HalfCache& cache, int n_tiles, Stream& stream);

}  // namespace greta::attention_mfma_detail
