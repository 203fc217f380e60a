#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <tuple>

#include "tests/engine/probe/probe_fixture.h"

// Differences that a probe took on its device, against those of the whole rows that it left.

namespace greta {

/// The difference of two rows in plain double arithmetic, NULL where both are the same.
inline void expect_difference(const TraceRecord& prefill, const TraceRecord& decode,
                              const PairDifference* got) {
  const std::string name =
      row_name({prefill.point, prefill.layer}) + " at position " + std::to_string(prefill.pos_id);
  const bool same = same_bits(prefill.fingerprint, decode.fingerprint);
  ASSERT_EQ(got == nullptr, same) << name;
  if (same) return;
  const std::vector<float>&x = prefill.sample, &y = decode.sample;
  ASSERT_EQ(x.size(), prefill.fingerprint.n) << name;
  ASSERT_EQ(x.size(), y.size()) << name;
  int64_t differing = 0, first = -1, last = -1;
  double distance = 0, x_norm = 0, y_norm = 0, greatest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = static_cast<double>(x[i]), b = static_cast<double>(y[i]);
    x_norm += a * a;
    y_norm += b * b;
    distance += (a - b) * (a - b);
    greatest = std::max(greatest, std::fabs(a - b));
    if (std::memcmp(&x[i], &y[i], sizeof(float)) == 0) continue;
    if (differing++ == 0) first = static_cast<int64_t>(i);
    last = static_cast<int64_t>(i);
  }
  EXPECT_EQ(got->prefill_hash, prefill.fingerprint.hash) << name;
  EXPECT_EQ(got->decode_hash, decode.fingerprint.hash) << name;
  EXPECT_EQ(got->values.n, static_cast<int64_t>(x.size())) << name;
  EXPECT_EQ(got->values.differing, differing) << name;
  EXPECT_EQ(got->values.first, first) << name;
  EXPECT_EQ(got->values.last, last) << name;
  EXPECT_EQ(got->values.max_abs, greatest) << name;
  ASSERT_TRUE(got->rel_l2().has_value()) << name;
  const double expected = std::sqrt(distance / std::max(x_norm, y_norm));
  EXPECT_NEAR(*got->rel_l2() / expected, 1, 1e-12) << name;
  const std::vector<double> shares = got->shares();
  double whole = 0;
  for (double share : shares) whole += share;
  EXPECT_NEAR(whole, 1, 1e-12) << name;
}

/// Every pair of the sink has its exact difference, in the record that came second. Returns how
/// many differ.
inline int64_t expect_exact(const MemorySink& sink) {
  std::map<std::tuple<int64_t, TracePoint, int>, const TraceRecord*> firsts;
  int64_t n_different = 0;
  for (const TraceRecord& record : sink.records) {
    if (record.phase == Phase::kPrefill) continue;
    const auto [first, is_new] =
        firsts.emplace(std::tuple(record.pos_id, record.point, record.layer), &record);
    if (is_new) {
      EXPECT_EQ(record.difference, nullptr);
      continue;
    }
    const bool decode = is_decode(record.phase);
    expect_difference(decode ? *first->second : record, decode ? record : *first->second,
                      record.difference.get());
    n_different += record.difference ? 1 : 0;
  }
  return n_different;
}

}  // namespace greta
