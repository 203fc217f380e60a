#pragma once

#include "kernels/simd/simd.h"

namespace greta::GRETA_ISA {

/// e^x of each lane, within 1.01 ulp. Infinite where f32 overflows, +0 below e^−87 (so also for −∞:
/// results that are denormal or nearly so are not made), NaN for NaN.
///
/// x = n·ln 2 + r, n whole, |r| ≤ ln 2 / 2; e^x = 2^n·e^r.
GRETA_INLINE F32 exp(F32 x) {
  constexpr float kLog2E = 0x1.715476p0f;
  constexpr float kRounder = 0x1.8p23f;        // a sum with it has the nearest integer's last bits
  constexpr float kLn2High = 0x1.63p-1f;       // few bits: its product with n is exact
  constexpr float kLn2Low = -0x1.bd0106p-13f;  // ln 2 − kLn2High
  constexpr float kLeast = -87.0f;
  constexpr float kGreatest = 89.0f;  // e^89 is beyond f32; beyond, n would not fit

  x = min(splat(kGreatest), x);
  const F32 rounded = madd(x, splat(kLog2E), splat(kRounder));
  const F32 n = rounded - kRounder;
  F32 r = madd(n, splat(-kLn2High), x);
  r = madd(n, splat(-kLn2Low), r);

  // e^r = 1 + r + r²·p(r), minimax for the relative error: 3.1e-9.
  F32 p = splat(0x1.6a2448p-10f);
  p = madd(p, r, splat(0x1.1239d6p-7f));
  p = madd(p, r, splat(0x1.5558f2p-5f));
  p = madd(p, r, splat(0x1.555492p-3f));
  p = madd(p, r, splat(0x1.fffffcp-2f));
  const F32 power = madd(p, r * r, r) + 1.0f;

  // 2^(n − 1), since 2^128 is not a number: twice the power makes up for it.
  const F32 scale = from_bits((bits(rounded) << 23) + (126u << 23));
  const F32 result = (power + power) * scale;
  return x < kLeast ? F32{} : result;
}

}  // namespace greta::GRETA_ISA
