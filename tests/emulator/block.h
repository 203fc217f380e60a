#pragma once
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulator/emulator.h"
#include "tests/emulator/fiber.h"

// Execution of the blocks of one launch, and what their threads call while they run.

namespace greta::emulator {

inline constexpr unsigned kLanes = GRETA_EMULATED_WAVE;
static_assert(kLanes == 32 || kLanes == 64);
inline constexpr unsigned kMaxThreads = 1024;  // of a block
inline constexpr std::size_t kMaxSharedBytes = kLanes == 64 ? 64 << 10 : 227 << 10;
inline constexpr std::size_t kMaxStaticSharedBytes = kLanes == 64 ? 64 << 10 : 48 << 10;
inline constexpr std::size_t kMaxOperandBytes = 48;  // of a lane in one operation of its wavefront

struct Index3 {
  unsigned x = 0, y = 0, z = 0;
  bool operator==(const Index3&) const = default;
};

/// One launch: `body` is what a thread does.
struct Kernel {
  std::string name;
  Index3 grid, block;
  std::size_t dynamic_shared_bytes = 0;
  std::function<void()> body;
};

/// Runs all blocks. Throws KernelError. launch_number and the seed choose the order.
void run(const Kernel& kernel);

// ---- For the running thread.

/// A place in a kernel's source; as a default argument, the caller's.
struct Where {
  const char* file = "";
  int line = 0;

  static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// __syncthreads.
void barrier(Where where);

/// The operation of a wavefront behind all others: every lane gives `bytes` bytes and waits for
/// the others. Returns what lane i gave at [i]; valid until the lane's next operation but one.
using Operands = std::array<std::array<std::byte, kMaxOperandBytes>, kLanes>;
const Operands& exchange(const void* operand, std::size_t bytes, const char* operation,
                         Where where);

/// The block's object that `tag`, the address of something at the place of declaration, stands for.
void* static_shared(const void* tag, std::size_t bytes);
void* dynamic_shared();

/// The running thread's lane.
extern unsigned running_lane;
inline unsigned lane() { return running_lane; }

}  // namespace greta::emulator
