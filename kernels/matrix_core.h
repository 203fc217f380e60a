#pragma once

#include <cstdint>

#include "kernels/gpu_math.h"
#include "kernels/gpu_runtime.h"
#include "kernels/half_type.h"
#include "kernels/wave.h"

// Matrix cores: one wavefront multiplies tiles of 16-bit floats into f32. Device code.
//
//   D[m][n] += Σ_k A[m][k]·B[n][k],   m, n < kSize,  k < kDepth
//
// Both operands have k running fastest, as weights [rows, cols] and activations [tokens, cols] do.
// Products are exact; the order and the rounding of the sums are the hardware's. gfx90a takes
// subnormal operands as 0, gfx940 and NVIDIA do not.
//
// AMD: v_mfma_f32_16x16x16f16, v_mfma_f32_32x32x8f16 and their bf16 forms (_1k), wavefronts of 64.
// Register layouts: "AMD Instinct MI300" Instruction Set Architecture, Matrix Arithmetic
// Instructions, dense matrix layouts; the same as AMD's matrix instruction calculator prints.
// NVIDIA: mma.sync.m16n8k16, warps of 32. "PTX ISA", Matrix Fragments for mma.m16n8k16 with
// floating point type.

namespace greta {

namespace matrix_core_detail {

/// Four neighbouring values of one row, the lowest k in the lowest bits.
using Quad = uint64_t;

struct alignas(16) QuadPair {
  Quad quad[2];
};

#if defined(GRETA_NVIDIA) || (defined(GRETA_EMULATOR) && GRETA_EMULATED_WAVE == 32)

/// d += a·b for one m16n8k16; a and b as pairs of values.
template <HalfType kType>
__device__ inline void multiply(const uint32_t (&a)[4], const uint32_t (&b)[2], float* d) {
#if defined(GRETA_EMULATOR)
  emulator::mma_m16n8k16(kType == HalfType::kBF16, a, b, d);
#elif defined(__CUDA_ARCH__)
  if constexpr (kType == HalfType::kF16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#endif
}

#else

#if defined(GRETA_EMULATOR)
using Halves = emulator::Vector<uint16_t, 4>;
using Shorts = emulator::Vector<int16_t, 4>;
using Sum4 = emulator::Vector<float, 4>;
using Sum16 = emulator::Vector<float, 16>;
#else
typedef _Float16 Halves __attribute__((ext_vector_type(4)));
typedef short Shorts __attribute__((ext_vector_type(4)));
typedef float Sum4 __attribute__((ext_vector_type(4)));
typedef float Sum16 __attribute__((ext_vector_type(16)));
#endif

template <HalfType kType>
__device__ inline Sum4 multiply(Quad a, Quad b, Sum4 sum) {
  if constexpr (kType == HalfType::kF16) {
    return __builtin_amdgcn_mfma_f32_16x16x16f16(bits_as<Halves>(a), bits_as<Halves>(b), sum, 0, 0,
                                                 0);
  } else {
    return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(bits_as<Shorts>(a), bits_as<Shorts>(b), sum, 0,
                                                     0, 0);
  }
}
template <HalfType kType>
__device__ inline Sum16 multiply(Quad a, Quad b, Sum16 sum) {
  if constexpr (kType == HalfType::kF16) {
    return __builtin_amdgcn_mfma_f32_32x32x8f16(bits_as<Halves>(a), bits_as<Halves>(b), sum, 0, 0,
                                                0);
  } else {
    return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(bits_as<Shorts>(a), bits_as<Shorts>(b), sum, 0,
                                                    0, 0);
  }
}

#endif

}  // namespace matrix_core_detail

#if defined(GRETA_NVIDIA) || (defined(GRETA_EMULATOR) && GRETA_EMULATED_WAVE == 32)

/// A tile of the result, spread over the lanes of a wavefront; kSize 16 or 32.
///
/// A lane holds kValues of its elements: sum[i] is element (row(i), column(i)).
template <HalfType kType, int kSize>
struct WaveTile {
  static_assert(kSize == 16 || kSize == 32);
  static constexpr int kDepth = 16;  ///< k of one multiply_add
  static constexpr int kValues = kSize * kSize / kWave;

  /// A lane's part of one operand.
  struct Operand {
    matrix_core_detail::Quad quad[kSize / 8];
  };
  struct Sum {
    float value[kValues] = {};
  };

