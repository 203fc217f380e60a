#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "kernels/simd/isa.h"

// What is kept of one tensor row: hash, statistics and sketch, computed with integers only.
//
// No sum here is a floating-point sum, so threads, wave width, summation order and fast-math flags
// cannot change a bit. docs/fingerprint.md defines every number and lists test vectors.

namespace greta {

/// What one token has of its own is no longer. Rows that are, of a cache, lose bits of their sums.
inline constexpr std::size_t kMaxTokenValues = std::size_t{1} << 21;
inline constexpr std::size_t kMaxFingerprintValues = std::size_t{1} << 31;
inline constexpr std::size_t kSketchMaps = 2;
inline constexpr std::size_t kSketchBuckets = 16;  // of each map
inline constexpr std::size_t kSketchValues = kSketchMaps * kSketchBuckets;
/// Part of the sketch's hash: sketches of different versions do not compare.
inline constexpr std::uint64_t kSketchVersion = 1;
inline constexpr std::size_t kLegacyHashValues = 256;

/// Fingerprint of one row of n f32 values.
///
/// "Finite" means neither NaN nor infinite. Every double is the exact integer result converted once
/// to nearest even (the mean: that sum, then one division), so it is equal on every host.
struct Fingerprint {
  std::uint64_t n = 0;
  std::uint64_t hash = 0;  // of all n values and their positions; compare only at equal n
  float min = 0;           // least finite value, −0 below +0; NaN when there is none
  float max = 0;           // greatest finite value; NaN when there is none
  double mean = 0;         // Σx / (n − nan − inf); NaN when there is no finite value
  double abs_sum = 0;      // Σ|x| over the finite values
  double sum_sq = 0;       // Σx² over the finite values
  std::uint64_t nan = 0;
  std::uint64_t inf = 0;
  std::uint64_t nz_count = 0;                  // values other than ±0; NaN and ±inf count
  std::array<double, kSketchValues> sketch{};  // [map · 16 + bucket], in units of x
};

/// Returns the fingerprint of row.
///
/// row: f32 [n], host memory; n = 0 is allowed. Throws std::length_error when
/// n > kMaxFingerprintValues. Safe to call from several threads at once.
Fingerprint fingerprint(std::span<const float> row);

/// The integers behind a fingerprint: what any device must compute, to the bit.
///
/// Accumulates (index, value) in any order and any split: take the row's finite_max_magnitude
/// first, give it and the row's length to every part, add each index once, merge the parts.
/// Nothing overflows: |q| < 2^(41 − lost_bits), so |sum|, abs_sum and |bucket| < 2^62;
/// r ≤ 2^(21 − lost_bits), so sum_sq ≤ 2^63.
struct FingerprintSums {
  std::uint64_t n = 0;
  std::uint64_t hash = 0;     // Σ hash_term, mod 2^64
  std::int64_t sum = 0;       // Σ q                      in units of 2^−scale
  std::uint64_t abs_sum = 0;  // Σ |q|                    in units of 2^−scale
  std::uint64_t sum_sq = 0;   // Σ ((|q| + 2^19) >> 20)²  in units of 2^(40 − 2·scale)
  std::uint64_t nan = 0;
  std::uint64_t inf = 0;
  std::uint64_t nz_count = 0;
  std::uint32_t max_magnitude;  // of the whole row, as given: bits & 0x7fffffff
  std::int32_t lost;            // lost_bits of the row
  std::int32_t scale;           // E; q = value · 2^E, rounded half to even
  /// order_key of the least and greatest finite value; min_key > max_key while there is none.
  std::int32_t min_key = std::numeric_limits<std::int32_t>::max();
  std::int32_t max_key = std::numeric_limits<std::int32_t>::min();
  std::array<std::int64_t, kSketchValues> buckets{};  // ±q, in units of 2^−scale

  /// row_values: of the whole row; any number up to kMaxTokenValues gives the same.
  explicit FingerprintSums(std::uint32_t row_max_magnitude = 0,
                           std::uint64_t row_values = kMaxTokenValues);

  /// Adds one value at its logical index (0-based position in the row). Throws std::out_of_range
  /// for an index that no such row has and std::invalid_argument for a finite |value| above
  /// max_magnitude: its q would not fit.
  void add(std::uint64_t index, float value);

  /// Adds another part of the same row. Throws std::invalid_argument when the parts disagree on
  /// max_magnitude or lost, std::length_error when they hold more values than the row can.
  void merge(const FingerprintSums& other);

  /// Converts to the published values. Throws std::logic_error when no value added has
  /// max_magnitude (a wrong scale would not compare with other rows) or when n is too large.
  Fingerprint finish() const;

