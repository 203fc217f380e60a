#include "kernels/fingerprint/fingerprint.h"
#include "tests/kernels/gpu/function_kernels.h"
#include "tests/kernels/gpu/gpu_test.h"

namespace greta {
namespace {

class Wave : public GpuTest {
 protected:
  const int lanes_ = device_info().wave_lanes;
};

TEST_F(Wave, FunctionsGiveEveryLaneItsResult) {
  for (int n_threads : {64, 128, 256, 1024}) {
    const int n_blocks = 3;
    auto device_results = buffer<WaveResults>(static_cast<size_t>(n_blocks * n_threads));
    wave_functions(n_blocks, n_threads, device_results.data(), stream_);
    const std::vector<WaveResults> results = download(device_results);
    for (int i = 0; i < n_blocks * n_threads; ++i) {
      const WaveResults& r = results[static_cast<size_t>(i)];
      const int t = i % n_threads, lane = t % lanes_, first = t - lane;
      ASSERT_EQ(r.lane, lane);
      ASSERT_EQ(r.wave, t / lanes_);
      const uint64_t next = static_cast<uint64_t>(first + (lane + 1) % lanes_ + 1);
      ASSERT_EQ(r.from_next, (next << 40) + next);
      ASSERT_EQ(r.from_partner, static_cast<float>(first + (lane ^ 5)) + 0.5f);
      ASSERT_EQ(r.from_below, lane + 3 < lanes_ ? t + 3 : t);
      ASSERT_EQ(r.odd_lanes, lanes_ == 64 ? 0xaaaaaaaaaaaaaaaau : 0xaaaaaaaau);

      int64_t sum = 0, alternating = 0, group = 0, block = 0;
      for (int l = 0; l < lanes_; ++l) {
        sum += first + l + 1;
        alternating += (first + l) % 2 == 0 ? first + l + 1 : -(first + l + 1);
        if (l / 8 == lane / 8) group += first + l + 1;
      }
      for (int other = 0; other < n_threads; ++other) block += other + 1;
      ASSERT_EQ(r.uint32_sum, static_cast<uint32_t>(sum));
      ASSERT_EQ(r.uint64_sum, static_cast<uint64_t>(sum) << 40);
      ASSERT_EQ(r.int64_sum, alternating * (int64_t{1} << 40));
      ASSERT_EQ(r.group_sum, static_cast<uint32_t>(group));
      // Halves add up without rounding here, in every order.
      ASSERT_EQ(r.float_sum, static_cast<float>(sum) - 0.5f * static_cast<float>(lanes_));
      ASSERT_EQ(r.double_sum, static_cast<double>(sum) - 0.5 * lanes_);
      ASSERT_EQ(r.float_max, -static_cast<float>(first) - 0.5f);
      ASSERT_EQ(r.block_uint32_sum, static_cast<uint32_t>(block));
      ASSERT_EQ(r.block_double_sum, static_cast<double>(block) - 0.5 * n_threads);
      ASSERT_EQ(r.block_float_max, static_cast<float>(n_threads) - 0.5f);
    }
  }
}

TEST_F(Wave, AtomicsLoseNothing) {
  for (bool shared : {false, true}) {
    const int n_blocks = 7, n_threads = 192;
    auto totals = upload(std::vector<Totals>(2));
    atomic_functions(shared, n_blocks, n_threads, totals.data(), stream_);
    const Totals got = download(totals)[0];
    Totals expected{};
    for (uint32_t t = 0; t < n_blocks * n_threads; ++t) {
      const uint32_t hash = (t + 1) * 2654435761u;
      expected.count += 1;
      expected.greatest = std::max(expected.greatest, hash);
      expected.sum += uint64_t{hash} << 20;
      expected.difference += t % 2 == 0 ? int64_t{hash} : -int64_t{hash};
      expected.tickets += t;
    }
    EXPECT_EQ(got.count, expected.count);
    EXPECT_EQ(got.greatest, expected.greatest);
    EXPECT_EQ(got.sum, expected.sum);
    EXPECT_EQ(got.difference, expected.difference);
    EXPECT_EQ(got.tickets, expected.tickets);
  }
}

TEST_F(Wave, DynamicSharedMemoryBelongsToOneBlock) {
  const int n_blocks = 5, n_threads = 96;
  std::vector<float> x;
  for (int i = 0; i < n_blocks * n_threads; ++i) x.push_back(static_cast<float>(i));
  const auto device_x = upload(x);
  auto sums = buffer<float>(n_blocks);
  sum_by_dynamic_shared(device_x.data(), n_blocks, n_threads, sums.data(), stream_);
  const std::vector<float> got = download(sums);
  for (int b = 0; b < n_blocks; ++b) {
    const int first = b * n_threads;
    EXPECT_EQ(got[static_cast<size_t>(b)],
              static_cast<float>(n_threads * first + n_threads * (n_threads - 1) / 2));
  }
}

}  // namespace
}  // namespace greta
