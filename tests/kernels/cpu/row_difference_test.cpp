#include "kernels/row_difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "kernels/fingerprint/fingerprint.h"
#include "tests/kernels/values.h"

namespace greta {
namespace {

RowDifference difference(const Values& x, const Values& y, const RowSegments& segments = {}) {
  return row_difference({x.data(), y.data(), static_cast<int64_t>(x.size()), segments});
}

TEST(RowDifference, EqualRowsDoNotDiffer) {
  for (size_t n : {size_t{0}, size_t{1}, size_t{4096}}) {
    Values x = bell_values(1, n);
    if (n > 1) x[1] = kNan;
    const RowDifference d = difference(x, x);
    EXPECT_EQ(d.n, static_cast<int64_t>(n));
    EXPECT_EQ(d.differing, 0);
    EXPECT_EQ(d.first, -1);
    EXPECT_EQ(d.last, -1);
    EXPECT_EQ(d.max_abs_at, -1);
    EXPECT_EQ(d.max_ulp, 0);
    EXPECT_EQ(d.rel_l2(), 0);
  }
}

TEST(RowDifference, SaysWhichValuesDiffer) {
  Values x(100, 1.0f), y = x;
  y[7] = 1.5f;
  y[93] = 0.25f;
  y[60] = std::nextafter(1.0f, 2.0f);
  const RowDifference d = difference(x, y, {.n = 10});
  EXPECT_EQ(d.differing, 3);
  EXPECT_EQ(d.first, 7);
  EXPECT_EQ(d.last, 93);
  EXPECT_EQ(d.max_abs, 0.75);
  EXPECT_EQ(d.max_abs_at, 93);
  EXPECT_EQ(d.max_ulp, int64_t{2} << 23);  // two powers of two below
  EXPECT_EQ(d.segment_sum_sq[0], 0.25);
  EXPECT_EQ(d.segment_sum_sq[6], 0x1p-46);
  EXPECT_EQ(d.segment_sum_sq[9], 0.5625);
  EXPECT_EQ(d.segment_sum_sq[1], 0);
}

TEST(RowDifference, OfTwoEquallyFarApartTheFirstIsNamed) {
  const RowDifference d = difference({0, 1, 0, 3, 0}, {0, 0, 0, 4, 0});
  EXPECT_EQ(d.max_abs, 1);
  EXPECT_EQ(d.max_abs_at, 1);
}

TEST(RowDifference, WhatIsNotFiniteIsCountedAndNotSummed) {
  const RowDifference d = difference({kNan, kInf, 1, -kInf, 5, kNan}, {kNan, 2, kNan, kInf, 4, 3});
  EXPECT_EQ(d.differing, 5);
  EXPECT_EQ(d.first, 1);
  EXPECT_EQ(d.last, 5);
  EXPECT_EQ(d.max_abs, 1);
  EXPECT_EQ(d.x_sum_sq, 25);
  EXPECT_EQ(d.y_sum_sq, 16);
  EXPECT_EQ(d.sum_sq(), 1);
}

TEST(RowDifference, SignsOfZeroDifferByOneFloatAndByNothing) {
  const RowDifference d = difference({0.0f}, {-0.0f});
  EXPECT_EQ(d.differing, 1);
  EXPECT_EQ(d.max_ulp, 1);
  EXPECT_EQ(d.max_abs, 0);
  EXPECT_EQ(d.rel_l2(), 0);
}

TEST(RowDifference, DistanceIsOverTheLargerNorm) {
  EXPECT_EQ(difference({3, 4}, {0, 0}).rel_l2(), 1);
  EXPECT_EQ(difference({0, 0}, {3, 4}).rel_l2(), 1);
  EXPECT_EQ(difference({0, 0}, {0, 0}).rel_l2(), 0);
  EXPECT_DOUBLE_EQ(difference({2, 0}, {1, 0}).rel_l2(), 0.5);
  EXPECT_EQ(difference({3e38f, 0}, {-3e38f, 0}).rel_l2(), 2) << "no square overflows";
}

TEST(RowDifference, AgreesWithLongDouble) {
  const Values x = bell_values(3, 5000), noise = bell_values(4, 5000, 1e-4);
  Values y = x;
  long double sum = 0, norm = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] += noise[i];
    const long double d = static_cast<long double>(y[i]) - static_cast<long double>(x[i]);
    sum += d * d;
    norm += static_cast<long double>(y[i]) * static_cast<long double>(y[i]);
  }
  const RowDifference d = difference(x, y);
  EXPECT_NEAR(d.sum_sq() / static_cast<double>(sum), 1, 1e-12);
  EXPECT_NEAR(d.y_sum_sq / static_cast<double>(norm), 1, 1e-12);
}

TEST(RowDifference, LiesInTheIntervalOfTheSketchesAsOftenAsThatSays) {
  int inside = 0;
  for (uint32_t trial = 0; trial < 10'000; ++trial) {
    const size_t n = 256 + trial % 769;
    const Values x = bell_values(2 * trial, n), noise = bell_values(2 * trial + 1, n, 1e-3);
    Values y = x;
    for (size_t i = 0; i < n; ++i) y[i] += noise[i];
    const Fingerprint of_x = fingerprint(x), of_y = fingerprint(y);
    double squares = 0;
    for (size_t i = 0; i < kSketchValues; ++i) {
      squares += (of_x.sketch[i] - of_y.sketch[i]) * (of_x.sketch[i] - of_y.sketch[i]);
    }
    const double estimate = std::sqrt(squares / static_cast<double>(kSketchMaps));
    const double exact = std::sqrt(difference(x, y).sum_sq());
    inside += 0.80 * estimate <= exact && exact <= 1.32 * estimate ? 1 : 0;
  }
  EXPECT_GE(inside, 9'400);
  EXPECT_LE(inside, 9'600);
}

TEST(RowDifference, SegmentsAreHeadsOrSlices) {
  const RowSegments slices{.n = 3}, heads{.n = 4, .period = 8};
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(slices.of(i, 100), i < 34 ? 0 : i < 67 ? 1 : 2) << i;
    EXPECT_EQ(heads.of(i, 100), i % 8 / 2) << i;
  }
  const Values x(64, 0.0f);
  Values y = x;
  for (size_t key = 0; key < 8; ++key) y[key * 8 + 5] = 1;  // one of eight heads, beside the others
  const RowDifference d = difference(x, y, {.n = 8, .period = 8});
  EXPECT_EQ(d.segment_sum_sq[5], 8);
  EXPECT_EQ(d.sum_sq(), 8);
}

TEST(RowDifference, RefusesSegmentsThatAreNone) {
  EXPECT_THROW(difference({1}, {2}, {.n = 0}), std::invalid_argument);
  EXPECT_THROW(difference({1}, {2}, {.n = 33}), std::invalid_argument);
  EXPECT_THROW(difference({1}, {2}, {.n = 1, .period = -1}), std::invalid_argument);
}

}  // namespace
}  // namespace greta
