#include "kernels/gpu/row_difference.h"

#include "kernels/cpu/row_difference.h"
#include "tests/kernels/gpu/gpu_test.h"

namespace greta {
namespace {

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