  bool operator==(const FingerprintSums&) const = default;
};

/// Same integers as FingerprintSums::add over the whole row, only faster. Throws as fingerprint().
/// isa chooses the code, not the result; the processor must have it.
FingerprintSums fingerprint_sums(std::span<const float> row, Isa isa = best_isa());

/// How values lie in memory; 16 bits are the f32 values that they are exactly.
enum class ValueType { kF32, kF16, kBf16 };
constexpr std::size_t value_bytes(ValueType type) { return type == ValueType::kF32 ? 4 : 2; }

/// Copies n values, of any alignment, to f32 [n]. isa as for fingerprint_sums.
void widen(ValueType type, const void* values, std::size_t n, float* to, Isa isa = best_isa());
/// Fingerprint of a row of which only a piece is in memory at a time: every piece, in order, goes
/// to scan(), then every piece again to add(). Equal to fingerprint() of the row in one.
class PieceFingerprint {
 public:
  /// Values of a piece: a multiple of this, but for the last.
  static constexpr std::size_t kPieceValues = 4096;

  PieceFingerprint();
  ~PieceFingerprint();
  PieceFingerprint(const PieceFingerprint&) = delete;
  PieceFingerprint& operator=(const PieceFingerprint&) = delete;

  /// Throws std::length_error beyond kMaxFingerprintValues, std::logic_error after add().
  void scan(std::span<const float> piece);
  /// Throws std::logic_error when there are more values than were scanned.
  void add(std::span<const float> piece);
  /// Throws std::logic_error when what was added is not what was scanned.
  Fingerprint finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Greatest bits & 0x7fffffff over the finite values of row; 0 when there is none.
std::uint32_t finite_max_magnitude(std::span<const float> row);

/// Hash of traces recorded before sketches existed: FNV-1a with one step per 32-bit word, over the
/// bit patterns of the first ≤ kLegacyHashValues values of row (f32 [n], host memory), NaN as it
/// is. Offset basis 1469598103934665603, which is not the standard one; prime 1099511628211.
std::uint64_t legacy_fnv_hash(std::span<const float> row);

// ---- The definitions, one line of mathematics each; constexpr, so device code can share them.

inline constexpr std::uint32_t kMagnitudeMask = 0x7fffffffu;
inline constexpr std::uint32_t kInfinityBits = 0x7f800000u;  // magnitudes below are finite
inline constexpr std::uint32_t kCanonicalNan = 0x7fc00000u;

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014; constants of Stafford's variant 13).
constexpr std::uint64_t mix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// What value bits at index add to the hash; every NaN counts as kCanonicalNan.
constexpr std::uint64_t hash_term(std::uint64_t index, std::uint32_t bits) {
  const bool is_nan = (bits & kMagnitudeMask) > kInfinityBits;
  return mix64((index << 32) | (is_nan ? kCanonicalNan : bits));
}

/// By how many bits the values of a row of n are coarser, so that as many of them add up: one for
/// every doubling beyond kMaxTokenValues; in [0, 10].
constexpr int lost_bits(std::uint64_t n) {
  return n <= kMaxTokenValues ? 0 : static_cast<int>(std::bit_width(n - 1)) - 21;
}

/// E for a row whose greatest finite magnitude is given: 40 − lost − floor(log2), in [−97, 189]; 0
/// for 0.
constexpr int scale_for(std::uint32_t max_magnitude, int lost = 0) {
  if (max_magnitude == 0) return 0;
  const int field = static_cast<int>(max_magnitude >> 23);
  const int denormal_log2 = static_cast<int>(std::bit_width(max_magnitude)) - 150;
  return 40 - lost - (field != 0 ? field - 127 : denormal_log2);
}

/// |q|: the finite value of bits magnitude, times 2^scale, rounded half to even.
/// magnitude must not exceed the one that scale was made for; the result is below 2^41.
constexpr std::uint64_t quantise(std::uint32_t magnitude, int scale) {
  const int field = static_cast<int>(magnitude >> 23);
  const std::uint64_t significand =
      field != 0 ? (magnitude & 0x7fffffu) | 0x800000u : magnitude;  // < 2^24
  const int shift = std::max(field, 1) - 150 + scale;
  if (shift >= 0) return significand << shift;
  const int right = -shift;
  if (right > 24) return 0;  // below one half
  const std::uint64_t below_half = (std::uint64_t{1} << (right - 1)) - 1;
  const std::uint64_t odd = (significand >> right) & 1;
  return (significand + below_half + odd) >> right;
}

/// What |q| adds to sum_sq: r², r = |q| to 21 bits.
constexpr std::uint64_t squared_term(std::uint64_t q) {
  const std::uint64_t r = (q + (std::uint64_t{1} << 19)) >> 20;
  return r * r;
}

/// Monotone in the value, so that integer min and max order floats (−0 below +0); own inverse.
constexpr std::int32_t order_key(std::uint32_t bits) {
  return static_cast<std::int32_t>((bits >> 31) != 0 ? bits ^ kMagnitudeMask : bits);
}

/// Where index goes in one map of the sketch: bits 0..3 the bucket, bit 4 set for a minus sign.
constexpr unsigned sketch_code(std::uint64_t index, std::size_t map) {
  constexpr std::uint64_t kGoldenGamma = 0x9e3779b97f4a7c15u;
  return static_cast<unsigned>(mix64(index + (2 * kSketchVersion + map) * kGoldenGamma) >> 59);
}

/// What of a fingerprint that somebody states contradicts itself, so that no values have it: "nan
/// and inf are more than n". Null when nothing does; an accident may still have made it. One of no
/// values has the hash 0.
const char* fault_of(const Fingerprint& stated);

}  // namespace greta
