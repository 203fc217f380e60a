#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/fingerprint/fingerprint.h"
#include "tests/kernels/kernel_fixture.h"

// Rows of every kind, and what their fingerprints are by a second implementation.

namespace greta::test_rows {

__extension__ using Int128 = __int128;
using Row = std::vector<float>;

inline constexpr float kFloatMax = std::numeric_limits<float>::max();
inline constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

inline Row make_row(std::size_t n, const std::function<float(std::size_t)>& value) {
  Row row(n);
  for (std::size_t i = 0; i < n; ++i) row[i] = value(i);
  return row;
}

// The recipes of docs/fingerprint.md.
inline float dense_value(std::size_t i) {
  return static_cast<float>(static_cast<std::int64_t>(mix64(i + 1) >> 40) - (1 << 23)) * 0x1p-20f;
}
inline float any_bits(std::size_t i) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(mix64(i + 1) >> 32));
}
inline float denormal_value(std::size_t i) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(mix64(i + 1)) & 0x807fffffu);
}
inline float wide_value(std::size_t i) {
  return std::ldexp(i % 2 == 0 ? 1.0f : -1.0f, static_cast<int>(i) - 126);
}

// Roughly normal, from integers: the same on every standard library.
inline float bell_value(std::uint64_t seed, std::size_t i) {
  double sum = -6.0;
  for (std::uint64_t k = 0; k < 12; ++k) {
    sum += static_cast<double>(mix64((seed << 40) + (i << 8) + k) >> 11) * 0x1p-53;
  }
  return static_cast<float>(sum);
}

// Second implementation, from the text of the definition: scaling and rounding are done by the C
// library in double, where both are exact, and sums are wide enough never to overflow.
struct Reference {
  int scale = 0;
  std::uint64_t hash = 0;
  Int128 sum = 0, abs_sum = 0, sum_sq = 0;
  std::array<Int128, kSketchValues> buckets{};
  std::uint64_t nan = 0, inf = 0, nz_count = 0;
  float min = kNan, max = kNan;
};

inline void add_finite(Reference& ref, std::size_t i, float x) {
  const double q = std::nearbyint(std::ldexp(static_cast<double>(x), ref.scale));
  const double r = std::floor((std::fabs(q) + 0x1p19) / 0x1p20);
  ref.sum += static_cast<Int128>(q);
  ref.abs_sum += static_cast<Int128>(std::fabs(q));
  ref.sum_sq += static_cast<Int128>(r) * static_cast<Int128>(r);
  for (std::size_t map = 0; map < 2; ++map) {
    const std::uint64_t h = mix64(i + (2 + map) * 11400714819323198485u);
    const double sign = (h >> 63) != 0 ? -1.0 : 1.0;
    ref.buckets[16 * map + (h >> 59) % 16] += static_cast<Int128>(sign * q);
  }
  if (!(x >= ref.min) || (x == ref.min && std::signbit(x))) ref.min = x;
  if (!(x <= ref.max) || (x == ref.max && !std::signbit(x))) ref.max = x;
}

inline Reference reference(const Row& row) {
  Reference ref;
  double greatest = 0;
  for (float x : row) {
    if (std::isfinite(x)) greatest = std::max(greatest, std::fabs(static_cast<double>(x)));
  }
  int lost = 0;
  while (row.size() > std::size_t{1} << (21 + lost)) ++lost;
  ref.scale = greatest == 0 ? 0 : 40 - lost - std::ilogb(greatest);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto bits = std::isnan(row[i]) ? 0x7fc00000u : std::bit_cast<std::uint32_t>(row[i]);
    ref.hash += mix64(i * 0x100000000u + bits);
    ref.nan += std::isnan(row[i]);
    ref.inf += std::isinf(row[i]);
    ref.nz_count += row[i] != 0;
    if (std::isfinite(row[i])) add_finite(ref, i, row[i]);
  }
  return ref;
}

inline std::uint64_t double_bits(double x) { return std::bit_cast<std::uint64_t>(x); }
inline std::uint32_t float_bits(float x) { return std::bit_cast<std::uint32_t>(x); }

inline void expect_reference(const Row& row, const FingerprintSums& sums) {
  const Reference ref = reference(row);
  EXPECT_EQ(sums.n, row.size());
  EXPECT_EQ(sums.scale, ref.scale);
  EXPECT_EQ(sums.hash, ref.hash);
  EXPECT_TRUE(sums.sum == ref.sum && sums.abs_sum == ref.abs_sum && sums.sum_sq == ref.sum_sq);
  for (std::size_t j = 0; j < kSketchValues; ++j) EXPECT_TRUE(sums.buckets[j] == ref.buckets[j]);
  EXPECT_EQ(sums.nan, ref.nan);
  EXPECT_EQ(sums.inf, ref.inf);
  EXPECT_EQ(sums.nz_count, ref.nz_count);
  const Fingerprint print = sums.finish();
  EXPECT_EQ(float_bits(print.min), float_bits(ref.min));
  EXPECT_EQ(float_bits(print.max), float_bits(ref.max));
}

inline FingerprintSums sums_in_order(const Row& row, const std::vector<std::size_t>& order) {
  FingerprintSums sums(finite_max_magnitude(row), row.size());
  for (std::size_t i : order) sums.add(i, row[i]);
  return sums;
}

inline std::vector<std::size_t> natural_order(std::size_t n) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

// Every kind of value at sizes around the block and page sizes of the implementation.
inline std::vector<Row> hostile_rows() {
  std::vector<Row> rows = {{}, {0.0f}, {-0.0f}, {kNan}, {kInf, -kInf}, {kDenormal}, {-kFloatMax}};
  for (std::size_t n : {1u, 2u, 31u, 63u, 64u, 65u, 1000u, 4095u, 4096u, 4097u, 9001u}) {
    rows.push_back(Row(n, 0.0f));
    rows.push_back(make_row(n, dense_value));
    rows.push_back(make_row(n, any_bits));
    rows.push_back(make_row(n, denormal_value));
    rows.push_back(make_row(n, [](std::size_t i) { return wide_value(i % 251); }));
    rows.push_back(make_row(n, [](std::size_t i) { return i % 37 == 0 ? kInf : dense_value(i); }));
    rows.push_back(make_row(n, [](std::size_t i) { return i == 0 ? 1e30f : denormal_value(i); }));
  }
  return rows;
}

}  // namespace greta::test_rows
