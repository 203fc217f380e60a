#pragma once

#include "kernels/cpu/matmul_blocks.h"

// Weights of any type as f32. Only for *_simd.cpp.

namespace greta::GRETA_ISA {

/// n_groups sub-blocks of the span at p; `to` has room for them.
template <class Type>
GRETA_INLINE void expand_span(const uint8_t* p, int n_groups, float* to) {
  alignas(64) Numbers numbers[1];
  Type::scales(p, 1, n_groups, numbers);
  Type::visit(
      p, n_groups,
      numbers[0], [&](int g, const GroupVectors<Type::kGroup>& w) __attribute__((always_inline)) {
        for (int i = 0; i < w.kCount; ++i) store(to + g * Type::kGroup + i * kLanes, w.v[i]);
      });
}

/// Columns [column, column + n_columns) of a row, from a span's first column on and up to the end
/// of a block. `to` has room for whole vectors: behind the last column are zeros.
template <class Type>
GRETA_INLINE void expand_columns(const uint8_t* row, int64_t column, int64_t n_columns, float* to) {
  if constexpr (requires { Type::kGroup; }) {
    constexpr int kSpanBytes = kSpanValues / Type::kBlockValues * Type::kBlockBytes;
    const uint8_t* p = row + column / kSpanValues * kSpanBytes;
    int64_t k = 0;
    for (; k + kSpanValues <= n_columns; k += kSpanValues, p += kSpanBytes) {
      expand_span<Type>(p, Type::kSpanGroups, to + k);
    }
    if constexpr (Type::kBlockValues < kSpanValues) {
      const int n_groups = static_cast<int>(n_columns - k) / Type::kGroup;
      if (n_groups > 0) expand_span<Type>(p, n_groups, to + k);
    }
  } else {
    const uint8_t* p = row + column * Type::kBytes;
    int64_t k = 0;
    for (; k + kLanes <= n_columns; k += kLanes) store(to + k, Type::values(p + k * Type::kBytes));
    if (k < n_columns) store(to + k, Type::values_part(p + k * Type::kBytes, n_columns - k));
  }
}

}  // namespace greta::GRETA_ISA
