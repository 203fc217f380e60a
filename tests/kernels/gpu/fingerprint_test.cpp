#include "kernels/fingerprint/fingerprint.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "kernels/gpu/fingerprint.h"
#include "kernels/row_difference.h"
#include "tests/kernels/fingerprint/published_vectors.h"
#include "tests/kernels/gpu/gpu_test.h"

namespace greta {
namespace {

using namespace test_rows;

class GpuFingerprint : public GpuTest {
 protected:
  /// All rows in one launch, sized for at most max_parts parts.
  std::vector<FingerprintSums> run(const std::vector<Row>& rows, size_t max_parts,
                                   const SketchCodes& codes) {
    std::vector<DeviceBuffer<float>> data;
    FingerprintPlan plan;
    for (const Row& row : rows) {
      data.push_back(upload(row));
      plan.add(data.back().data(), static_cast<int64_t>(row.size()));
    }
    std::vector<FingerprintPart> parts(plan.n_parts());
    plan.write(parts);
    const auto device_counts = upload(std::vector<FingerprintCounts>{plan.counts()});
    const auto device_parts = upload(parts);
    auto results = buffer<DeviceFingerprint>(plan.n_rows());
    fingerprint_rows(device_counts.data(), device_parts.data(),
                     {plan.n_rows(), std::min(plan.n_long_parts(), max_parts), max_parts}, codes,
                     results.data(), stream_);
    std::vector<FingerprintSums> sums;
    for (const DeviceFingerprint& result : download(results)) sums.push_back(to_sums(result));
    return sums;
  }

