#pragma once

#include <cstdint>

#include "kernels/gpu/device.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// Matrix cores: one wavefront multiplies tiles of 16-bit floats into f32. Device code.
//
//   D[m][n] += Σ_k A[m][k]·B[n][k],   m, n < kSize,  k < kDepth
//
// Both operands have k running fastest, as weights [rows, cols] and activations [tokens, cols] do.
// Products are exact; the order and the rounding of the sums are the hardware's. gfx90a takes
// subnormal operands as 0, gfx940 and NVIDIA do not.
//
// AMD: v_mfma_f32_16x16x16f16 and its bf16 form (_1k), wavefronts of 64. Register layouts: "AMD
// Instinct MI300" Instruction Set Architecture, Matrix Arithmetic Instructions, dense matrix
// layouts; the same as AMD's matrix instruction calculator prints.
// NVIDIA: mma.sync.m16n8k16, warps of 32. "PTX ISA", Matrix Fragments for mma.m16n8k16 with
// floating point type, and ldmatrix.

namespace greta {

#if defined(GRETA_NVIDIA) || (defined(GRETA_EMULATOR) && GRETA_EMULATED_WAVE == 32)
#define GRETA_MATRIX_LANES 32
#else
#define GRETA_MATRIX_LANES 64
#endif

/// Lanes that multiply a tile. The instructions fix it, so host code may use it, unlike kWave.
inline constexpr int kMatrixLanes = GRETA_MATRIX_LANES;

/// How much longer than their values, a multiple of 16, rows in shared memory are: at an odd
/// multiple of 16 bytes from row to row, loads of an operand meet no bank conflict on any device.
inline constexpr int kSharedRowPad = 8;

namespace matrix_core_detail {

#if GRETA_MATRIX_LANES == 32

/// d += a·b for one m16n8k16; a and b as pairs of values.
template <HalfType kType>
__device__ inline void multiply(const uint32_t (&a)[4], const uint32_t (&b)[2], float* d) {
#if defined(GRETA_EMULATOR)
  emulator::mma_m16n8k16(kType == HalfType::kBF16, a, b, d);
#elif defined(__CUDA_ARCH__)
  if constexpr (kType == HalfType::kF16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#endif
}

#else

/// Four neighbouring values of one row, the lowest k in the lowest bits.
using Quad = uint64_t;

#if defined(GRETA_EMULATOR)
using Halves = emulator::Vector<uint16_t, 4>;
using Shorts = emulator::Vector<int16_t, 4>;
using Sum4 = emulator::Vector<float, 4>;
#else
typedef _Float16 Halves __attribute__((ext_vector_type(4)));
typedef short Shorts __attribute__((ext_vector_type(4)));
typedef float Sum4 __attribute__((ext_vector_type(4)));
#endif

/// d += a·b for one 16x16x16.
template <HalfType kType>
__device__ inline void multiply(Quad a, Quad b, float* d) {
  Sum4 sum;
  __builtin_memcpy(&sum, d, sizeof sum);
  if constexpr (kType == HalfType::kF16) {
    sum =
        __builtin_amdgcn_mfma_f32_16x16x16f16(bits_as<Halves>(a), bits_as<Halves>(b), sum, 0, 0, 0);
  } else {
    sum = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(bits_as<Shorts>(a), bits_as<Shorts>(b), sum, 0,
                                                    0, 0);
  }
  __builtin_memcpy(d, &sum, sizeof sum);
}

#endif

}  // namespace matrix_core_detail

#if GRETA_MATRIX_LANES == 32

/// A tile of the result, spread over the lanes of a wavefront; kSize 16 or 32.
///
/// A lane holds kValues of its elements: sum[i] is element (row(i), column(i)). Of kRun values, i a
/// multiple of it, the columns follow each other.
template <HalfType kType, int kSize>
struct WaveTile {
  static_assert(kSize == 16 || kSize == 32);
  static constexpr int kDepth = 16;  ///< k of one multiply_add
  static constexpr int kValues = kSize * kSize / kMatrixLanes;
  static constexpr int kRun = 2;

