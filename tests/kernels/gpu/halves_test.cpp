#include "kernels/gpu/halves.h"

#include <bit>
#include <cmath>

#include "kernels/gpu/elementwise.h"
#include "tests/kernels/gpu/half_products.h"

namespace greta {
namespace {

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