  void expect_as_cpu(const std::vector<Row>& rows, size_t max_parts = 500) {
    constexpr size_t kCodes = 2 * kFingerprintPart;
    auto codes = buffer<uint16_t>(kCodes);
    make_sketch_codes(codes.data(), kCodes, stream_);
    for (const SketchCodes& looked_up : {SketchCodes{codes.data(), kCodes}, SketchCodes{}}) {
      const std::vector<FingerprintSums> got = run(rows, max_parts, looked_up);
      ASSERT_EQ(got.size(), rows.size());
      for (size_t r = 0; r < rows.size(); ++r) {
        const FingerprintSums expected = fingerprint_sums(rows[r]);
        EXPECT_EQ(got[r], expected) << "row " << r << " of " << rows[r].size() << " values";
        EXPECT_EQ(got[r].finish().hash, fingerprint(rows[r]).hash);
      }
    }
  }
};

TEST_F(GpuFingerprint, RowsOfManyLengthsInOneLaunchHaveTheCpusBits) {
  std::vector<Row> rows;
  uint32_t seed = 0;
  for (size_t n : {1,   2,    31,   32,   63,   64,   65,    127,   128, 129,
                   255, 1000, 4095, 4096, 4097, 8192, 12289, 20000, 3,   4096}) {
    rows.push_back(bell_values(++seed, n));
  }
  expect_as_cpu(rows);
}

TEST_F(GpuFingerprint, EveryKindOfNumberHasTheCpusBits) {
  std::vector<Row> rows;
  for (size_t n : {300, 5000}) {
    rows.push_back(make_row(n, any_bits));
    rows.push_back(make_row(n, denormal_value));
    rows.push_back(make_row(n, [](size_t i) { return wide_value(i % 250); }));
    rows.push_back(Row(n, 0.0f));
    rows.push_back(Row(n, -0.0f));
    rows.push_back(Row(n, kNan));
    rows.push_back(Row(n, -kInf));
    rows.push_back(make_row(n, [](size_t i) { return i % 3 == 0 ? kNan : i % 3 == 1 ? kInf : 2; }));
    rows.push_back(Row(n, std::numeric_limits<float>::max()));
    rows.push_back(Row(n, -std::numeric_limits<float>::denorm_min()));
    // The greatest magnitude is the last value, negative, in a part of its own.
    rows.push_back(make_row(n, [n](size_t i) { return i + 1 == n ? -1e30f : 1.0f; }));
  }
  expect_as_cpu(rows);
}

TEST_F(GpuFingerprint, PublishedTestVectors) {
  std::vector<Row> rows;
  std::vector<Vector> vectors = published_vectors();
  if (device_info().name == "emulator") {  // long rows take seconds there
    std::erase_if(vectors, [](const Vector& v) { return v.row.size() > 10000; });
  }
  for (const Vector& v : vectors) rows.push_back(v.row);
  const std::vector<FingerprintSums> got = run(rows, 500, {});
  for (size_t i = 0; i < vectors.size(); ++i) {
    const Vector& v = vectors[i];
    SCOPED_TRACE(v.name);
    EXPECT_EQ(got[i].hash, v.hash);
    EXPECT_EQ(got[i].scale, v.scale);
    EXPECT_EQ(got[i].sum, v.sum);
    EXPECT_EQ(got[i].abs_sum, v.abs_sum);
    EXPECT_EQ(got[i].sum_sq, v.sum_sq);
    const auto& b = got[i].buckets;
    EXPECT_EQ((std::array{b[0], b[15], b[16], b[31]}), v.buckets);
  }
}

TEST_F(GpuFingerprint, RandomRowsOfAnyBitsHaveTheCpusBits) {
  const size_t n_rows = device_info().name == "emulator" ? 100 : 10000;
  std::mt19937 random(11);
  std::vector<Row> rows(n_rows);
  for (Row& row : rows) {
    // Mostly short; numbers of every size, or, of every fourth row, ones that are alike.
    row.resize(random() % 8 == 0 ? random() % 9000 : random() % 300);
    const bool alike = random() % 4 == 0;
    for (float& value : row) {
      const auto bits = static_cast<uint32_t>(random());
      value = std::bit_cast<float>(alike ? (bits & 0x83ffffffu) | 0x3c000000u : bits);
    }
  }
  expect_as_cpu(rows);
}

TEST_F(GpuFingerprint, EmptyRowsAreWritten) {
  expect_as_cpu({Row{}, Row{1.0f}, Row{}});
  expect_as_cpu({Row{}, bell_values(1, 10000)});
}

TEST_F(GpuFingerprint, RowsNeedNotBeAligned) {
  const Row all = bell_values(3, 9000);
  const auto data = upload(all);
  FingerprintPlan plan;
  plan.add(data.data() + 1, 4099);
  plan.add(data.data() + 3, 77);
  std::vector<FingerprintPart> parts(plan.n_parts());
  plan.write(parts);
  const auto counts = upload(std::vector<FingerprintCounts>{plan.counts()});
  const auto device_parts = upload(parts);
  auto results = buffer<DeviceFingerprint>(2);
  fingerprint_rows(counts.data(), device_parts.data(), {2, 2, 3}, {}, results.data(), stream_);
  const auto got = download(results);
  EXPECT_EQ(to_sums(got[0]), fingerprint_sums(std::span(all).subspan(1, 4099)));
  EXPECT_EQ(to_sums(got[1]), fingerprint_sums(std::span(all).subspan(3, 77)));
}

TEST_F(GpuFingerprint, ARowOfLongPartsHasTheCpusBits) {
  expect_as_cpu({bell_values(4, 64 * kFingerprintPart + 5), bell_values(5, 300)});
}

TEST_F(GpuFingerprint, MorePartsThanBlocksAreTakenInTurn) {
  std::vector<Row> rows;
  for (uint32_t r = 0; r < 40; ++r) rows.push_back(bell_values(r, 1 + r % 5));
  rows.push_back(bell_values(9, 20000));
  expect_as_cpu(rows, 3);
  expect_as_cpu(rows, 1);
}

TEST_F(GpuFingerprint, ResultsOfAnEarlierLaunchDoNotLeakIn) {
  const Row first = bell_values(1, 9000), second = bell_values(2, 9000);
  const auto data = upload(first);
  FingerprintPlan plan;
  plan.add(data.data(), 9000);
  std::vector<FingerprintPart> parts(plan.n_parts());
  plan.write(parts);
  const auto counts = upload(std::vector<FingerprintCounts>{plan.counts()});
  const auto device_parts = upload(parts);
  auto results = buffer<DeviceFingerprint>(1);
  const FingerprintLimits limits{1, 3, 3};
  Graph graph = Graph::capture(stream_, [&] {
    fingerprint_rows(counts.data(), device_parts.data(), limits, {}, results.data(), stream_);
  });
  graph.launch(stream_);
  EXPECT_EQ(to_sums(download(results)[0]), fingerprint_sums(first));
  copy_to_device<float>(second, data.data(), stream_);
  graph.launch(stream_);
  EXPECT_EQ(to_sums(download(results)[0]), fingerprint_sums(second));
}

TEST_F(GpuFingerprint, ScaleFitsEveryMagnitude) {
  // One value per row: all exponents, subnormals bit by bit.
  std::vector<Row> rows;
  for (uint32_t bit = 0; bit < 31; ++bit) {
    const uint32_t bits = uint32_t{1} << bit;
    rows.push_back({std::bit_cast<float>(bits)});
    if (bit > 0) rows.push_back({std::bit_cast<float>(bits - 1), 0.0f});
  }
  for (uint32_t field = 1; field < 255; field += 3) {
    rows.push_back({-std::bit_cast<float>(field << 23 | 0x555555u)});
  }
  expect_as_cpu(rows);
}

TEST_F(GpuFingerprint, ValuesOfLongRowsAreAsMuchCoarserAsOnTheCpu) {
  const Row row = make_row(5000, any_bits);
  for (const int lost : {1, 6, 10}) {
    const auto data = upload(row);
    FingerprintPlan plan;
    plan.add(data.data(), static_cast<int64_t>(row.size()));
    std::vector<FingerprintPart> parts(plan.n_parts());
    plan.write(parts);
    for (FingerprintPart& part : parts) {
      part.lost = static_cast<uint16_t>(lost);  // as in a row of 2^(21 + lost)
    }
    const auto device_counts = upload(std::vector<FingerprintCounts>{plan.counts()});
    const auto device_parts = upload(parts);
    auto results = buffer<DeviceFingerprint>(1);
    fingerprint_rows(device_counts.data(), device_parts.data(),
                     {1, plan.n_long_parts(), plan.n_parts()}, {}, results.data(), stream_);
    const DeviceFingerprint got = download(results)[0];
    FingerprintSums expected(finite_max_magnitude(row), kMaxTokenValues << lost);
    for (size_t i = 0; i < row.size(); ++i) expected.add(i, row[i]);
    EXPECT_EQ(got.hash, expected.hash) << lost;
    EXPECT_EQ(got.sum, expected.sum) << lost;
    EXPECT_EQ(got.abs_sum, expected.abs_sum) << lost;
    EXPECT_EQ(got.sum_sq, expected.sum_sq) << lost;
    EXPECT_TRUE(std::equal(expected.buckets.begin(), expected.buckets.end(), got.buckets)) << lost;
  }
}

TEST_F(GpuFingerprint, TooLongRowsAreRefused) {
  FingerprintPlan plan;
  EXPECT_THROW(plan.add(nullptr, int64_t{kMaxFingerprintValues} + 1), std::length_error);
  EXPECT_THROW(plan.add(nullptr, -1), std::length_error);
  EXPECT_EQ(plan.n_parts(), 0u);
}

TEST_F(GpuFingerprint, LongestRowHasTheCpusBits) {
  if (device_info().name == "emulator") GTEST_SKIP() << "takes seconds on the emulator";
  expect_as_cpu({make_row(kMaxTokenValues, any_bits), Row(kMaxTokenValues, 1.0f),
                 make_row(kMaxTokenValues + 4097, any_bits)});
}

class GpuRowDifference : public GpuTest {
 protected:
  struct Rows {
    Values x, y;
    RowSegments segments;
  };

