#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"

// The loops of fingerprint.cpp, per instruction set. fingerprint.h defines every number.

namespace greta {

/// What one pass over a row finds without knowing its scale. Keys are order_key of finite values;
/// min_key > max_key while there is none.
struct FingerprintScan {
  int32_t min_key = INT32_MAX;
  int32_t max_key = INT32_MIN;
  uint64_t nan = 0;
  uint64_t inf = 0;
  uint64_t zeros = 0;  ///< ±0
};

/// Both sketch codes of an index as one number: sketch_code(i, 0) | sketch_code(i, 1) << 5.
/// Every value goes to one cell, where its codes meet: half the memory traffic of two maps.
inline constexpr int kSketchCells = 1024;

/// The sums over a part of a row, added to what is there.
struct FingerprintPart {
  uint64_t hash = 0;
  uint64_t abs_sum = 0;
  uint64_t sum_sq = 0;
  alignas(64) uint64_t cells[kSketchCells] = {};  ///< Σ q, mod 2^64
};

/// Above this scale a denormal value may be worth half a unit: accumulate() would lose it.
inline constexpr int kMaxKernelScale = 125;

struct FingerprintKernels {
  /// Adds values, f32 [n], to what scan holds.
  void (*scan)(const float* values, int64_t n, FingerprintScan* scan);
  /// Adds values, f32 [n], at the indices first, first + 1, …; scale ≤ kMaxKernelScale, codes [n].
  /// finite: no value is NaN or infinite (it need not be set).
  void (*accumulate)(const float* values, int64_t n, uint64_t first, const uint16_t* codes,
                     int scale, bool finite, FingerprintPart* part);
  /// buckets: int64 [32] as in FingerprintSums; returns Σ q.
  int64_t (*fold_cells)(const uint64_t* cells, int64_t* buckets);
  /// f16 or bf16 [n], of any alignment, to f32 [n].
  void (*widen_f16)(const void* values, int64_t n, float* to);
  void (*widen_bf16)(const void* values, int64_t n, float* to);
};

GRETA_DECLARE_KERNELS(FingerprintKernels, fingerprint_kernels)

}  // namespace greta
