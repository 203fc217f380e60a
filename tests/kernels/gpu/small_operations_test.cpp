#include <bit>
#include <cmath>
#include <numeric>
#include <ostream>
#include <stdexcept>

#include "kernels/fingerprint/fingerprint.h"
#include "kernels/gpu/elementwise.h"
#include "tests/kernels/gpu/gpu_test.h"
#include "tests/kernels/gpu/half_products.h"

namespace greta {
namespace {

struct Top {
  std::vector<uint32_t> values;  // bits
  std::vector<int32_t> ids;
  bool operator==(const Top&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Top& top) {
  for (size_t i = 0; i < top.ids.size(); ++i) {
    out << std::bit_cast<float>(top.values[i]) << " at " << top.ids[i] << ", ";
  }
  return out;
}

class TopK : public GpuTest {
 protected:
  TopK() : scratch_(top_k_scratch(), "scratch") {
    set_bytes(scratch_.data(), scratch_.size(), 0, stream_);
  }

  Top run(const std::vector<float>& values, int k, size_t skipped = 0) {
    const auto device_values = upload(values);
    auto top = buffer<float>(static_cast<size_t>(k));
    auto ids = buffer<int32_t>(static_cast<size_t>(k));
    top_k(device_values.data() + skipped, static_cast<int64_t>(values.size() - skipped), k,
          top.data(), ids.data(), scratch_.data(), stream_);
    return {bits_of(download(top)), download(ids)};
  }

  // A stable sort by what the comparisons of floats say.
  static Top expected(const std::vector<float>& values, int k) {
    std::vector<int32_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    const auto key = [&](int32_t i) {
      const float value = values[static_cast<size_t>(i)];
      return std::isnan(value) ? -kInf : value;
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return key(a) > key(b); });
    Top top;
    for (size_t i = 0; i < static_cast<size_t>(k); ++i) {
      const bool there = i < values.size();
      top.ids.push_back(there ? order[i] : -1);
      const float value = there ? values[static_cast<size_t>(order[i])] : kNan;
      top.values.push_back(std::bit_cast<uint32_t>(value));
    }
    return top;
  }

  void expect_sorted(const std::vector<float>& values, int k) {
    EXPECT_EQ(run(values, k), expected(values, k)) << values.size() << " values";
  }

