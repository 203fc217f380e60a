#pragma once
#include <cstdint>

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/matrix_core.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// Attention on matrix cores: the two products of 16 queries with 16 keys, and what lies between
// them, in the registers of one wavefront. Device code.
//
//   scores[query][key] += Σ_k q[query][k]·K[key][k]                16 dimensions k
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

  /// The lane's values of one of its queries, added in order.
  __device__ static float own_sum(const Sum& sum, int slot) {
    constexpr int kEach = kQueriesLeft ? 2 : 4;  // neighbouring values of a query
    float total = sum.value[slot * 2];
    GRETA_UNROLL
    for (int i = 1; i < 4; ++i) total += sum.value[i / kEach * 4 + slot * 2 + i % kEach];
    return total;
  }

  // ---- Operands from shared memory.

  /// Where in a row of q or K dimensions d and d + 1 lie, and d + 2 and d + 3, d a multiple of 4: a
  /// lane that loads four dimensions at once (key_dim()) has them among its own.
  __host__ __device__ static constexpr int low_place(int d) {
    return kQueriesLeft ? d / 16 * 16 + d % 16 / 2 : d;
  }
  __host__ __device__ static constexpr int high_place(int d) {
    return low_place(d) + (kQueriesLeft ? 8 : 2);
  }
  /// Stores dimensions d .. d + 3 of a row of q or K, as pairs of halves.
  __device__ static void store_four(uint16_t* row, int d, uint32_t low, uint32_t high) {
    store_as(row + low_place(d), low);
    store_as(row + high_place(d), high);
  }

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

  /// An operand with zeros for all of the 16 k but those from `from` on before `end`.
  __device__ static Operand between(const Operand& operand, int from, int end) {
    struct Pairs {
      uint32_t pair[kValues / 2];
    };
    auto pairs = bits_as<Pairs>(operand);
    GRETA_UNROLL
    for (int i = 0; i < kValues / 2; ++i) {
      const int k = kQueriesLeft ? i % 2 * 8 + lane_id() % 4 * 2 : lane_id() / 16 * 4 + i % 2 * 2;
      const auto taken = [&](int key) {
        return static_cast<uint32_t>(mask_below(key, end) & ~mask_below(key, from));
      };
      pairs.pair[i] &= (taken(k) & 0xffffu) | (taken(k + 1) & ~0xffffu);
    }
    return bits_as<Operand>(pairs);
  }

  // ---- Operands from values that a lane loads itself, from rows of the cache.

  static constexpr int kKeyRows = kQueriesLeft ? 2 : 1;  ///< of a tile of K, of which it has values

  /// Which of the 16 keys row i is, and the first of the four of 16 dimensions that it has of each.
  __device__ static int key_row(int i) {
    return kQueriesLeft ? i * 8 + lane_id() / 4 : lane_id() % 16;
  }
  __device__ static int key_dim() { return (kQueriesLeft ? lane_id() % 4 : lane_id() / 16) * 4; }
  /// Of values as a cache stores them.
  template <class Stored>
  __device__ static Operand of_keys(const Four<Stored> (&rows)[kKeyRows]) {
    uint32_t pairs[kValues / 2];
    GRETA_UNROLL
    for (int i = 0; i < kValues / 2; ++i) {
      const Stored* two = rows[i / 2].value + i % 2 * 2;
      pairs[i] = f16_pair_of(two[0], two[1]);
    }
    return bits_as<Operand>(pairs);
  }

  /// Of values a lane has four keys, and of each neighbouring dimensions, kValueRun for every tile
  /// of 16 of them: tiles that are multiplied together share their dimensions out.
  static constexpr int kValueKeys = 4, kValueRun = kQueriesLeft ? 2 : 1;

  /// Which of the 16 keys value row i is, and which of 16·n_tiles dimensions it has first.
  __device__ static int value_key(int i) {
    return kQueriesLeft ? i / 2 * 8 + lane_id() % 4 * 2 + i % 2 : lane_id() / 16 * 4 + i;
  }
  __device__ static int value_dim(int n_tiles) {
    return (kQueriesLeft ? lane_id() / 4 : lane_id() % 16) * kValueRun * n_tiles;
  }
  /// rows[i]: kValueRun·n_tiles values of key value_key(i). Run has an array `value`, as a cache
  /// stores them.
  template <class Run>
  __device__ static Operand of_values(const Run (&rows)[kValueKeys], int tile) {
    uint32_t pairs[kValues / 2];
    GRETA_UNROLL
    for (int i = 0; i < kValues / 2; ++i) {
      const int d = tile * kValueRun + (kQueriesLeft ? i / 2 : 0), key = i % 2 * 2;
      pairs[i] = f16_pair_of(rows[key].value[d], rows[key + 1].value[d]);
    }
    return bits_as<Operand>(pairs);
  }
  /// Which of 16·n_tiles dimensions output i of a tile is then.
  __device__ static int value_dim_of(int n_tiles, int tile, int i) {
    const int n = dim(i);
    if constexpr (!kQueriesLeft) return n * n_tiles + tile;
    return n % 8 * 2 * n_tiles + tile * 2 + n / 8;
  }

  // ---- Results.

  /// Which of the kQueryLanes lanes that hold values of the same queries it is.
  static constexpr int kQueryLanes = 4;
  __device__ static int query_lane() { return kQueriesLeft ? lane_id() % 4 : lane_id() / 16; }

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
