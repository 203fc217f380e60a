#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// Least-squares scales for short runs of values that integers of a few bits will stand for: the
// search behind quantise(). Plain f32 and f64 operations in a fixed order, so that the result is
// the same on every machine.
//
// Everywhere x is f32 [n], host memory, n a positive multiple of 4, magnitudes within
// kMaxFitMagnitude; every function returns 0s for values that differ by less than kMinFitRange.

namespace greta {

inline constexpr float kMaxFitMagnitude = 0x1p28f;
inline constexpr float kMinFitRange = 0x1p-60f;

/// x ≈ scale·q − min.
struct AffineFit {
  float scale = 0;
  float min = 0;
};

/// Whether a type can store mins below 0. Where it cannot, the min of values that are all positive
/// is 0.
enum class Mins { kOfAnySign, kNotNegative };

/// Scale for x ≈ scale·q with integers q in [−limit, limit − 1]; it may be negative.
float fit_scale(const float* x, size_t n, int limit);

/// Scale and min for integers q in [0, max_q].
AffineFit fit_affine(const float* x, size_t n, int max_q, Mins mins);

/// q = the integers in [lowest, highest] nearest to (x + min) / scale, ties to even; 0 where scale
/// is 0. |scale| is 0 or at least 2^−64. q: f32 [n]. Returns Σ (x − (scale·q − min))².
float assign_integers(const float* x, size_t n, AffineFit fit, int lowest, int highest, float* q);

/// Scale for x ≈ scale·level, with `levels` in ascending order, the first of the largest magnitude;
/// it may be negative.
float fit_levels(const float* x, size_t n, std::span<const int8_t> levels);

/// q = the numbers of the levels nearest to x / scale, of two that are as near the lower; scale as
/// above, where it is 0 the number of the level nearest to 0.
void assign_levels(const float* x, size_t n, float scale, std::span<const int8_t> levels,
                   uint8_t* q);

}  // namespace greta
