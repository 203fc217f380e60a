#pragma once

#include <cstdint>

#include "kernels/gpu/device.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/matrix_core.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// Matrix cores that read operands from shared memory: four wavefronts together, a warpgroup,
// multiply tiles of 16-bit floats into f32, while their threads go on. Device code.
//
//   D[m][n] += Σ_k A[m][k]·B[n][k],   m < kLeft,  n < kRight,  k < kDepth
//
// NVIDIA's sm_90a alone: wgmma.m64nNk16. "PTX ISA", Asynchronous Warpgroup Level Matrix
// Instructions, register fragments and the 128-byte swizzle. An element has the bits that
// kernels/gpu/matrix_core.h gives it: a test holds both equal on the device.

#if defined(GRETA_WARPGROUPS) && !defined(GRETA_AMD)

namespace greta {

// The sums as asm wants them: names, and operands of an array of parts.
#define GRETA_SUM_NAMES_32                                                 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define GRETA_SUM_NAMES_64                                                             \
  GRETA_SUM_NAMES_32                                                                   \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define GRETA_SUM_NAMES_128                                                                      \
  GRETA_SUM_NAMES_64                                                                             \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "           \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define GRETA_SUMS_8(part)                                                            \
  "+f"(part.value[0]), "+f"(part.value[1]), "+f"(part.value[2]), "+f"(part.value[3]), \
      "+f"(part.value[4]), "+f"(part.value[5]), "+f"(part.value[6]), "+f"(part.value[7])
#define GRETA_SUMS_32(p, i) \
  GRETA_SUMS_8(p[i]), GRETA_SUMS_8(p[i + 1]), GRETA_SUMS_8(p[i + 2]), GRETA_SUMS_8(p[i + 3])
#define GRETA_SUMS_64(p, i) GRETA_SUMS_32(p, i), GRETA_SUMS_32(p, i + 4)
#define GRETA_SUMS_128(p, i) GRETA_SUMS_64(p, i), GRETA_SUMS_64(p, i + 8)

// One instruction; n_sums: of a thread, which are operands 0 on. From shared memory by descriptors
// a and b, or with the left operand from registers.
#define GRETA_WGMMA_SHARED(n, type, n_sums, a_name, b_name)                              \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type           \
               " {" GRETA_SUM_NAMES_##n_sums "}, " a_name ", " b_name ", 1, 1, 1, 0, 0;" \
               : GRETA_SUMS_##n_sums(sums, 0)                                            \
               : "l"(a), "l"(b))
#define GRETA_WGMMA_REGISTERS(n, type, n_sums, a_names, b_name)                          \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type           \
               " {" GRETA_SUM_NAMES_##n_sums "}, {" a_names "}, " b_name ", 1, 1, 1, 0;" \
               : GRETA_SUMS_##n_sums(sums, 0)                                            \
               : "r"(left.pair[0][0]), "r"(left.pair[1][0]), "r"(left.pair[0][1]),       \
                 "r"(left.pair[1][1]), "l"(b))

/// Four wavefronts; each has sixteen rows of the left operand and of the sums, in parts of sixteen
/// columns as WaveTile<kType, 16> has them.
template <HalfType kType, int kRight>
struct GroupTile {
  static_assert(kRight == 64 || kRight == 128 || kRight == 256);
  static constexpr int kThreads = 128, kLeft = 64, kDepth = 16;
  static constexpr int kColumns = 64;     ///< of a line in shared memory: 128 bytes
  static constexpr int kAlignment = 512;  ///< halves to which operands begin
  using Part = typename WaveTile<kType, 16>::Sum;
  using Left = typename WaveTile<kType, 16>::Operand;
  using Sums = Part[kRight / 16];

  /// Where the eight halves `chunk` of a line lie.
  __device__ static int place(int line, int chunk) {
    return line * kColumns + (chunk ^ line % 8) * 8;
  }

  /// Queues the product of columns kDepth·slice on of [kLeft][kColumns] and [kRight][kColumns].
  __device__ static void multiply_add(const uint16_t* left, const uint16_t* right, int slice,
                                      Sums& sums) {
#if defined(GRETA_EMULATOR)
    const int row = wave_id() % 4 * 16 + lane_id() / 4;
    emulator::wgmma<kRight>(kType == HalfType::kBF16, emulator::wgmma_rows(left, slice, row), right,
                            slice, lane_id() % 4 * 2, sums[0].value);
#elif defined(__CUDA_ARCH__)
    // 32 bytes further along the line; the swizzle takes bits of the address.
    const uint64_t a = descriptor(left) + 2 * slice, b = descriptor(right) + 2 * slice;
    if constexpr (kRight == 256 && kType == HalfType::kF16) {
      GRETA_WGMMA_SHARED(256, "f16", 128, "%128", "%129");
    } else if constexpr (kRight == 256) {
      GRETA_WGMMA_SHARED(256, "bf16", 128, "%128", "%129");
    } else {
      static_assert(kRight == 128 && kType == HalfType::kF16, "nobody needs others");
      GRETA_WGMMA_SHARED(128, "f16", 64, "%64", "%65");
    }
#endif
  }

  /// The same, with the left operand's columns of this slice in registers, which must stay as they
  /// are until the product is done; slice: of the right one.
  __device__ static void multiply_add(const Left& left, const uint16_t* right, int slice,
                                      Sums& sums) {
    static_assert(kType == HalfType::kF16, "nobody needs others");
#if defined(GRETA_EMULATOR)
    emulator::WgmmaRows rows;
    for (int half = 0; half < 2; ++half) {
      for (int c = 0; c < 4; ++c) {  // the lane that has a quarter of the eight k
        for (int i = 0; i < 2; ++i) {
          const uint32_t pair = wave_shuffle(left.pair[i][half], lane_id() / 4 * 4 + c);
          rows[i][half * 8 + c * 2] = static_cast<uint16_t>(pair);
          rows[i][half * 8 + c * 2 + 1] = static_cast<uint16_t>(pair >> 16);
        }
      }
    }
    emulator::wgmma<kRight>(false, rows, right, slice, lane_id() % 4 * 2, sums[0].value);
#elif defined(__CUDA_ARCH__)
    const uint64_t b = descriptor(right) + 2 * slice;
    if constexpr (kRight == 128) {
      GRETA_WGMMA_REGISTERS(128, "f16", 64, "%64, %65, %66, %67", "%68");
    } else {
      static_assert(kRight == 64, "nobody needs others");
      GRETA_WGMMA_REGISTERS(64, "f16", 32, "%32, %33, %34, %35", "%36");
    }
#endif
  }

  /// Before the first product, and after sums were touched by anything else.
  __device__ static void begin() {
#if defined(__CUDA_ARCH__)
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
  }
  /// Ends a group of products.
  __device__ static void commit() {
#if defined(__CUDA_ARCH__)
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
  }
  /// Waits until all but the kPending newest groups are done.
  template <int kPending>
  __device__ static void wait() {
#if defined(__CUDA_ARCH__)
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#endif
  }
  /// Between a thread's own writes to shared memory and a barrier after which they are operands.
  __device__ static void publish() {
#if defined(__CUDA_ARCH__)
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
  }

#if defined(__CUDA_ARCH__)
 private:
  /// Lines of 128 bytes, groups of eight 1,024 bytes apart, swizzled by 128 bytes.
  __device__ static uint64_t descriptor(const uint16_t* lines) {
    const uint64_t address = __cvta_generic_to_shared(lines);
    return (address & 0x3ffff) >> 4 | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 |
           uint64_t{1} << 62;
  }
#endif
};

}  // namespace greta

#endif
