#pragma once

#include <cstddef>
#include <span>

#include "kernels/matrix.h"

// f32 to weights, for models that greta makes.

namespace greta {

/// Storage of values with little squared error. Sizes as dequantise().
///
/// The same bytes everywhere: basic f32 and f64 operations in a fixed order, none of them fused.
/// f16 and bf16 round to nearest even. The others try a range of scales for every block or
/// sub-block, fit each by least squares and keep the best; their scales are f16, so magnitudes
/// below about 2^−25 times the greatest q (and scale) become 0. Throws std::invalid_argument for a
/// value that is not finite or that the type cannot hold: nothing becomes infinite or is clipped.
void quantise(WeightType type, std::span<const float> values, std::span<std::byte> out);

// ---- Weights to f32: the definition of every storage type, written for clarity. The fast paths of
// matmul.cpp are tested against it. kernels/blocks.h has the layouts.

/// Expands values of a storage type.
///
/// data: whole blocks, host memory, any alignment. out: f32 [n], n a multiple of the block length,
/// and data.size() == n / block_values * block_bytes; else std::invalid_argument.
/// In f32: q4_0 d·(q − 8); q5_0 d·(q − 16); q8_0 d·q; iq4_nl d·level; q4_1, q5_1 d·q + m; q2_k,
/// q4_k, q5_k (d·scale)·q − dmin·min; q3_k (d·scale)·(q − 4); q6_k (d·scale)·(q − 32).
/// d and dmin have 11 significant bits and the integers few, so every product is exact: a value is
/// the exact result rounded once, and fused or reordered products give the same bits.
void dequantise(WeightType type, std::span<const std::byte> data, std::span<float> out);

/// Throws std::invalid_argument, which begins with `function`, unless n_values are whole blocks
/// that n_bytes hold.
void check_stored_size(const char* function, WeightType type, size_t n_values, size_t n_bytes);

}  // namespace greta
