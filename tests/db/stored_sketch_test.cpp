#include "db/stored_sketch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace greta {
namespace {

RowSketch of_buckets(double first, double second, double last) {
  RowSketch sketch{.n = 4096, .derived = true, .sum_sq = 2.5};
  sketch.bucket[0] = first;
  sketch.bucket[1] = second;
  sketch.bucket[31] = last;
  return sketch;
}

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5;
}

TEST(StoredSketch, OfZerosHasScaleOne) {
  const StoredSketch stored = stored_form(of_buckets(0, -0.0, 0));
  EXPECT_EQ(stored.scale, 1);
  EXPECT_EQ(stored.bucket, (std::array<int32_t, 32>{}));
  EXPECT_EQ(stored.n, 4096);
  EXPECT_TRUE(stored.derived);
  EXPECT_EQ(stored.sum_sq, 2.5);
}

TEST(StoredSketch, KeepsEveryBucketTo28BitsOfTheGreatest) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  for (const double size : {1e-300, 1e-3, 1.0, 12345.678, 1e300}) {
    RowSketch sketch;
    double greatest = 0;
    for (double& value : sketch.bucket) {
      value = size * normal(random);
      greatest = std::max(greatest, std::fabs(value));
    }
    const StoredSketch stored = stored_form(sketch);
    EXPECT_TRUE(is_power_of_two(stored.scale));
    EXPECT_LT(greatest / stored.scale, 268435456.0);
    EXPECT_GE(greatest / stored.scale, 134217728.0);
    const RowSketch back = row_form(stored);
    for (size_t i = 0; i < back.bucket.size(); ++i)
      EXPECT_NEAR(back.bucket[i], sketch.bucket[i], stored.scale / 2);
    EXPECT_EQ(stored_form(back), stored);
  }
}

TEST(StoredSketch, OfDenormalsIsExact) {
  const double least = std::numeric_limits<double>::denorm_min();
  const RowSketch sketch = of_buckets(least, -3 * least, 1000 * least);
  const StoredSketch stored = stored_form(sketch);
  EXPECT_EQ(stored.scale, least);
  EXPECT_EQ(row_form(stored).bucket, sketch.bucket);
}

TEST(StoredSketch, WhatRoundsUpToTheLimitTakesTheNextScale) {
  const double just_below = std::nextafter(1.0, 0);
  const StoredSketch stored = stored_form(of_buckets(just_below, -just_below, 0.25));
  EXPECT_EQ(stored.bucket[0], 1 << 27);
  EXPECT_EQ(stored.bucket[1], -(1 << 27));
  EXPECT_EQ(stored.scale * (1 << 27), 1);
  EXPECT_EQ(stored_form(row_form(stored)), stored);
}

TEST(StoredSketch, EqualOnesHaveOneDigestAndOthersAnother) {
  const StoredSketch one = stored_form(of_buckets(1.5, -0.0, 3));
  EXPECT_EQ(stored_form(of_buckets(1.5, 0.0, 3)), one);
  EXPECT_EQ(digest_of(stored_form(of_buckets(1.5, 0.0, 3))), digest_of(one));
  StoredSketch others[] = {one, one, one, one, one};
  others[0].n = 4095;
  others[1].derived = false;
  others[2].sum_sq = 2;
  others[3].scale *= 2;
  others[4].bucket[30] = 1;
  for (const StoredSketch& other : others) EXPECT_NE(digest_of(other), digest_of(one));
}

TEST(SketchIds, AreOfOneRun) {
  SketchIds ids;
  const StoredSketch one = stored_form(of_buckets(1, 2, 3)),
                     other = stored_form(of_buckets(1, 2, 4));
  ids.of(1, one) = 7;
  ids.of(1, other) = 8;
  EXPECT_EQ(ids.of(1, one), 7);
  EXPECT_EQ(ids.of(1, other), 8);
  EXPECT_EQ(ids.of(2, one), 0);
  ids.forget();
  EXPECT_EQ(ids.of(1, one), 0);
}

TEST(SketchIds, OfTheLastStay) {
  SketchIds ids;
  const auto of_number = [](int64_t i) {
    return stored_form(of_buckets(static_cast<double>(i + 1), 0, 1));
  };
  constexpr int64_t kMany = 4 * SketchIds::kMost, kLast = SketchIds::kMost / 8;
  for (int64_t i = 0; i < kMany; ++i) ids.of(1, of_number(i)) = i;
  int64_t kept = 0, of_the_first = 0;
  for (int64_t i = kMany - kLast; i < kMany; ++i) kept += ids.of(1, of_number(i)) == i;
  for (int64_t i = 1; i < kLast; ++i) of_the_first += ids.of(1, of_number(i)) == i;
  EXPECT_GT(kept, kLast * 99 / 100);
  EXPECT_EQ(of_the_first, 0);
}

}  // namespace
}  // namespace greta
