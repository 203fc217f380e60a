#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "kernels/blocks.h"
#include "tests/emulator/block.h"

// The matrix instructions of both vendors, element by element from their documented register
// layouts. Products are exact; sums are f32, k ascending, one rounding each (the hardware's own
// rounding is not published).

namespace greta::emulator {

/// Stands for the compiler's vector types.
template <class T, int n>
struct Vector {
  std::array<T, n> lane;
  T operator[](int i) const { return lane[static_cast<std::size_t>(i)]; }
  T& operator[](int i) { return lane[static_cast<std::size_t>(i)]; }
};

/// A lane's values of A and of B.
template <int kA, int kB>
struct MatrixOperands {
  std::array<float, kA> a;
  std::array<float, kB> b;

  MatrixOperands(bool bf16, const void* a_bits, const void* b_bits) {
    expand(bf16, a_bits, a);
    expand(bf16, b_bits, b);
  }

 private:
  template <std::size_t n>
  static void expand(bool bf16, const void* from, std::array<float, n>& to) {
    std::array<std::uint16_t, n> bits;
    std::memcpy(bits.data(), from, sizeof bits);
    for (std::size_t i = 0; i < n; ++i) to[i] = bf16 ? bf16_to_f32(bits[i]) : f16_to_f32(bits[i]);
  }
};

/// Value i of A, or of B, that a lane gave.
inline float value_of(const Operands& operands, int lane, std::size_t i) {
  float value;
  std::memcpy(&value, &operands[static_cast<std::size_t>(lane)][i * sizeof value], sizeof value);
  return value;
}

/// One v_mfma_f32 with one block: element (i, k) of A is value k % K_L of lane i + M·(k / K_L),
/// with K_L = K·M / 64 values a lane; B likewise by column. Of D a lane holds rows 4 by 4: value r
/// is row 4·(M_I·(r / 4) + lane / N) + r % 4, M_I = 64 / N, of column lane % N.
template <int M, int N, int K>
Vector<float, M * N / 64> mfma(bool bf16, const void* a, const void* b, Vector<float, M * N / 64> c,
                               const char* name, Where where) {
  constexpr int kHeld = K * M / 64;  // K_L
  const MatrixOperands<kHeld, kHeld> own(bf16, a, b);
  const Operands& all = exchange(&own, sizeof own, name, where);
  // The values of A, or of B, for a line and its k from kHeld·part on.
  const auto held = [&](std::size_t operand, int line, int part) {
    std::array<float, kHeld> values;
    const auto from = static_cast<std::size_t>(line + M * part);
    std::memcpy(values.data(), &all[from][operand * sizeof values], sizeof values);
    return values;
  };
  const int self = static_cast<int>(lane());
  constexpr int kParts = K / kHeld;
  std::array<std::array<float, kHeld>, kParts> column;
  for (int part = 0; part < kParts; ++part)
    column[static_cast<std::size_t>(part)] = held(1, self % N, part);
  for (int r = 0; r < M * N / 64; ++r) {
    const int row = 4 * (64 / N * (r / 4) + self / N) + r % 4;
    float sum = c[r];
    for (int part = 0; part < kParts; ++part) {
      const std::array<float, kHeld> values = held(0, row, part);
      const std::array<float, kHeld>& others = column[static_cast<std::size_t>(part)];
      for (std::size_t i = 0; i < kHeld; ++i) sum += values[i] * others[i];
    }
    c[r] = sum;
  }
  return c;
}

/// mma.m16n8k16: with group = lane / 4 and t = lane % 4, value i of A (8 a lane) is row
/// group + 8·(i / 2 % 2), k = 2t + i % 2 + 8·(i / 4); value i of B (4 a lane) is k = 2t + i % 2 +
/// 8·(i / 2), column group; value i of D (4 a lane) is row group + 8·(i / 2), column 2t + i % 2.
inline void mma_m16n8k16(bool bf16, const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                         float* d, Where where = Where::here()) {
  const MatrixOperands<8, 4> own(bf16, a, b);
  const Operands& all = exchange(&own, sizeof own, "mma.m16n8k16", where);
  const auto a_at = [&](int row, int k) {
    return value_of(all, row % 8 * 4 + k % 8 / 2,
                    static_cast<std::size_t>(k / 8 * 4 + row / 8 * 2 + k % 2));
  };
  const auto b_at = [&](int column, int k) {
    return value_of(all, column * 4 + k % 8 / 2, static_cast<std::size_t>(8 + k / 8 * 2 + k % 2));
  };
  const int self = static_cast<int>(lane());
  for (int i = 0; i < 4; ++i) {
    const int row = self / 4 + i / 2 * 8, column = self % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k) d[i] += a_at(row, k) * b_at(column, k);
  }
}

/// Where value k of a line of 64 lies in shared memory, in the 128-byte swizzle.
inline std::uint16_t swizzled(const std::uint16_t* lines, int line, int k) {
  return lines[line * 64 + (k / 8 ^ line % 8) * 8 + k % 8];
}

/// Columns 16·slice on of rows `row` and row + 8 of a left operand.
using WgmmaRows = std::array<std::array<std::uint16_t, 16>, 2>;
inline WgmmaRows wgmma_rows(const std::uint16_t* left, int slice, int row) {
  WgmmaRows rows;
  for (int i = 0; i < 2; ++i) {
    for (int k = 0; k < 16; ++k) {
      rows[static_cast<std::size_t>(i)][static_cast<std::size_t>(k)] =
          swizzled(left, row + i * 8, slice * 16 + k);
    }
  }
  return rows;
}

/// wgmma.m64nNk16, its right operand in shared memory, lines of 64 values: D values 4j .. 4j + 3
/// are those of rows 0, 0, 1, 1 and columns 8j + column and one more, by turns.
template <int N>
void wgmma(bool bf16, const WgmmaRows& rows, const std::uint16_t* right, int slice, int column,
           float* d) {
  const auto value = [&](std::uint16_t bits) {
    return bf16 ? bf16_to_f32(bits) : f16_to_f32(bits);
  };
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < N / 8; ++j) {
      float& sum = d[4 * j + i];
      for (int k = 0; k < 16; ++k) {
        sum += value(rows[static_cast<std::size_t>(i / 2)][static_cast<std::size_t>(k)]) *
               value(swizzled(right, 8 * j + column + i % 2, slice * 16 + k));
      }
    }
  }
}

}  // namespace greta::emulator

// ---- The compiler's names, for wavefronts of 64.

inline greta::emulator::Vector<float, 4> __builtin_amdgcn_mfma_f32_16x16x16f16(
    greta::emulator::Vector<std::uint16_t, 4> a, greta::emulator::Vector<std::uint16_t, 4> b,
    greta::emulator::Vector<float, 4> c, int, int, int,
    greta::emulator::Where where = greta::emulator::Where::here()) {
  return greta::emulator::mfma<16, 16, 16>(false, &a, &b, c, "v_mfma_f32_16x16x16f16", where);
}
inline greta::emulator::Vector<float, 4> __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(
    greta::emulator::Vector<std::int16_t, 4> a, greta::emulator::Vector<std::int16_t, 4> b,
    greta::emulator::Vector<float, 4> c, int, int, int,
    greta::emulator::Where where = greta::emulator::Where::here()) {
  return greta::emulator::mfma<16, 16, 16>(true, &a, &b, c, "v_mfma_f32_16x16x16bf16_1k", where);
}