  /// A lane's part of one operand.
  struct Operand {
    uint32_t pair[kSize / 8][2];  // of rows 8i .. 8i + 7, the lower and the upper eight k
  };
  struct Sum {
    float value[kValues] = {};
  };

  /// Loads [kSize rows][kDepth], rows `stride` values apart, from shared or global memory. block is
  /// 16-byte aligned and stride a multiple of 8; see kSharedRowPad.
  __device__ static Operand load(const uint16_t* block, int stride) {
    Operand operand;
    const uint16_t* from = block + (lane_id() / 4) * stride + lane_id() % 4 * 2;
    GRETA_UNROLL
    for (int i = 0; i < kSize / 8; ++i) {
      GRETA_UNROLL
      for (int half = 0; half < 2; ++half) {
        operand.pair[i][half] = load_as<uint32_t>(from + 8 * (i * stride + half));
      }
    }
    return operand;
  }

  /// The same from shared memory, in fewer instructions: as operand a, and as operand b. (Each may
  /// serve as the other, but its registers are not in that one's order.)
  __device__ static Operand load_left(const uint16_t* block, int stride) {
    Operand operand;
    GRETA_UNROLL
    for (int i = 0; i < kSize / 8; i += 2) {
      uint32_t(&low)[2] = operand.pair[i], (&high)[2] = operand.pair[i + 1];
      load_matrices(block + (i * 8 + lane_id() % 16) * stride + lane_id() / 16 * 8, low[0], high[0],
                    low[1], high[1]);
    }
    return operand;
  }
  __device__ static Operand load_right(const uint16_t* block, int stride) {
    Operand operand;
    GRETA_UNROLL
    for (int i = 0; i < kSize / 8; i += 2) {
      uint32_t(&low)[2] = operand.pair[i], (&high)[2] = operand.pair[i + 1];
      load_matrices(
          block + (i * 8 + lane_id() / 16 * 8 + lane_id() % 8) * stride + lane_id() / 8 % 2 * 8,
          low[0], low[1], high[0], high[1]);
    }
    return operand;
  }

  __device__ static void multiply_add(const Operand& a, const Operand& b, Sum& sum) {
    GRETA_UNROLL
    for (int m = 0; m < kSize / 16; ++m) {
      const uint32_t left[4] = {a.pair[2 * m][0], a.pair[2 * m + 1][0], a.pair[2 * m][1],
                                a.pair[2 * m + 1][1]};
      GRETA_UNROLL
      for (int n = 0; n < kSize / 8; ++n) {
        matrix_core_detail::multiply<kType>(left, b.pair[n], &sum.value[(m * (kSize / 8) + n) * 4]);
      }
    }
  }

  __device__ static int row(int i) { return i / (kSize / 2) * 16 + i / 2 % 2 * 8 + lane_id() / 4; }
  __device__ static int column(int i) {
    return i / 4 % (kSize / 8) * 8 + lane_id() % 4 * 2 + i % 2;
  }

 private:
  /// Four 8 x 8 matrices, a word of each: lane l gives the address of row l % 8 of matrix l / 8,
  /// and gets values 2·(l % 4) and one more of row l / 4.
  __device__ static void load_matrices(const uint16_t* row, uint32_t& a, uint32_t& b, uint32_t& c,
                                       uint32_t& d) {
#if defined(GRETA_EMULATOR)
    uint32_t* const words[4] = {&a, &b, &c, &d};
    const auto address = reinterpret_cast<uint64_t>(row);
    for (int i = 0; i < 4; ++i) {
      const auto from = wave_shuffle(address, i * 8 + lane_id() / 4) + lane_id() % 4 * 4;
      *words[i] = load_as<uint32_t>(reinterpret_cast<const void*>(from));
    }
#elif defined(__CUDA_ARCH__)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
                 : "memory");
#endif
  }
};

#else

template <HalfType kType, int kSize>
struct WaveTile {
  static_assert(kSize == 16 || kSize == 32);
  static constexpr int kDepth = 16;
  static constexpr int kValues = kSize * kSize / kMatrixLanes;
  static constexpr int kRun = 1;

