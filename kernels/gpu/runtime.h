#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kernels/gpu/device.h"

// What a *.hip file includes: one kernel language for three compilers.
//
//   hipcc       AMD, wavefronts of 64 lanes
//   nvcc        NVIDIA, wavefronts (warps) of 32
//   g++, clang  the host emulator in tests/emulator; GRETA_EMULATED_WAVE says 32 or 64
//
// Kernels are written in HIP with blocks of one dimension, and with these for what differs:
//
//   GRETA_SHARED(float, tile, [32][33]);       // shared memory; no third argument: one value
//   GRETA_DYNAMIC_SHARED(float, scores);       // float* to what the launch asked for
//   launch({"add", blocks_for(n, 256), 256}, stream, add_kernel, a, b, n, out);
//
// kernels/gpu/wave.h has what lanes and threads do together, kernels/gpu/device_math.h the
// arithmetic. Multiplication and addition are never contracted (-ffp-contract=off, -fmad=false):
// where one rounding is wanted the source says fmaf, and the three compilers round alike.

#if defined(__CUDACC__)
#define GRETA_NVIDIA 1
#include "kernels/gpu/hip_on_cuda.h"
#elif defined(GRETA_EMULATED_WAVE)
#define GRETA_EMULATOR 1
#include <hip/hip_runtime.h>
#else
#define GRETA_AMD 1
#include <hip/hip_runtime.h>
#endif

#if defined(GRETA_EMULATOR)

#define GRETA_SHARED(type, name, ...)             \
  typedef type name##_type __VA_ARGS__;           \
  static const char name##_tag = 0;               \
  name##_type& name = *static_cast<name##_type*>( \
      ::greta::emulator::static_shared(&name##_tag, sizeof(name##_type)))
#define GRETA_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::greta::emulator::dynamic_shared())
#define GRETA_UNROLL
#define GRETA_NO_UNROLL

#else

#define GRETA_SHARED(type, name, ...) __shared__ type name __VA_ARGS__
#define GRETA_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char greta_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(greta_dynamic_shared)
#define GRETA_UNROLL _Pragma("unroll")
// For loops whose every turn would keep registers of its own.
#define GRETA_NO_UNROLL _Pragma("unroll 1")

#endif

namespace greta {

/// Lanes of a wavefront, in device code. Launchers must not depend on it: hipcc's host side does
/// not know it.
#if defined(GRETA_EMULATOR)
inline constexpr int kWave = GRETA_EMULATED_WAVE;
#elif defined(GRETA_AMD) && defined(__AMDGCN_WAVEFRONT_SIZE)
inline constexpr int kWave = __AMDGCN_WAVEFRONT_SIZE;
#elif defined(GRETA_AMD)
inline constexpr int kWave = 64;
#else
inline constexpr int kWave = 32;
#endif

/// The bits of a value as another type of that size, in device code. (std::bit_cast makes nvcc 13.0
/// fail on itself.)
template <class To, class From>
__device__ inline To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From) && std::is_trivially_copyable_v<From>);
  To to;
#if defined(GRETA_AMD)  // HIP's memcpy() goes byte by byte, and what is copied stays in memory
  __builtin_memcpy(&to, &from, sizeof to);
#else
  memcpy(&to, &from, sizeof to);
#endif
  return to;
}

/// For kernels launched early, at their very beginning: lets the next kernel be started early too.
/// Then, before the first access to anything that earlier work writes or reads, wait_for_previous()
/// waits for that work; in between there is time to load weights. Only NVIDIA starts kernels early.
__device__ inline void allow_next() {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ inline void wait_for_previous() {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Before a kernel's argument: it is indexed where it lies, instead of in a copy.
#if defined(GRETA_NVIDIA)
#define GRETA_GRID_CONSTANT __grid_constant__
#else
#define GRETA_GRID_CONSTANT
#endif

/// A kernel's first argument, which has arrays, at the kernel's beginning: for AMD what
/// GRETA_GRID_CONSTANT is for NVIDIA. The others take it as it is.
template <class T>
__device__ inline const T& first_argument([[maybe_unused]] const T& argument) {
#if defined(GRETA_AMD) && defined(__HIP_DEVICE_COMPILE__)
  return *(const T*)__builtin_amdgcn_kernarg_segment_ptr();  // from an address space of its own
#else
  return argument;
#endif
}

/// The longest block that every device runs.
inline constexpr int kMaxBlockThreads = 1024;

/// Name for errors, shape and dynamic shared memory of a launch.
struct LaunchShape {
  const char* name;
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  /// The kernel calls wait_for_previous(): it may be started while what is queued before it ends.
  bool early = false;
};

/// Blocks of `per_block` that cover n; std::length_error when no grid has so many.
inline unsigned blocks_for(int64_t n, int64_t per_block) {
  const int64_t blocks = n / per_block + (n % per_block != 0 ? 1 : 0);
  if (n < 0 || blocks > 0x7fffffff) {
    throw std::length_error("no launch covers " + std::to_string(n) + " items");
  }
  return static_cast<unsigned>(blocks);
}

namespace device_detail {

inline hipStream_t stream_handle(const Stream& stream) {
  return static_cast<hipStream_t>(stream.handle());
}

#if !defined(GRETA_EMULATOR)
inline hipError_t launch_kernel(const void* function, const LaunchShape& shape, void** arguments,
                                const Stream& stream) {
#if defined(GRETA_NVIDIA)
  if (shape.early) {
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = shape.grid;
    config.blockDim = shape.block;
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = stream_handle(stream);
    config.attrs = &early;
    config.numAttrs = 1;
    return cudaLaunchKernelExC(&config, function, arguments);
  }
#endif
  return hipLaunchKernel(function, shape.grid, shape.block, arguments, shape.shared_bytes,
                         stream_handle(stream));
}
#endif

/// Throws the DeviceError of a launch.
[[noreturn]] void throw_launch_error(const LaunchShape& shape, hipError_t error);

}  // namespace device_detail

/// Queues a kernel. Arguments are converted to the kernel's parameters and copied. A grid without
/// blocks launches nothing. Throws DeviceError, with name and shape, for what the device refuses.
template <class... Parameters, class... Arguments>
void launch(const LaunchShape& shape, Stream& stream, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
#if defined(GRETA_EMULATOR)
  const hipError_t error = emulator::launch(
      shape.name, shape.grid, shape.block, shape.shared_bytes, device_detail::stream_handle(stream),
      [kernel, values = std::tuple<Parameters...>(std::forward<Arguments>(arguments)...)] {
        std::apply(kernel, values);
      });
#else
  const auto* function = reinterpret_cast<const void*>(kernel);
  hipError_t error = hipSuccess;
#if defined(GRETA_NVIDIA)
  // Beyond 48 KiB, what the kernel declares itself included, it must ask.
  if (shape.shared_bytes > (size_t{32} << 10)) {
    error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shape.shared_bytes));
  }
#endif
  if (error == hipSuccess) {
    std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
    std::apply(
        [&](auto&... value) {
          void* pointers[] = {const_cast<void*>(static_cast<const void*>(&value))..., nullptr};
          error = device_detail::launch_kernel(function, shape, pointers, stream);
        },
        values);
  }
#endif
  if (error != hipSuccess) device_detail::throw_launch_error(shape, error);
  stream.count_launch(shape.name);
}

}  // namespace greta
