#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>

// A GPU in software, for tests: kernels run on the host by the HIP execution model.
//
// A block's threads are fibers that run one at a time until they meet a barrier, an operation of
// their wavefront, or their end; blocks run one after another. What real hardware leaves undefined
// is an error here, or as unpleasant as can be made: shared memory and fresh allocations hold NaN
// patterns, work on a stream is not done before something waits for it.
//
// The wavefront has GRETA_EMULATED_WAVE lanes: 64 stands for AMD (64 KiB of shared memory per
// block), 32 for NVIDIA (48 KiB, 227 KiB when dynamic). One host thread at a time.

namespace greta::emulator {

/// A kernel broke the rules: what() names kernel, block, thread and source line. Thrown by whatever
/// waits for the kernel; the rest of the queued work is dropped.
class KernelError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// 0: blocks, wavefronts and lanes in ascending order. Else: in an order drawn from the seed, anew
/// after every barrier and every operation of a wavefront: a missing barrier shows.
void set_schedule_seed(std::uint64_t seed);

/// What the device claims to have; allocations beyond fail with hipErrorOutOfMemory.
void set_memory_bytes(std::size_t bytes);

/// What has been executed since the start of the program.
struct Counters {
  std::uint64_t launches = 0;
  std::uint64_t blocks = 0;
  std::uint64_t threads = 0;
  std::uint64_t barriers = 0;     ///< of whole blocks
  std::uint64_t collectives = 0;  ///< of whole wavefronts
};
Counters counters();

}  // namespace greta::emulator
