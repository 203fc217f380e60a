#include <random>

#include "kernels/blocks.h"
#include "tests/kernels/gpu/gpu_test.h"
#include "tests/kernels/gpu/query_tile_kernels.h"

namespace greta {
namespace {

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
