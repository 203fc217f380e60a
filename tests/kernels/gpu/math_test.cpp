#include "kernels/blocks.h"
#include "kernels/fingerprint/fingerprint.h"
#include "tests/kernels/gpu/function_kernels.h"
#include "tests/kernels/gpu/gpu_test.h"

namespace greta {
namespace {

class GpuMath : public GpuTest {
 protected:
  std::vector<ScalarResults> run(const std::vector<uint32_t>& x) {
    const auto device_x = upload(x);
    auto results = buffer<ScalarResults>(x.size());
    scalar_functions(device_x.data(), static_cast<int64_t>(x.size()), results.data(), stream_);
    return download(results);
  }
  std::vector<ScalarResults> run(const std::vector<float>& x) { return run(bits_of(x)); }
};

std::vector<uint32_t> random_words(size_t n) {
  std::vector<uint32_t> words(n);
  for (size_t i = 0; i < n; ++i) words[i] = static_cast<uint32_t>(mix64(i + 1) >> 32);
  return words;
}

TEST_F(GpuMath, EveryHalfHasItsValue) {
  std::vector<uint32_t> x(65536);
  for (uint32_t i = 0; i < x.size(); ++i) x[i] = i;
  const std::vector<ScalarResults> results = run(x);
  for (uint32_t i = 0; i < x.size(); ++i) {
    const float f16 = f16_to_f32(static_cast<uint16_t>(i));
    const float bf16 = bf16_to_f32(static_cast<uint16_t>(i));
    if (std::isnan(f16)) {
      ASSERT_TRUE(std::isnan(results[i].f16_value)) << i;
    } else {
      ASSERT_EQ(bits_of({&results[i].f16_value, 1}), bits_of({&f16, 1})) << i;
    }
    if (std::isnan(bf16)) {
      ASSERT_TRUE(std::isnan(results[i].bf16_value)) << i;
    } else {
      ASSERT_EQ(bits_of({&results[i].bf16_value, 1}), bits_of({&bf16, 1})) << i;
    }
  }
}

TEST_F(GpuMath, ConversionsToHalfRoundToNearestEven) {
  // Random words, and every f16 with its neighbourhood: ties, and one bit beside them.
  std::vector<uint32_t> x = random_words(20000);
  for (uint32_t half = 0; half < 0x7c00; half += 7) {
    const auto bits = std::bit_cast<uint32_t>(f16_to_f32(static_cast<uint16_t>(half)));
    for (uint32_t offset : {0u, 0xfffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u}) {
      x.push_back(bits + offset);
    }
  }
  const std::vector<ScalarResults> results = run(x);
  for (size_t i = 0; i < x.size(); ++i) {
    const auto value = std::bit_cast<float>(x[i]);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(results[i].f16_bits)));
      EXPECT_TRUE(std::isnan(bf16_to_f32(results[i].bf16_bits)));
      continue;
    }
    ASSERT_EQ(results[i].f16_bits, f32_to_f16(value)) << value;
    ASSERT_EQ(results[i].bf16_bits, f32_to_bf16(value)) << value;
  }
}

TEST_F(GpuMath, ExpIsWithinItsBound) {
  std::vector<float> x{0.0f, -0.0f, 1.0f, -1.0f, 88.72f, -86.9f};
  for (int i = 0; i < 20000; ++i) x.push_back(-86.9f + static_cast<float>(i) * 0.00878f);
  for (float value : bell_values(1, 20000)) x.push_back(value);
  const std::vector<ScalarResults> results = run(x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, ulps(results[i].exp, std::exp(static_cast<double>(x[i]))));
  }
  EXPECT_LE(worst, 1.02);
  EXPECT_EQ(results[0].exp, 1.0f);
  EXPECT_EQ(results[1].exp, 1.0f);
}

TEST_F(GpuMath, ExpHasItsLimits) {
  const std::vector<ScalarResults> results =
      run(std::vector<float>{kInf, -kInf, 88.73f, 1e30f, -87.01f, -1e30f, kNan});
  EXPECT_EQ(results[0].exp, kInf);
  EXPECT_EQ(results[1].exp, 0.0f);
  EXPECT_EQ(results[2].exp, kInf);
  EXPECT_EQ(results[3].exp, kInf);
  EXPECT_EQ(results[4].exp, 0.0f);
  EXPECT_EQ(results[5].exp, 0.0f);
  EXPECT_TRUE(std::isnan(results[6].exp));
}

TEST_F(GpuMath, BitsAreTheSameAsOnTheEmulator) {
  // What the emulator gives; a device that rounds otherwise, or fuses, has another sum.
  std::vector<float> x = bell_values(5, 4096, 20);
  const std::vector<ScalarResults> results = run(x);
  uint64_t exp_hash = 0, silu_hash = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    exp_hash += hash_term(i, std::bit_cast<uint32_t>(results[i].exp));
    silu_hash += hash_term(i, std::bit_cast<uint32_t>(results[i].silu));
  }
  EXPECT_EQ(exp_hash, 10695835213323020734u);
  EXPECT_EQ(silu_hash, 10991214556601231647u);
}

TEST_F(GpuMath, SiluIsWithinItsBound) {
  const std::vector<float> x = bell_values(2, 20000, 20);
  const std::vector<ScalarResults> results = run(x);
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = x[i];
    ASSERT_LE(ulps(results[i].silu, exact / (1.0 + std::exp(-exact))), 3) << x[i];
  }
}

TEST_F(GpuMath, DotProductsOfBytesAreSigned) {
  std::vector<uint32_t> x = random_words(2000);
  x.insert(x.end(), {0x80808080u, 0x7f7f7f7fu, 0x80ff017fu});
  const std::vector<ScalarResults> results = run(x);
  for (size_t i = 0; i < x.size(); ++i) {
    const uint32_t y = x[i] * 2654435761u;
    int32_t expected = 7;
    for (int byte = 0; byte < 4; ++byte) {
      expected += static_cast<int8_t>(x[i] >> 8 * byte) * static_cast<int8_t>(y >> 8 * byte);
    }
    ASSERT_EQ(results[i].dot, expected);
  }
}

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
