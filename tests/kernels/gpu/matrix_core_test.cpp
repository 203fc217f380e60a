#include <random>
#include <utility>

#include "kernels/blocks.h"
#include "kernels/fingerprint/fingerprint.h"
#include "tests/kernels/gpu/gpu_test.h"
#include "tests/kernels/gpu/matrix_core_kernels.h"

namespace greta {
namespace {

class MatrixCore : public GpuTest {
 protected:
  using Halves = std::vector<uint16_t>;

  static Halves to_halves(bool bf16, const std::vector<float>& values) {
    Halves halves;
    for (float value : values) halves.push_back(bf16 ? f32_to_bf16(value) : f32_to_f16(value));
    return halves;
  }
  static double value_of(bool bf16, uint16_t half) {
    return static_cast<double>(bf16 ? bf16_to_f32(half) : f16_to_f32(half));
  }

  std::vector<float> multiply(bool bf16, int size, const Halves& a, const Halves& b,
                              const std::vector<float>& d) {
    const auto device_a = upload(a);
    const auto device_b = upload(b);
    auto device_d = upload(d);
    multiply_tile(bf16, size, device_a.data(), device_b.data(), device_d.data(), stream_);
    return download(device_d);
  }

  /// d + a·bᵀ, and beside it the sum of the magnitudes, which bounds what rounding can do.
  static std::pair<std::vector<double>, std::vector<double>> reference(
      bool bf16, int size, const Halves& a, const Halves& b, const std::vector<float>& d) {
    std::vector<double> sums, magnitudes;
    for (int m = 0; m < size; ++m) {
      for (int n = 0; n < size; ++n) {
        double sum = d[static_cast<size_t>(m * size + n)], magnitude = std::fabs(sum);
        for (int k = 0; k < 16; ++k) {
          const double product = value_of(bf16, a[static_cast<size_t>(m * 16 + k)]) *
                                 value_of(bf16, b[static_cast<size_t>(n * 16 + k)]);
          sum += product;
          magnitude += std::fabs(product);
        }
        sums.push_back(sum);
        magnitudes.push_back(magnitude);
      }
    }
    return {sums, magnitudes};
  }
};

// Small integers: every sum is exact, so each element must be the right one.
TEST_F(MatrixCore, ProductsOfIntegersAreExact) {
  for (bool bf16 : {false, true}) {
    for (int size : {16, 32}) {
      const auto integers = [](uint64_t seed, size_t n) {
        std::vector<float> values(n);
        for (size_t i = 0; i < n; ++i) {
          values[i] = static_cast<float>(mix64(seed * 1000 + i) % 33) - 16.0f;
        }
        return values;
      };
      const auto line = static_cast<size_t>(size);
      const Halves a = to_halves(bf16, integers(1, line * 16));
      const Halves b = to_halves(bf16, integers(2, line * 16));
      const std::vector<float> d = integers(3, line * line);
      const std::vector<float> got = multiply(bf16, size, a, b, d);
      const auto expected = reference(bf16, size, a, b, d).first;
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(static_cast<double>(got[i]), expected[i]) << bf16 << " " << size << " at " << i;
      }
    }
  }
}

TEST_F(MatrixCore, ProductsOfRandomTilesAgreeWithDouble) {
  for (bool bf16 : {false, true}) {
    for (int size : {16, 32}) {
      for (uint32_t seed : {1u, 2u, 3u}) {
        const auto line = static_cast<size_t>(size);
        const Halves a = to_halves(bf16, bell_values(seed, line * 16));
        const Halves b = to_halves(bf16, bell_values(seed + 10, line * 16, 0.02));
        const std::vector<float> d = bell_values(seed + 20, line * line, 0.1);
        const std::vector<float> got = multiply(bf16, size, a, b, d);
        const auto [expected, magnitudes] = reference(bf16, size, a, b, d);
        for (size_t i = 0; i < got.size(); ++i) {
          // Tensor cores cut sums off instead of rounding them: some units of the last place.
          ASSERT_LE(std::fabs(static_cast<double>(got[i]) - expected[i]), magnitudes[i] * 0x1p-21);
        }
      }
    }
  }
}

TEST_F(MatrixCore, SubnormalHalvesCount) {
  // gfx90a takes them as 0; gfx940, NVIDIA and the emulator do not.
  if (device_info().architecture == "gfx90a") GTEST_SKIP() << "flushes subnormal operands";
  const Halves a(16 * 16, 0x0001);
  const Halves b(16 * 16, f32_to_f16(1024));
  const std::vector<float> got = multiply(false, 16, a, b, std::vector<float>(256, 0.0f));
  for (float value : got) ASSERT_EQ(value, 16 * 0x1p-24f * 1024);
}

TEST_F(MatrixCore, NonFiniteOperandsStayInTheirRow) {
  Halves a(16 * 16, f32_to_f16(1)), b(16 * 16, f32_to_f16(1));
  a[3 * 16 + 5] = 0x7c00;  // infinity
  b[7 * 16 + 2] = 0x7e00;  // NaN
  const std::vector<float> got = multiply(false, 16, a, b, std::vector<float>(256, 0.0f));
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 16; ++n) {
      const float value = got[static_cast<size_t>(m * 16 + n)];
      if (n == 7) {
        EXPECT_TRUE(std::isnan(value));
      } else {
        EXPECT_EQ(value, m == 3 ? std::numeric_limits<float>::infinity() : 16.0f);
      }
    }
  }
}

