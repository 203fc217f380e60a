#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/matrix_core.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// Attention on matrix cores: the two products of 16 queries with 16 keys, and what lies between
// them, in the registers of one wavefront. Device code.
//
//   scores[query][key] += Σ_k q[query][k]·K[key][k]           k < 16
//   out[query][dim]    += Σ_key weights[query][key]·Vᵀ[dim][key]   16 keys
//
// The point is that weights computed from the scores, value by value where they are, become the
// operand of the second product without leaving their lane. Which is which operand follows from
// the layouts of kernels/gpu/matrix_core.h:
//
// NVIDIA: q, and then the weights, are the left operand. A lane has pairs of columns of two rows of
// a result, which are the pairs of k that it has of two rows of a left operand.
// AMD: K, and then Vᵀ, are the left operand. A lane has four neighbouring rows of one column of a
// result, keys of one query, which are the four k that it has of a row of the right operand.

namespace greta {

struct QueryTile {
  using Tile = WaveTile<HalfType::kF16, 16>;
  using Operand = Tile::Operand;
  using Sum = Tile::Sum;
  static constexpr bool kQueriesLeft = kMatrixLanes == 32;
  static constexpr int kValues = Tile::kValues;        ///< scores or outputs that a lane holds
  static constexpr int kSlots = kQueriesLeft ? 2 : 1;  ///< queries of which it holds them

  /// Which of its queries value i belongs to, and which of the 16 a slot is.
  __device__ static constexpr int slot(int i) { return kQueriesLeft ? i / 2 % 2 : 0; }
  __device__ static int query(int slot) {
    return kQueriesLeft ? Tile::row(2 * slot) : Tile::column(0);
  }

  /// Which of 16 keys score i belongs to, or which of 16 dimensions output i is. i + 1 has the next
  /// one for even i.
  __device__ static int key(int i) { return kQueriesLeft ? Tile::column(i) : Tile::row(i); }
  __device__ static int dim(int i) { return key(i); }

  /// Where a lane's part of an operand begins in [16 rows][16] in shared memory, rows `stride`
  /// halves apart: of q, of K or Vᵀ.
  __device__ static int place_of_queries(int stride) {
    if constexpr (!kQueriesLeft) return lane_id() % 16 * stride;
    return lane_id() % 16 * stride + lane_id() / 16 * 8;
  }
  __device__ static int place(int stride) {
    if constexpr (!kQueriesLeft) return lane_id() % 16 * stride;
    return (lane_id() / 16 * 8 + lane_id() % 8) * stride + lane_id() / 8 % 2 * 8;
  }

  /// own: the block's address and the lane's place in it, so that the addresses of many blocks are
  /// one register and constants.
  __device__ static Operand load_queries(const uint16_t* own, int stride) {
    const uint16_t* block = own - place_of_queries(stride);
    return kQueriesLeft ? Tile::load_left(block, stride) : Tile::load_right(block, stride);
  }
  __device__ static Operand load(const uint16_t* own, int stride) {
    const uint16_t* block = own - place(stride);
    return kQueriesLeft ? Tile::load_right(block, stride) : Tile::load_left(block, stride);
  }

  /// of_queries: q or weights; others: K or Vᵀ.
  __device__ static void multiply_add(const Operand& of_queries, const Operand& others, Sum& sum) {
    if constexpr (kQueriesLeft) {
      Tile::multiply_add(of_queries, others, sum);
    } else {
      Tile::multiply_add(others, of_queries, sum);
    }
  }

  /// The weights, in place of the scores, rounded to f16.
  __device__ static Operand weights(const Sum& w) {
    uint32_t pairs[kValues / 2];
    GRETA_UNROLL
    for (int i = 0; i < kValues / 2; ++i) {
      // Pairs i of a left operand: rows in slots 0 and 1 of the lower keys, then of the upper ones.
      const int first = kQueriesLeft ? i % 2 * 4 + i / 2 * 2 : 2 * i;
      pairs[i] = greta::half_pair<HalfType::kF16>(w.value[first], w.value[first + 1]);
    }
    return bits_as<Operand>(pairs);
  }

  /// An operand with zeros for all of the 16 k but one.
  __device__ static Operand only(const Operand& operand, int k) {
    uint32_t pairs[kValues / 2];
    static_assert(sizeof pairs == sizeof operand);
    memcpy(pairs, &operand, sizeof pairs);
    const bool own_lane =
        (kQueriesLeft ? k % 8 / 2 : k / 4) == (kQueriesLeft ? lane_id() % 4 : lane_id() / 16);
    const uint32_t mask = own_lane ? 0xffffu << 16 * (k % 2) : 0;
    GRETA_UNROLL
    for (int i = 0; i < kValues / 2; ++i) {
      pairs[i] &= i % 2 == (kQueriesLeft ? k / 8 : k / 2 % 2) ? mask : 0;
    }
    return bits_as<Operand>(pairs);
  }

  /// Over the lanes that hold values of the same queries.
  template <class Combine>
  __device__ static float reduce(float value, Combine combine) {
    GRETA_UNROLL
    for (int mask = kQueriesLeft ? 1 : 16; mask < (kQueriesLeft ? 4 : kMatrixLanes); mask *= 2) {
      value = combine(value, wave_shuffle_xor(value, mask));
    }
    return value;
  }
};

/// 2^x within a few units of the last place, as fast as the device has it. Infinite, +0 and NaN
/// where they should be; subnormal results may be 0.
__device__ inline float fast_exp2(float x) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  return exp2f(x);
#endif
}

}  // namespace greta
