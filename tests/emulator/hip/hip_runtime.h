#pragma once
#include <bit>
#include <cstddef>
#include <cstring>
#include <functional>
#include <type_traits>

#include "tests/emulator/block.h"
#include "tests/emulator/matrix_core.h"

// The part of HIP that greta's kernels use, on the host emulator. Found as <hip/hip_runtime.h> by
// what is compiled with GRETA_EMULATED_WAVE; names and meanings are HIP's.

// ---- Kernel language.

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct uint3 {
  unsigned x, y, z;
};
struct float2 {
  float x, y;
};

// Of the running thread.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;

inline void __syncthreads(greta::emulator::Where where = greta::emulator::Where::here()) {
  greta::emulator::barrier(where);
}
inline void __threadfence() {}

namespace greta::emulator {

// What lane source(own lane) gave; own value where that is no lane.
template <class T, class Source>
T shuffle(T value, Source source, const char* operation, Where where) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  const unsigned self = lane();
  const Operands& operands = exchange(&value, sizeof value, operation, where);
  const unsigned from = source(self);
  T result;
  std::memcpy(&result, operands[from < kLanes ? from : self].data(), sizeof result);
  return result;
}

}  // namespace greta::emulator

template <class T>
T __shfl(T value, int source, greta::emulator::Where where = greta::emulator::Where::here()) {
  return greta::emulator::shuffle(
      value, [source](unsigned) { return static_cast<unsigned>(source) % greta::emulator::kLanes; },
      "__shfl", where);
}
template <class T>
T __shfl_xor(T value, int mask, greta::emulator::Where where = greta::emulator::Where::here()) {
  return greta::emulator::shuffle(
      value, [mask](unsigned lane) { return lane ^ static_cast<unsigned>(mask); }, "__shfl_xor",
      where);
}
template <class T>
T __shfl_down(T value, unsigned delta,
              greta::emulator::Where where = greta::emulator::Where::here()) {
  return greta::emulator::shuffle(
      value, [delta](unsigned lane) { return lane + delta; }, "__shfl_down", where);
}

inline unsigned long long __ballot(int predicate,
                                   greta::emulator::Where where = greta::emulator::Where::here()) {
  const auto& operands = greta::emulator::exchange(&predicate, sizeof predicate, "__ballot", where);
  unsigned long long result = 0;
  for (unsigned lane = 0; lane < greta::emulator::kLanes; ++lane) {
    int other;
    std::memcpy(&other, operands[lane].data(), sizeof other);
    if (other != 0) result |= 1ull << lane;
  }
  return result;
}

// Threads change places only where they wait, so a plain update is atomic.
template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  const T old = *address;
  *address = static_cast<T>(old + value);
  return old;
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  const T old = *address;
  if (value > old) *address = value;
  return old;
}

inline int __popc(unsigned value) { return std::popcount(value); }
inline int __clz(int value) { return std::countl_zero(static_cast<unsigned>(value)); }

// ---- Runtime.

enum hipError_t {
  hipSuccess = 0,
  hipErrorInvalidValue = 1,
  hipErrorOutOfMemory = 2,
  hipErrorInvalidConfiguration = 9,
  hipErrorInvalidDevice = 101,
  hipErrorInvalidResourceHandle = 400,
  hipErrorNotReady = 600,
  hipErrorStreamCaptureUnsupported = 900,
  hipErrorStreamCaptureInvalidated = 901,
  hipErrorIllegalState = 401,
};
const char* hipGetErrorString(hipError_t error);

struct ihipStream_t;
struct ihipEvent_t;
struct ihipGraph;
struct hipGraphExec;
using hipStream_t = ihipStream_t*;
using hipEvent_t = ihipEvent_t*;
using hipGraph_t = ihipGraph*;
using hipGraphExec_t = hipGraphExec*;

enum hipMemcpyKind {
  hipMemcpyHostToHost,
  hipMemcpyHostToDevice,
  hipMemcpyDeviceToHost,
  hipMemcpyDeviceToDevice,
  hipMemcpyDefault
};
enum hipStreamCaptureMode {
  hipStreamCaptureModeGlobal,
  hipStreamCaptureModeThreadLocal,
  hipStreamCaptureModeRelaxed
};
inline constexpr unsigned hipStreamNonBlocking = 1;
inline constexpr unsigned hipHostMallocDefault = 0;

struct hipDeviceProp_t {
  char name[256];
  char gcnArchName[256];
  std::size_t totalGlobalMem;
  std::size_t sharedMemPerBlock;
  int warpSize;
  int multiProcessorCount;
  int maxThreadsPerBlock;
  int major, minor;
};

hipError_t hipGetDeviceCount(int* count);
hipError_t hipSetDevice(int device);
hipError_t hipGetDevice(int* device);
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int device);
hipError_t hipDeviceSynchronize();
hipError_t hipGetLastError();

hipError_t hipMalloc(void** data, std::size_t bytes);
hipError_t hipFree(void* data);
hipError_t hipHostMalloc(void** data, std::size_t bytes, unsigned flags);
hipError_t hipHostFree(void* data);
hipError_t hipMemGetInfo(std::size_t* free, std::size_t* total);
hipError_t hipMemcpyAsync(void* to, const void* from, std::size_t bytes, hipMemcpyKind kind,
                          hipStream_t stream);
hipError_t hipMemsetAsync(void* data, int value, std::size_t bytes, hipStream_t stream);

hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags);
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags);

hipError_t hipEventCreate(hipEvent_t* event);
hipError_t hipEventDestroy(hipEvent_t event);
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);
hipError_t hipEventSynchronize(hipEvent_t event);
hipError_t hipEventQuery(hipEvent_t event);

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode);
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph);
hipError_t hipGraphInstantiate(hipGraphExec_t* executable, hipGraph_t graph, hipGraph_t* bad_node,
                               char* log, std::size_t log_bytes);
hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t stream);
hipError_t hipGraphDestroy(hipGraph_t graph);
hipError_t hipGraphExecDestroy(hipGraphExec_t executable);

namespace greta::emulator {

/// hipLaunchKernel, for a kernel bound to its arguments.
hipError_t launch(const char* name, dim3 grid, dim3 block, std::size_t dynamic_shared_bytes,
                  hipStream_t stream, std::function<void()> body);

}  // namespace greta::emulator