  struct Operand {
    matrix_core_detail::Quad quad[kSize / 16];  // of rows 16i .. 16i + 15
  };
  struct Sum {
    float value[kValues] = {};
  };

  /// Lane l has row l % 16 and k = 4·(l / 16) + 0 .. 3.
  __device__ static Operand load(const uint16_t* block, int stride) {
    const uint16_t* from = block + lane_id() % 16 * stride + lane_id() / 16 * 4;
    Operand operand;
    GRETA_UNROLL
    for (int i = 0; i < kSize / 16; ++i) {
      operand.quad[i] = load_as<matrix_core_detail::Quad>(from + i * 16 * stride);
    }
    return operand;
  }
  __device__ static Operand load_left(const uint16_t* block, int stride) {
    return load(block, stride);
  }
  __device__ static Operand load_right(const uint16_t* block, int stride) {
    return load(block, stride);
  }
  __device__ static void multiply_add(const Operand& a, const Operand& b, Sum& sum) {
    GRETA_UNROLL
    for (int m = 0; m < kSize / 16; ++m) {
      GRETA_UNROLL
      for (int n = 0; n < kSize / 16; ++n) {
        matrix_core_detail::multiply<kType>(a.quad[m], b.quad[n],
                                            &sum.value[(m * (kSize / 16) + n) * 4]);
      }
    }
  }
  __device__ static int row(int i) {
    return i / 4 / (kSize / 16) * 16 + lane_id() / 16 * 4 + i % 4;
  }
  __device__ static int column(int i) { return i / 4 % (kSize / 16) * 16 + lane_id() % 16; }
};

#endif

/// Sixteen rows times one column: D[m] += Σ_k A[m][k]·b[k], by WaveTile's instruction, whose
/// columns are all that one. An element has the bits that it has in a WaveTile.
template <HalfType kType>
struct ColumnTile {
  using Rows = typename WaveTile<kType, 16>::Operand;
  static constexpr int kRows = 16, kDepth = 16;

#if GRETA_MATRIX_LANES == 32
  struct alignas(8) Column {
    uint32_t pair[2];
  };
  struct Sum {
    float value[4] = {};
  };
  /// Where b[k] lies in memory from which load() takes it: each lane's four together.
  __host__ __device__ static constexpr int place(int k) {
    return k % 8 / 2 * 4 + k / 8 * 2 + k % 2;
  }
  __device__ static Column load(const uint16_t* column) {
    return load_as<Column>(column + lane_id() % 4 * 4);
  }
  __device__ static void multiply_add(const Rows& a, const Column& b, Sum& sum) {
    const uint32_t left[4] = {a.pair[0][0], a.pair[1][0], a.pair[0][1], a.pair[1][1]};
    matrix_core_detail::multiply<kType>(left, b.pair, sum.value);
  }
  /// use(row, element) for every row, by one lane.
  template <class Use>
  __device__ static void each(const Sum& sum, Use use) {
    if (lane_id() % 4 != 0) return;
    use(lane_id() / 4, sum.value[0]);
    use(lane_id() / 4 + 8, sum.value[2]);
  }
#else
  using Column = matrix_core_detail::Quad;
  using Sum = typename WaveTile<kType, 16>::Sum;
  __host__ __device__ static constexpr int place(int k) { return k; }
  __device__ static Column load(const uint16_t* column) {
    return load_as<Column>(column + lane_id() / 16 * 4);
  }
  __device__ static void multiply_add(const Rows& a, Column b, Sum& sum) {
    matrix_core_detail::multiply<kType>(a.quad[0], b, sum.value);
  }
  template <class Use>
  __device__ static void each(const Sum& sum, Use use) {
    if (lane_id() % 16 != 0) return;
    GRETA_UNROLL
    for (int i = 0; i < 4; ++i) use(lane_id() / 4 + i, sum.value[i]);
  }
#endif
};

}  // namespace greta