// Where element (i, j) of D lies, from the vendors' tables: AMD's ISA document gives item and lane
// of an element, NVIDIA's PTX document row and column of a lane's value.
std::pair<int, int> documented_place(int lanes, int size, int i, int j) {
  if (lanes == 64) {
    // The tile is instructions of 16 x 16 side by side, row by row.
    return {(i / 16 * (size / 16) + j / 16) * 4 + i % 4, j % 16 + 16 * (i % 16 / 4)};
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int value = 0; value < 4; ++value) {
      const int row = lane >> 2, column = (lane & 3) * 2 + (value & 1);
      if (row + (value < 2 ? 0 : 8) == i % 16 && column == j % 8) {
        // The tile is instructions of 16 x 8 side by side, row by row.
        return {(i / 16 * (size / 8) + j / 8) * 4 + value, lane};
      }
    }
  }
  return {-1, -1};
}

TEST_F(MatrixCore, ResultLiesWhereTheVendorSays) {
  const int lanes = device_info().wave_lanes;
  for (int size : {16, 32}) {
    const int per_lane = size * size / lanes;
    auto device_elements = buffer<int32_t>(static_cast<size_t>(size * size));
    tile_elements(size, device_elements.data(), stream_);
    const std::vector<int32_t> elements = download(device_elements);
    for (int i = 0; i < size; ++i) {
      for (int j = 0; j < size; ++j) {
        const auto [item, lane] = documented_place(lanes, size, i, j);
        ASSERT_EQ(elements[static_cast<size_t>(lane * per_lane + item)], i * size + j)
            << "element " << i << "," << j << " of " << size;
      }
    }
  }
}

// Small integers: all products and sums are exact, as are the scores in f16.
std::vector<uint16_t> integers(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint16_t> halves(256);
  for (uint16_t& half : halves) half = f32_to_f16(static_cast<float>(random() % 9) - 4.0f);
  return halves;
}

class GpuQueryTile : public GpuTest {
 protected:
  GpuQueryTile() {
    const auto q = upload(q_), k = upload(k_), v = upload(v_);
    auto results = buffer<QueryTileResults>(1);
    query_tile(q.data(), k.data(), v.data(), results.data(), stream_);
    got_ = download(results)[0];
  }

  static float at(const std::vector<uint16_t>& halves, int row, int column) {
    return f16_to_f32(halves[static_cast<size_t>(row * 16 + column)]);
  }
  float score(int query, int key) const {
    float sum = 0;
    for (int i = 0; i < 16; ++i) sum += at(q_, query, i) * at(k_, key, i);
    return sum;
  }

  std::vector<uint16_t> q_ = integers(1), k_ = integers(2), v_ = integers(3);
  QueryTileResults got_;
};

TEST_F(GpuQueryTile, EveryScoreIsWhereOneLaneSaysItIs) {
  for (int query = 0; query < 16; ++query) {
    for (int key = 0; key < 16; ++key) {
      EXPECT_EQ(got_.written[query][key], 1u);
      EXPECT_EQ(got_.scores[query][key], score(query, key)) << query << " " << key;
    }
  }
}

TEST_F(GpuQueryTile, WeightsAreAnOperandWhereTheyAre) {
  for (int query = 0; query < 16; ++query) {
    for (int dim = 0; dim < 16; ++dim) {
      float sum = 0, between = 0;
      for (int key = 0; key < 16; ++key) {
        const float product = score(query, key) * at(v_, dim, key);
        sum += product;
        if (key >= 3 && key < 8) between += product;
      }
      EXPECT_EQ(got_.out[query][dim], sum) << query << " " << dim;
      EXPECT_EQ(got_.between[query][dim], between) << query << " " << dim;
    }
  }
}

TEST_F(GpuQueryTile, RowsOfTheCacheBecomeTheSameOperandsInRegisters) {
  for (int query = 0; query < 16; ++query) {
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(got_.direct_scores[query][i], got_.scores[query][i]) << query << " " << i;
      EXPECT_EQ(got_.direct_out[query][i], got_.out[query][i]) << query << " " << i;
    }
  }
}

TEST_F(GpuQueryTile, LanesThatShareAQueryReduceTogether) {
  const int lanes = device_info().wave_lanes;
  for (int query = 0; query < 16; ++query) {
    float sum = 0;
    for (int key = 0; key < 16; ++key) sum += score(query, key);
    ASSERT_NE(sum, 0.0f) << "shows nothing";
    int sharing = 0;
    for (int lane = 0; lane < 64; ++lane) {
      if (got_.sums[query][lane] == 0) continue;
      ++sharing;
      EXPECT_EQ(got_.sums[query][lane], sum);
    }
    // 256 scores, of two queries a lane when there are 32.
    EXPECT_EQ(sharing, 4) << lanes;
  }
}

}  // namespace

}  // namespace greta
