#pragma once

#include <cstdint>

#include "kernels/gpu/device.h"

// Kernels that expose the functions of kernels/gpu/wave.h and kernels/gpu/device_math.h, one result
// per thread.

namespace greta {

struct WaveResults {
  int32_t lane, wave;
  uint64_t from_next;  ///< wave_shuffle of lane (own + 1) mod lanes, of 8 bytes
  float from_partner;  ///< wave_shuffle_xor by 5
  uint64_t odd_lanes;  ///< wave_ballot
  float float_sum, float_max;
  double double_sum;
  int64_t int64_sum;
  uint64_t uint64_sum;
  uint32_t uint32_sum;
  uint32_t group_sum;  ///< of 8 neighbouring lanes
  uint32_t block_uint32_sum;
  double block_double_sum;
};

/// Thread t of every block works on value t: float t + 0.5, integers t + 1 and (t + 1) << 40.
void wave_functions(int n_blocks, int n_threads, WaveResults* results, Stream& stream);

struct Totals {
  uint32_t count;      ///< of threads
  uint32_t greatest;   ///< hash of a thread's number
  uint64_t sum;        ///< of the hashes << 20
  int64_t difference;  ///< of the hashes, odd threads negative
  uint32_t tickets;    ///< sum of the tickets that atomic_fetch_add gave
};

/// Adds every thread's share to totals by atomics: in shared memory first, or directly.
void atomic_functions(bool shared, int n_blocks, int n_threads, Totals* totals, Stream& stream);

struct ScalarResults {
  float f16_value, bf16_value;   ///< of the low 16 bits of x
  uint16_t f16_bits, bf16_bits;  ///< of x as a float
  float exp, silu;
  int32_t dot;  ///< of the bytes of x and of x · 2654435761
};

/// results[i] from the bits x[i].
void scalar_functions(const uint32_t* x, int64_t n, ScalarResults* results, Stream& stream);

/// sums[b] = Σ of block b's n_threads values of x, by way of dynamic shared memory.
void sum_by_dynamic_shared(const float* x, int n_blocks, int n_threads, float* sums,
                           Stream& stream);

/// x[i] += delta[0].
void add_from_memory(const float* delta, int64_t n, float* x, Stream& stream);

/// Launches with a block of n_threads and so much dynamic shared memory, doing nothing.
void launch_shape(int n_threads, size_t shared_bytes, Stream& stream);

}  // namespace greta