  void expect_as_host(const std::vector<Rows>& all) {
    std::vector<DeviceBuffer<float>> memory;
    RowTasks work;
    for (const Rows& rows : all) {
      memory.push_back(upload(rows.x));
      memory.push_back(upload(rows.y));
      work.add({memory[memory.size() - 2].data(), memory.back().data(),
                static_cast<int64_t>(rows.x.size()), rows.segments},
               nullptr, static_cast<int64_t>(memory.size() / 2 - 1));
    }
    const std::vector<RowDifference> got = run(work, all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const RowDifference expected =
          row_difference({all[i].x.data(), all[i].y.data(), static_cast<int64_t>(all[i].x.size()),
                          all[i].segments});
      EXPECT_EQ(got[i].n, expected.n) << i;
      EXPECT_EQ(got[i].differing, expected.differing) << i;
      EXPECT_EQ(got[i].first, expected.first) << i;
      EXPECT_EQ(got[i].last, expected.last) << i;
      EXPECT_EQ(got[i].max_abs, expected.max_abs) << i;
      EXPECT_EQ(got[i].max_abs_at, expected.max_abs_at) << i;
      EXPECT_EQ(got[i].max_ulp, expected.max_ulp) << i;
      EXPECT_EQ(got[i].x_sum_sq, expected.x_sum_sq) << i;
      EXPECT_EQ(got[i].y_sum_sq, expected.y_sum_sq) << i;
      EXPECT_EQ(got[i].segment_sum_sq, expected.segment_sum_sq) << i;
    }
  }

