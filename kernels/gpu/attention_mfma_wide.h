#pragma once

#include "kernels/gpu/attention_mfma_call.h"
#include "kernels/gpu/device.h"

// Tiles of attention_mfma by warpgroups (kernels/gpu/attention_mfma.hip).

namespace greta::attention_mfma_detail {

inline constexpr int kWideQueries = 128;  ///< of a tile

/// Whether this device has warpgroups, and they are used for heads padded to kDim.
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