  /// Loads [kSize rows][kDepth], rows `stride` values apart, from shared or global memory. block is
  /// 16-byte aligned and stride a multiple of 8. A stride of 8 more than a multiple of 64 keeps
  /// shared memory free of bank conflicts.
  __device__ static Operand load(const uint16_t* block, int stride) {
    // Lanes 4g .. 4g + 3 have row g. What k a register stands for does not matter as long as A and
    // B agree: four neighbours make one load.
    Operand operand;
    const uint16_t* from = block + (lane_id() / 4) * stride + (lane_id() % 4) * 4;
    GRETA_UNROLL
    for (int i = 0; i < kSize / 8; ++i) {
      operand.quad[i] = load_as<matrix_core_detail::Quad>(from + 8 * i * stride);
    }
    return operand;
  }

  __device__ static void multiply_add(const Operand& a, const Operand& b, Sum& sum) {
    GRETA_UNROLL
    for (int m = 0; m < kSize / 16; ++m) {
      const matrix_core_detail::Quad top = a.quad[2 * m], bottom = a.quad[2 * m + 1];
      const uint32_t left[4] = {static_cast<uint32_t>(top), static_cast<uint32_t>(bottom),
                                static_cast<uint32_t>(top >> 32),
                                static_cast<uint32_t>(bottom >> 32)};
      GRETA_UNROLL
      for (int n = 0; n < kSize / 8; ++n) {
        const uint32_t right[2] = {static_cast<uint32_t>(b.quad[n]),
                                   static_cast<uint32_t>(b.quad[n] >> 32)};
        matrix_core_detail::multiply<kType>(left, right, &sum.value[(m * (kSize / 8) + n) * 4]);
      }
    }
  }

  __device__ static int row(int i) { return i / (kSize / 2) * 16 + i / 2 % 2 * 8 + lane_id() / 4; }
  __device__ static int column(int i) {
    return i / 4 % (kSize / 8) * 8 + lane_id() % 4 * 2 + i % 2;
  }
};

#else

template <HalfType kType, int kSize>
struct WaveTile;

template <HalfType kType>
struct WaveTile<kType, 16> {
  static constexpr int kDepth = 16;
  static constexpr int kValues = 4;

  struct Operand {
    matrix_core_detail::Quad quad;
  };
  struct Sum {
    matrix_core_detail::Sum4 value = {};
  };

  /// Lane l has row l % 16 and k = 4·(l / 16) + 0 .. 3.
  __device__ static Operand load(const uint16_t* block, int stride) {
    const uint16_t* from = block + lane_id() % 16 * stride + lane_id() / 16 * 4;
    return {load_as<matrix_core_detail::Quad>(from)};
  }
  __device__ static void multiply_add(const Operand& a, const Operand& b, Sum& sum) {
    sum.value = matrix_core_detail::multiply<kType>(a.quad, b.quad, sum.value);
  }
  __device__ static int row(int i) { return lane_id() / 16 * 4 + i; }
  __device__ static int column(int) { return lane_id() % 16; }
};

template <HalfType kType>
struct WaveTile<kType, 32> {
  static constexpr int kDepth = 16;  // two instructions
  static constexpr int kValues = 16;

  struct Operand {
    matrix_core_detail::QuadPair half;
  };
  struct Sum {
    matrix_core_detail::Sum16 value = {};
  };

  /// Lane l has row l % 32. What k a register stands for does not matter as long as A and B agree:
  /// eight neighbours make one load, the first four for the first instruction.
  __device__ static Operand load(const uint16_t* block, int stride) {
    const uint16_t* from = block + lane_id() % 32 * stride + lane_id() / 32 * 8;
    return {load_as<matrix_core_detail::QuadPair>(from)};
  }
  __device__ static void multiply_add(const Operand& a, const Operand& b, Sum& sum) {
    sum.value = matrix_core_detail::multiply<kType>(a.half.quad[0], b.half.quad[0], sum.value);
    sum.value = matrix_core_detail::multiply<kType>(a.half.quad[1], b.half.quad[1], sum.value);
  }
  __device__ static int row(int i) { return i / 4 * 8 + lane_id() / 32 * 4 + i % 4; }
  __device__ static int column(int) { return lane_id() % 32; }
};

#endif

}  // namespace greta
