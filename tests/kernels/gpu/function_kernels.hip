#include "kernels/gpu/device_math.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"
#include "tests/kernels/gpu/function_kernels.h"

namespace greta {
namespace {

__global__ void wave_functions_kernel(WaveResults* results) {
  const int t = static_cast<int>(threadIdx.x);
  const auto number = static_cast<uint32_t>(t + 1);
  const uint64_t wide = uint64_t{number} << 40;
  const float value = static_cast<float>(t) + 0.5f;
  WaveResults r;
  r.lane = lane_id();
  r.wave = wave_id();
  r.from_next = wave_shuffle(wide + number, (lane_id() + 1) % kWave);
  r.from_partner = wave_shuffle_xor(value, 5);
  r.odd_lanes = wave_ballot(t % 2 == 1);
  r.float_sum = wave_reduce(value, Plus{});
  r.float_max = wave_reduce(-value, Max{});
  r.double_sum = wave_reduce(static_cast<double>(value), Plus{});
  r.int64_sum =
      wave_reduce(t % 2 == 0 ? static_cast<int64_t>(wide) : -static_cast<int64_t>(wide), Plus{});
  r.uint64_sum = wave_reduce(wide, Plus{});
  r.uint32_sum = wave_reduce(number, Plus{});
  r.group_sum = wave_reduce<8>(number, Plus{});
  r.block_uint32_sum = block_sum(number);
  r.block_double_sum = block_sum(static_cast<double>(value));
  results[blockIdx.x * blockDim.x + threadIdx.x] = r;
}

__device__ uint32_t hash_of(uint32_t x) { return (x + 1) * 2654435761u; }

__device__ void add_share(uint32_t thread, Totals& totals) {
  const uint32_t hash = hash_of(thread);
  atomic_add(&totals.count, 1u);
  atomic_max(&totals.greatest, hash);
  atomic_add(&totals.sum, uint64_t{hash} << 20);
  atomic_add(&totals.difference, thread % 2 == 0 ? int64_t{hash} : -int64_t{hash});
}

__global__ void atomic_functions_kernel(bool shared, uint32_t* tickets, Totals* totals) {
  const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
  GRETA_SHARED(Totals, own);
  if (threadIdx.x == 0) own = {};
  __syncthreads();
  add_share(thread, shared ? own : *totals);
  __syncthreads();
  if (shared && threadIdx.x == 0) {
    atomic_add(&totals->count, own.count);
    atomic_max(&totals->greatest, own.greatest);
    atomic_add(&totals->sum, own.sum);
    atomic_add(&totals->difference, own.difference);
  }
  atomic_add(&totals->tickets, atomic_fetch_add(tickets, 1u));
}

__global__ void scalar_functions_kernel(const uint32_t* x, int64_t n, ScalarResults* results) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const uint32_t bits = x[i];
  const auto value = bits_as<float>(bits);
  results[i] = {f16_value(static_cast<uint16_t>(bits)),
                bf16_value(static_cast<uint16_t>(bits)),
                f16_bits(value),
                bf16_bits(value),
                exp_f32(value),
                silu(value),
                dot4_i8(bits, bits * 2654435761u, 7)};
}

__global__ void sum_by_dynamic_shared_kernel(const float* x, float* sums) {
  GRETA_DYNAMIC_SHARED(float, values);
  values[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  if (threadIdx.x != 0) return;
  float sum = 0;
  for (unsigned i = 0; i < blockDim.x; ++i) sum += values[i];
  sums[blockIdx.x] = sum;
}

__global__ void add_from_memory_kernel(const float* delta, int64_t n, float* x) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) x[i] += *delta;
}

__global__ void nothing_kernel() {}

}  // namespace

void wave_functions(int n_blocks, int n_threads, WaveResults* results, Stream& stream) {
  launch({"wave_functions", static_cast<unsigned>(n_blocks), static_cast<unsigned>(n_threads)},
         stream, wave_functions_kernel, results);
}

void atomic_functions(bool shared, int n_blocks, int n_threads, Totals* totals, Stream& stream) {
  // The counter of tickets is the count of a second Totals.
  launch({"atomic_functions", static_cast<unsigned>(n_blocks), static_cast<unsigned>(n_threads)},
         stream, atomic_functions_kernel, shared, &totals[1].count, totals);
}

void scalar_functions(const uint32_t* x, int64_t n, ScalarResults* results, Stream& stream) {
  launch({"scalar_functions", blocks_for(n, 256), 256}, stream, scalar_functions_kernel, x, n,
         results);
}

void sum_by_dynamic_shared(const float* x, int n_blocks, int n_threads, float* sums,
                           Stream& stream) {
  launch({"sum_by_dynamic_shared", static_cast<unsigned>(n_blocks),
          static_cast<unsigned>(n_threads), static_cast<size_t>(n_threads) * sizeof(float)},
         stream, sum_by_dynamic_shared_kernel, x, sums);
}

void add_from_memory(const float* delta, int64_t n, float* x, Stream& stream) {
  launch({"add_from_memory", blocks_for(n, 256), 256}, stream, add_from_memory_kernel, delta, n, x);
}

void launch_shape(int n_threads, size_t shared_bytes, Stream& stream) {
  launch({"nothing", 1, static_cast<unsigned>(n_threads), shared_bytes}, stream, nothing_kernel);
}

}  // namespace greta
