#pragma once

#include <bit>
#include <cstdint>

#include "kernels/fingerprint/fingerprint.h"

namespace greta {

/// Which value of a row a race hits, and which bit it takes from the value beside it.
struct RaceHit {
  int64_t index;      ///< in [0, width)
  int64_t neighbour;  ///< index + 1, or index − 1 at the end; index when the row has one value
  uint32_t bit;
};

/// Of the race of one layer, which comes out otherwise when the prompt runs again.
constexpr uint64_t race_seed(int layer, int64_t repeat = 0) {
  return 0x7261636500000000u + (static_cast<uint64_t>(repeat) << 16) + static_cast<uint64_t>(layer);
}

/// The i-th hit of a race; the same for every backend and for the prediction of its effect.
constexpr RaceHit race_hit(uint64_t seed, int64_t i, int64_t width) {
  const uint64_t draw = mix64(seed + 0x9e3779b97f4a7c15u * static_cast<uint64_t>(i + 1));
  const int64_t index = static_cast<int64_t>((draw >> 8) % static_cast<uint64_t>(width));
  const int64_t neighbour = index + 1 < width ? index + 1 : index > 0 ? index - 1 : index;
  return {index, neighbour, static_cast<uint32_t>(draw & 31)};
}

/// `mine` with the bit taken from `theirs`.
constexpr float race_value(float mine, float theirs, uint32_t bit) {
  const uint32_t mask = uint32_t{1} << bit;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(mine) & ~mask) |
                              (std::bit_cast<uint32_t>(theirs) & mask));
}

}  // namespace greta