  std::vector<RowDifference> run(const RowTasks& work, size_t n_results) {
    const auto tasks = upload(work.tasks);
    const auto rows = upload(work.rows);
    auto parts = buffer<RowDifference>(static_cast<size_t>(work.n_parts));
    auto results = upload(std::vector<RowDifference>(n_results));
    run_row_tasks(tasks.data(), static_cast<int64_t>(work.tasks.size()), rows.data(),
                  static_cast<int64_t>(work.rows.size()), parts.data(), results.data(), stream_);
    return download(results);
  }

  static Rows differing(uint32_t seed, size_t n, size_t every, RowSegments segments) {
    Rows rows{bell_values(seed, n), {}, segments};
    const Values noise = bell_values(seed + 1, n, 1e-3);
    rows.y = rows.x;
    for (size_t i = 0; i < n; i += every) rows.y[i] += noise[i];
    return rows;
  }
};

TEST_F(GpuRowDifference, HasTheHostsBits) {
  std::vector<Rows> all;
  uint32_t seed = 1;
  for (size_t n : {size_t{1}, size_t{2}, size_t{63}, size_t{64}, size_t{65}, size_t{1000},
                   size_t{4096}, size_t{4097}, size_t{13'000}, size_t{80'000}}) {
    for (size_t every : {size_t{1}, size_t{7}, size_t{5000}}) {
      all.push_back(
          differing(seed++, n, every, {.n = static_cast<int32_t>(std::min<size_t>(n, 32))}));
      all.push_back(differing(seed++, n, every, {.n = 8, .period = 8}));
      all.push_back(differing(seed++, n, every, {.n = 4, .period = 12}));
    }
  }
  expect_as_host(all);
}

TEST_F(GpuRowDifference, WhatIsNotFiniteIsCountedAndNotSummed) {
  Rows rows = differing(5, 300, 3, {.n = 5});
  for (size_t i : {size_t{0}, size_t{70}, size_t{299}}) rows.x[i] = kNan;
  for (size_t i : {size_t{0}, size_t{71}, size_t{200}}) rows.y[i] = i == 0 ? kNan : -kInf;
  expect_as_host({rows, {{kNan}, {kNan}, {}}, {{0.0f}, {-0.0f}, {}}, {{}, {}, {}}});
}

TEST_F(GpuRowDifference, OfTwoEquallyFarApartTheFirstIsNamed) {
  Rows rows{Values(500, 0.0f), Values(500, 0.0f), {}};
  for (size_t i : {size_t{450}, size_t{66}, size_t{130}}) rows.y[i] = 2;
  expect_as_host({rows});
}

TEST_F(GpuRowDifference, ARowThatIsKeptIsCopiedWhole) {
  const Values row = bell_values(9, 5000);
  const auto on_device = upload(row);
  auto kept = buffer<float>(row.size());
  RowTasks work;
  work.add({nullptr, on_device.data(), 5000, {}}, kept.data(), 0);
  EXPECT_EQ(work.n_parts, 0);
  EXPECT_TRUE(work.rows.empty());
  EXPECT_EQ(work.tasks.size(), 2u);
  work.tasks.emplace_back();  // room that a recorded launch did not need
  work.rows.emplace_back();
  run(work, 1);
  EXPECT_EQ(bits_of(download(kept)), bits_of(row));
}

TEST_F(GpuRowDifference, NoRowsAreNoWork) {
  RowTasks work;
  work.add({}, nullptr, 0);
  EXPECT_TRUE(work.tasks.empty());
  const auto run_none = [this](int64_t n_tasks, int64_t n_rows) {
    run_row_tasks(nullptr, n_tasks, nullptr, n_rows, nullptr, nullptr, stream_);
  };
  EXPECT_NO_THROW(run_none(0, 0));
  EXPECT_THROW(run_none(-1, 0), std::invalid_argument);
  EXPECT_THROW(run_none(0, -1), std::invalid_argument);
}

}  // namespace

}  // namespace greta
