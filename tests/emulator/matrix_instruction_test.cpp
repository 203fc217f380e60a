#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "kernels/blocks.h"
#include "kernels/fingerprint/fingerprint.h"
#include "kernels/gpu/device.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// The emulated matrix instructions, on full random tiles, against plain loops. Where an element
// lies is computed here from the element, as the vendors' tables are printed; the emulator goes the
// other way, from the lane.

namespace greta {
namespace {

class MatrixInstruction : public testing::Test {
 protected:
  template <class T>
  DeviceBuffer<T> upload(const std::vector<T>& values) {
    DeviceBuffer<T> buffer(values.size());
    copy_to_device<T>(values, buffer.data(), stream_);
    return buffer;
  }
  template <class T>
  std::vector<T> download(const DeviceBuffer<T>& buffer) {
    std::vector<T> values(buffer.size());
    copy_to_host<T>(buffer.data(), values, stream_);
    return values;
  }
  Stream stream_;
};

// Small integers: all sums are exact in any order.
int integer(uint64_t seed, int i) {
  return static_cast<int>(mix64(seed * 100000 + static_cast<uint64_t>(i)) % 31) - 15;
}

#if GRETA_EMULATED_WAVE == 64

struct Instruction {
  int m, n, k;
  bool bf16;
};

// Source: "AMD Instinct MI300 Instruction Set Architecture", dense matrix layouts, for one block.
std::pair<int, int> input_item_lane(const Instruction& instruction, int i, int k) {
  const int k_l = instruction.k / (64 / instruction.m);
  return {k % k_l, i + instruction.m * (k / k_l)};
}
std::pair<int, int> output_item_lane(const Instruction& instruction, int i, int j) {
  const int h = 4;
  const int m_i = 64 / instruction.n;
  return {i % h + h * (i / (h * m_i)), j + instruction.n * (i / h % m_i)};
}

using Halves = emulator::Vector<uint16_t, 4>;
using Shorts = emulator::Vector<int16_t, 4>;

__global__ void mfma_kernel(Instruction instruction, const uint64_t* a, const uint64_t* b,
                            float* d) {
  const unsigned t = threadIdx.x;
  emulator::Vector<float, 4> sum;
  for (unsigned i = 0; i < 4; ++i) sum.lane[i] = d[4 * t + i];
  sum = instruction.bf16
            ? __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(std::bit_cast<Shorts>(a[t]),
                                                        std::bit_cast<Shorts>(b[t]), sum, 0, 0, 0)
            : __builtin_amdgcn_mfma_f32_16x16x16f16(std::bit_cast<Halves>(a[t]),
                                                    std::bit_cast<Halves>(b[t]), sum, 0, 0, 0);
  for (unsigned i = 0; i < 4; ++i) d[4 * t + i] = sum.lane[i];
}

TEST_F(MatrixInstruction, MfmaAgreesWithPlainLoopsInAmdsLayout) {
  for (const Instruction& in : {Instruction{16, 16, 16, false}, Instruction{16, 16, 16, true}}) {
    const int per_lane = in.m * in.n / 64;
    const auto half = [&](int value) {
      return in.bf16 ? f32_to_bf16(static_cast<float>(value))
                     : f32_to_f16(static_cast<float>(value));
    };
    std::vector<uint64_t> a(64), b(64);
    std::vector<float> d(static_cast<size_t>(in.m * in.n));
    const auto place = [&](std::vector<uint64_t>& operand, int line, int k, int value) {
      const auto [item, lane] = input_item_lane(in, line, k);
      operand[static_cast<size_t>(lane)] |= static_cast<uint64_t>(half(value)) << 16 * item;
    };
    for (int line = 0; line < in.m; ++line) {
      for (int k = 0; k < in.k; ++k) {
        place(a, line, k, integer(1, line * in.k + k));
        place(b, line, k, integer(2, line * in.k + k));
      }
    }
    const auto at = [&](int i, int j) {
      const auto [item, lane] = output_item_lane(in, i, j);
      return static_cast<size_t>(lane * per_lane + item);
    };
    for (int i = 0; i < in.m; ++i) {
      for (int j = 0; j < in.n; ++j) d[at(i, j)] = static_cast<float>(integer(3, i * in.n + j));
    }
    const auto device_a = upload(a), device_b = upload(b);
    auto device_d = upload(d);
    launch({"mfma", 1, 64}, stream_, mfma_kernel, in, device_a.data(), device_b.data(),
           device_d.data());
    const std::vector<float> got = download(device_d);
    for (int i = 0; i < in.m; ++i) {
      for (int j = 0; j < in.n; ++j) {
        int expected = integer(3, i * in.n + j);
        for (int k = 0; k < in.k; ++k)
          expected += integer(1, i * in.k + k) * integer(2, j * in.k + k);
        ASSERT_EQ(got[at(i, j)], static_cast<float>(expected))
            << in.m << "x" << in.n << "x" << in.k << " element " << i << "," << j;
      }
    }
  }
}

// Single entries as AMD's matrix instruction calculator prints them: register and lane.
TEST_F(MatrixInstruction, AmdsLayoutHasThePublishedEntries) {
  const Instruction small{16, 16, 16, false};
  using Place = std::pair<int, int>;
  EXPECT_EQ(input_item_lane(small, 0, 4), Place(0, 16));
  EXPECT_EQ(input_item_lane(small, 15, 15), Place(3, 63));
  EXPECT_EQ(output_item_lane(small, 4, 0), Place(0, 16));
  EXPECT_EQ(output_item_lane(small, 15, 15), Place(3, 63));
}

#else

__global__ void mma_kernel(bool bf16, const uint32_t* a, const uint32_t* b, float* d) {
  const unsigned t = threadIdx.x;
  const uint32_t left[4] = {a[4 * t], a[4 * t + 1], a[4 * t + 2], a[4 * t + 3]};
  const uint32_t right[2] = {b[2 * t], b[2 * t + 1]};
  emulator::mma_m16n8k16(bf16, left, right, d + 4 * t);
}

// Source: "PTX ISA", Matrix Fragments for mma.m16n8k16 with floating point type: four 8 x 8 squares
// of A, two of B, two of D; in a square, four lanes share a row of A and D and a column of B.
TEST_F(MatrixInstruction, MmaAgreesWithPlainLoopsInNvidiasLayout) {
  for (bool bf16 : {false, true}) {
    const auto half = [&](int value) {
      return bf16 ? f32_to_bf16(static_cast<float>(value)) : f32_to_f16(static_cast<float>(value));
    };
    std::vector<uint32_t> a(32 * 4), b(32 * 2);
    std::vector<float> d(32 * 4);
    const auto d_at = [](int m, int n) {
      const int lane = m % 8 * 4 + n / 2;
      return static_cast<size_t>(4 * lane + m / 8 * 2 + n % 2);
    };
    for (int k = 0; k < 16; ++k) {
      for (int m = 0; m < 16; ++m) {
        const int lane = m % 8 * 4 + k % 8 / 2, word = m / 8 + 2 * (k / 8);
        a[static_cast<size_t>(4 * lane + word)] |=
            static_cast<uint32_t>(half(integer(1, m * 16 + k))) << 16 * (k % 2);
      }
      for (int n = 0; n < 8; ++n) {
        const int lane = n * 4 + k % 8 / 2, word = k / 8;
        b[static_cast<size_t>(2 * lane + word)] |=
            static_cast<uint32_t>(half(integer(2, n * 16 + k))) << 16 * (k % 2);
      }
    }
    for (int m = 0; m < 16; ++m) {
      for (int n = 0; n < 8; ++n) d[d_at(m, n)] = static_cast<float>(integer(3, m * 8 + n));
    }
    const auto device_a = upload(a), device_b = upload(b);
    auto device_d = upload(d);
    launch({"mma", 1, 32}, stream_, mma_kernel, bf16, device_a.data(), device_b.data(),
           device_d.data());
    const std::vector<float> got = download(device_d);
    for (int m = 0; m < 16; ++m) {
      for (int n = 0; n < 8; ++n) {
        int expected = integer(3, m * 8 + n);
        for (int k = 0; k < 16; ++k) expected += integer(1, m * 16 + k) * integer(2, n * 16 + k);
        ASSERT_EQ(got[d_at(m, n)], static_cast<float>(expected)) << m << "," << n;
      }
    }
  }
}

#endif

}  // namespace
}  // namespace greta