  DeviceBuffer<std::byte> scratch_;
};

TEST_F(TopK, FindsTheGreatestOfManySizes) {
  int k = 0;
  for (size_t n : {1u, 2u, 7u, 63u, 255u, 1023u, 1024u, 1025u, 2049u, 5001u, 9000u}) {
    k = k % kMaxTopK + 1;
    expect_sorted(bell_values(static_cast<uint32_t>(n), n), k);
  }
}

TEST_F(TopK, FindsThemWhereverTheyAre) {
  std::vector<float> values(4099, -1.0f);
  for (size_t place : {size_t{0}, size_t{1}, size_t{1023}, size_t{1024}, size_t{3000}, size_t{4096},
                       size_t{4098}}) {
    values[place] = static_cast<float>(place);
  }
  expect_sorted(values, kMaxTopK);
  // All in the values of one thread.
  std::fill(values.begin(), values.end(), -1.0f);
  for (size_t i = 0; i < 4; ++i)
    values[8 + i] = values[3072 + 8 + i] = 5.0f - static_cast<float>(i);
  expect_sorted(values, kMaxTopK);
}

TEST_F(TopK, TiesGoToTheLowerIndex) {
  expect_sorted(std::vector<float>(3000, 2.5f), 5);
  std::vector<float> values = bell_values(3, 5000);
  for (float& value : values) value = std::round(value);
  expect_sorted(values, 8);
}

TEST_F(TopK, ZerosAreEqualAndKeepTheirSign) {
  expect_sorted({-1.0f, -0.0f, 0.0f, -0.0f, 0.0f, -2.0f}, 6);
}

TEST_F(TopK, NanCountsAsMinusInfinity) {
  expect_sorted({kNan, -kInf, kInf, 1.0f, -kInf, kNan, -3e38f, kInf}, 8);
  expect_sorted(std::vector<float>(2000, kNan), 3);
  expect_sorted({std::bit_cast<float>(0xffc00123u), 1.0f}, 2);  // its bits stay
}

TEST_F(TopK, BeyondTheValuesThereIsNothing) {
  expect_sorted({1.0f, 3.0f, 2.0f}, 5);
  expect_sorted({}, 2);
}

TEST_F(TopK, UnalignedValuesAreFound) {
  const std::vector<float> values = bell_values(9, 3001);
  EXPECT_EQ(run(values, 4, 1), expected({values.begin() + 1, values.end()}, 4));
}

TEST_F(TopK, ScratchServesAgainAndInReplays) {
  const std::vector<float> first = bell_values(1, 4000), second = bell_values(2, 7000);
  for (int i = 0; i < 3; ++i) {
    expect_sorted(first, 5);
    expect_sorted(second, 8);
  }
  auto values = upload(first);
  auto top = buffer<float>(5);
  auto ids = buffer<int32_t>(5);
  Graph graph = Graph::capture(stream_, [&] {
    top_k(values.data(), 4000, 5, top.data(), ids.data(), scratch_.data(), stream_);
  });
  for (uint32_t seed : {11u, 12u}) {
    const std::vector<float> now = bell_values(seed, 4000);
    copy_to_device<float>(now, values.data(), stream_);
    graph.launch(stream_);
    EXPECT_EQ((Top{bits_of(download(top)), download(ids)}), expected(now, 5));
  }
}

TEST_F(TopK, RefusesMoreThanItKeeps) {
  EXPECT_THROW(run({1.0f}, kMaxTopK + 1), std::invalid_argument);
}

class HalfConversions : public GpuTest {
 protected:
  /// Every exponent, values half-way between two halves and beside, zeros, infinities, NaN.
  static std::vector<float> values(size_t n) {
    std::vector<float> result{0.0f, -0.0f, 65519.99f, 65520.0f, -65536.0f, 0x1p-25f, 0x1.8p-25f};
    for (uint32_t special : {0x7f800000u, 0xff800000u, 0x7fc00001u, 0x00000001u, 0x7f7fffffu}) {
      result.push_back(std::bit_cast<float>(special));
    }
    for (uint32_t i = 0; result.size() < n; ++i) {
      const auto random = static_cast<uint32_t>(mix64(i));
      result.push_back(std::bit_cast<float>(random));
      result.push_back(std::bit_cast<float>((random & 0xffffe000u) | (i % 3 + 0xfff)));
      result.push_back(std::bit_cast<float>((random & 0xffff0000u) | (i % 3 + 0x7fff)));
      // In the range of f16.
      result.push_back(std::bit_cast<float>((random & 0x8fffe000u) + 0x30000000u + 0x1000));
    }
    result.resize(n);
    return result;
  }

  static void expect_halves(HalfType type, const std::vector<float>& wanted, const Halves& got) {
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (std::isnan(wanted[i])) {
        ASSERT_TRUE(std::isnan(half_value(type, got[i]))) << i;
      } else {
        ASSERT_EQ(got[i], to_half(type, wanted[i])) << i << ": " << wanted[i];
      }
    }
  }
};

TEST_F(HalfConversions, HalvesHaveTheBitsOfTheHostsConversions) {
  for (HalfType type : kHalfTypes) {
    for (size_t n : {size_t{1}, size_t{8}, size_t{37}, size_t{2056}, size_t{4096}}) {
      const std::vector<float> x = values(n);
      const auto device_x = upload(x);
      auto out = buffer<uint16_t>(n);
      halves_of(device_x.data(), static_cast<int64_t>(n), type, out.data(), stream_);
      expect_halves(type, x, download(out));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(HalfConversions, UnalignedResultsAreWrittenInPlace) {
  const std::vector<float> x = values(64);
  const auto device_x = upload(x);
  auto out = buffer<uint16_t>(66);
  halves_of(device_x.data(), 64, HalfType::kF16, out.data() + 1, stream_);
  Halves got = download(out);
  EXPECT_EQ(got.front(), 0xffff);
  EXPECT_EQ(got.back(), 0xffff);
  expect_halves(HalfType::kF16, x, {got.begin() + 1, got.end() - 1});
}

TEST_F(HalfConversions, SwigluHalvesAreSwigluRounded) {
  for (HalfType type : kHalfTypes) {
    for (size_t n : {size_t{8}, size_t{37}, size_t{2056}}) {
      const auto gate = upload(bell_values(5, n, 3));
      const auto up = upload(bell_values(6, n, 3));
      auto floats = buffer<float>(n);
      auto out = buffer<uint16_t>(n);
      swiglu(gate.data(), up.data(), static_cast<int64_t>(n), floats.data(), stream_);
      swiglu_halves(gate.data(), up.data(), static_cast<int64_t>(n), type, out.data(), stream_);
      expect_halves(type, download(floats), download(out));
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace

}  // namespace greta
