#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/elementwise.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// Each value and its index make one number that grows with the value and falls with the index:
// all numbers differ, and the greatest k of them are the answer, whoever finds them. A thread keeps
// its own greatest in registers, in order; a block takes the greatest of them, k times. The last
// block to end does the same with what all blocks have found.

namespace greta {
namespace {

constexpr int kTopThreads = 256;
constexpr int kTopVector = 4;
constexpr int kTopBlocks = 128;
constexpr int64_t kBlockValues = int64_t{kTopThreads} * kTopVector;  // at least, of a block

struct Scratch {
  uint32_t n_done;
  uint32_t unused;
  uint64_t found[kTopBlocks * kMaxTopK];
};

constexpr uint64_t kNone = 0;  // below every value's key

__device__ uint64_t key_of(float value, uint32_t index) {
  constexpr uint32_t kSign = 0x80000000u;
  constexpr uint32_t kMinusInfinity = 0xff800000u;
  const uint32_t bits = value != value ? kMinusInfinity : value == 0 ? 0 : bits_as<uint32_t>(value);
  const uint32_t order = (bits & kSign) != 0 ? ~bits : bits | kSign;
  return uint64_t{order} << 32 | ~index;
}
__device__ uint32_t index_of(uint64_t key) { return ~static_cast<uint32_t>(key); }

// The greatest keys that a thread has seen, greatest first.
struct Best {
  uint64_t key[kMaxTopK] = {};

  __device__ void add(uint64_t candidate) {
    if (candidate <= key[kMaxTopK - 1]) return;
    GRETA_UNROLL
    for (int i = 0; i < kMaxTopK; ++i) {
      const uint64_t held = key[i];
      const bool greater = candidate > held;
      key[i] = greater ? candidate : held;
      candidate = greater ? held : candidate;
    }
  }
  __device__ void drop_first() {
    GRETA_UNROLL
    for (int i = 0; i + 1 < kMaxTopK; ++i) key[i] = key[i + 1];
    key[kMaxTopK - 1] = kNone;
  }
};

// Thread 0 calls use(place, key) for the k greatest of the block, kNone where there are fewer.
template <class Use>
__device__ void for_greatest(Best& best, int k, Use use) {
  for (int place = 0; place < k; ++place) {
    const uint64_t greatest = block_reduce(best.key[0], Max{});
    if (best.key[0] == greatest) best.drop_first();
    if (threadIdx.x == 0) use(place, greatest);
  }
}

__device__ void add_values(const float* values, int64_t n, bool aligned, Best& best) {
  const int64_t stride = gridDim.x * kBlockValues;
  int64_t i = blockIdx.x * kBlockValues + static_cast<int64_t>(threadIdx.x) * kTopVector;
  for (; i < n; i += stride) {
    if (aligned && i + kTopVector <= n) {
      const auto group = load_as<Floats4>(values + i);
      GRETA_UNROLL
      for (int j = 0; j < kTopVector; ++j) {
        best.add(key_of(group.value[j], static_cast<uint32_t>(i + j)));
      }
    } else {
      for (int64_t j = i; j < n && j < i + kTopVector; ++j) {
        best.add(key_of(values[j], static_cast<uint32_t>(j)));
      }
    }
  }
}

// True if this block is the last to come here; what the others wrote before is then visible.
__device__ bool is_last_block(uint32_t* n_done) {
  GRETA_SHARED(bool, is_last);
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomic_fetch_add(n_done, 1) + 1 == gridDim.x;
    __threadfence();
  }
  __syncthreads();
  return is_last;
}

__global__ __launch_bounds__(kTopThreads) void top_k_kernel(const float* values, int64_t n, int k,
                                                            bool aligned, float* top, int32_t* ids,
                                                            Scratch* scratch) {
  allow_next();
  wait_for_previous();
  Best best;
  add_values(values, n, aligned, best);
  uint64_t* const own = scratch->found + blockIdx.x * kMaxTopK;
  for_greatest(best, k, [&](int place, uint64_t key) { own[place] = key; });
  if (!is_last_block(&scratch->n_done)) return;

  Best all;
  const unsigned n_found = gridDim.x * kMaxTopK;
  for (unsigned i = threadIdx.x; i < n_found; i += kTopThreads) {
    if (static_cast<int>(i % kMaxTopK) < k) all.add(scratch->found[i]);
  }
  for_greatest(all, k, [&](int place, uint64_t key) {
    top[place] = key == kNone ? bits_as<float>(0x7fc00000u) : values[index_of(key)];
    ids[place] = key == kNone ? -1 : static_cast<int32_t>(index_of(key));
  });
  if (threadIdx.x == 0) scratch->n_done = 0;
}

}  // namespace

size_t top_k_scratch() { return sizeof(Scratch); }

void top_k(const float* values, int64_t n, int k, float* top, int32_t* ids, void* scratch,
           Stream& stream) {
  if (k < 0 || k > kMaxTopK || n < 0 || n > std::numeric_limits<int32_t>::max()) {
    throw std::invalid_argument("top_k: " + std::to_string(k) + " of " + std::to_string(n) +
                                " values, at most " + std::to_string(kMaxTopK) +
                                " of 2^31 - 1 are supported");
  }
  const auto blocks = std::clamp<int64_t>(n / kBlockValues, 1, kTopBlocks);
  launch(
      {.name = "top_k", .grid = static_cast<unsigned>(blocks), .block = kTopThreads, .early = true},
      stream, top_k_kernel, values, n, k, aligned16(values), top, ids,
      static_cast<Scratch*>(scratch));
}

}  // namespace greta
