#pragma once

#include <cstdint>

#include "kernels/gpu/device.h"

// A kernel that exposes kernels/gpu/query_tile.h.

namespace greta {

/// d [size, size] += a [size, 16] · b [size, 16]ᵀ by one wavefront; size 16 or 32; a, b: f16, or
/// bf16 when asked; d: f32. All in device memory.
void multiply_tile(bool bf16, int size, const uint16_t* a, const uint16_t* b, float* d,
                   Stream& stream);

/// Register layout as the device has it: for every lane and value of its part of d, row · size +
/// column; [lanes, size² / lanes], device memory.
void tile_elements(int size, int32_t* elements, Stream& stream);

struct QueryTileResults {
  float scores[16][16];      ///< [query][key]
  uint32_t written[16][16];  ///< how many lanes hold that score
  float sums[16][64];     ///< [query][lane]: over the query's scores, where a lane has it; else 0
  float out[16][16];      ///< [query][dim]: halves of the scores times v
  float between[16][16];  ///< the same, of keys 3 to 7
  float direct_scores[16][16];  ///< and with keys and values from registers
  float direct_out[16][16];
};

/// One wavefront: scores = q·kᵀ, out = f16(scores)·v; q [query][16], k [key][16], v [dim][key],
/// f16.
void query_tile(const uint16_t* q, const uint16_t* k, const uint16_t* v, QueryTileResults* results,
                Stream& stream);

}  // namespace greta
