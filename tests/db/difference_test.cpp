#include "db/difference.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <stdexcept>

#include "common/temporary_folder.h"
#include "db/check.h"
#include "db/database.h"
#include "db/merge.h"
#include "db/run_records.h"
#include "db/trace_writer.h"

namespace greta {
namespace {

DifferenceRow sound() {
  DifferenceRow row;
  row.pos_id = 5;
  row.layer = 2;
  row.prefill_hash = ~uint64_t{0};
  row.decode_hash = 7;
  row.n = 64;
  row.differing = 3;
  row.first_at = 4;
  row.last_at = 60;
  row.rel_l2 = 0.125;
  row.max_abs = 2.5;
  row.max_abs_at = 60;
  row.max_ulp = 9;
  row.heads = 8;
  row.shares = {0.5, 0, 0, 0.5};
  return row;
}

TEST(DifferenceRowTest, WhatCannotBeIsRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(fault_of(sound()), "");
  const std::function<void(DifferenceRow&)> spoilt[] = {
      [](auto& d) { d.decode_hash = d.prefill_hash; },
      [](auto& d) { d.n = 0; },
      [](auto& d) { d.n = -64; },
      [](auto& d) { d.differing = 0; },
      [](auto& d) { d.differing = 65; },
      [](auto& d) { d.differing = 58; },
      [](auto& d) { d.first_at = -1; },
      [](auto& d) { d.last_at = 64; },
      [](auto& d) { d.last_at = 3; },
      [](auto& d) { d.differing = 1; },
      [](auto& d) { d.max_abs_at = 61; },
      [](auto& d) { d.max_abs_at.reset(); },
      [](auto& d) { d.max_abs = -1; },
      [nan](auto& d) { d.max_abs = nan; },
      [inf](auto& d) { d.max_abs = inf; },
      [](auto& d) { d.max_ulp = -1; },
      [nan](auto& d) { d.rel_l2 = nan; },
      [inf](auto& d) { d.rel_l2 = inf; },
      [](auto& d) { d.rel_l2 = -0.1; },
      [](auto& d) { d.rel_l2 = 2.1; },
      [](auto& d) { d.rel_l2 = 0; },
      [](auto& d) { d.shares.clear(); },
      [](auto& d) { d.shares.assign(33, 1.0 / 33); },
      [](auto& d) {
        d.shares = {0.5, 0.25};
      },
      [](auto& d) {
        d.shares = {0, 0};
      },
      [](auto& d) {
        d.shares = {-0.5, 1.5};
      },
      [nan](auto& d) {
        d.shares = {nan, 1};
      },
      [](auto& d) { d.heads = 7; },
      [](auto& d) { d.heads = -4; }};
  for (size_t i = 0; i < std::size(spoilt); ++i) {
    DifferenceRow row = sound();
    spoilt[i](row);
    EXPECT_NE(fault_of(row), "") << i;
  }
}

/// A file with a run whose two rows are of those hashes.
class DifferenceFile : public ::testing::Test {
 protected:
  SQLite::Database made(const char* name) {
    SQLite::Database db = open_for_writing(folder_ / name);
    RunRecords records(db);
    TraceWriter writer(db);
    NewRun run;
    run.name = run.experiment = "r";
    run.hash_algo = "greta-1";
    row_.run_id = records.add_run(run);
    const int64_t source =
        records.add_source({row_.run_id, "", "", std::string("s") + name, "x", 0});
    row_.prompt_id = writer.prompt_id(row_.run_id, "p");
    const TensorId tensor = writer.tensor_id("attn_out");
    row_.tensor_id = tensor.tensor_id;
    std::vector<TraceRow> rows;
    for (const char* phase : {"prefill_last", "decode0"}) {
      const PhaseId id = writer.phase_id(phase);
      TraceRow& row = rows.emplace_back();
      row.run_id = row_.run_id;
      row.prompt_id = row_.prompt_id;
      row.side = id.side;
      row.phase_id = id.id;
      row.pos_id = row_.pos_id;
      row.layer = row_.layer;
      row.tensor_id = tensor.tensor_id;
      row.name_id = tensor.name_id;
      row.step = id.side == Side::kPrefill ? 0 : 1;
      row.n = row_.n;
      row.hash = id.side == Side::kPrefill ? row_.prefill_hash : row_.decode_hash;
      row.source_id = source;
      row.line = static_cast<int64_t>(rows.size());
    }
    writer.write(rows);
    db.exec("UPDATE source SET rows = 2, lines = 2");
    return db;
  }
  static std::string text(SQLite::Database& db) {
    SQLite::Statement query(
        db,
        "SELECT prefill_hash || ' ' || decode_hash || ' ' || rel_l2 || ' ' || segments || ' ' ||"
        " (SELECT group_concat(segment || ':' || share_ppm, ' ') FROM difference_part p"
        "  WHERE p.difference_id = d.id) FROM difference d");
    std::string all;
    while (query.executeStep()) all += query.getColumn(0).getString() + "\n";
    return all;
  }

  TemporaryFolder folder_;
  DifferenceRow row_ = sound();
};

TEST_F(DifferenceFile, TheGreaterOfTwoDistancesStands) {
  SQLite::Database db = made("a.db");
  RunRecords records(db);
  records.add_difference(row_);
  EXPECT_EQ(text(db), "-1 7 0.125 4 0:500000 3:500000\n");
  row_.rel_l2 = 0.5;
  row_.shares = {0, 1e-7, 2.0 / 3, 1.0 / 3 - 1e-7};
  records.add_difference(row_);
  const std::string worse = "-1 7 0.5 4 1:0 2:666667 3:333333\n";
  EXPECT_EQ(text(db), worse);
  row_.rel_l2 = 0.25;
  row_.shares = {1, 0, 0, 0};
  records.add_difference(row_);
  EXPECT_EQ(text(db), worse);
  EXPECT_TRUE(check_database(db).empty());
  row_.differing = 0;
  EXPECT_THROW(records.add_difference(row_), std::invalid_argument);
}

TEST_F(DifferenceFile, OneThatIsSpreadHasNoParts) {
  SQLite::Database db = made("a.db");
  double rel_l2 = 1e-3;
  const auto parts = [&](std::vector<double> shares) {
    rel_l2 *= 1.1;  // worse than the one before
    row_.rel_l2 = rel_l2;
    row_.shares = std::move(shares);
    RunRecords(db).add_difference(row_);
    return db.execAndGet("SELECT count(*) FROM difference_part").getInt();
  };
  row_.heads = 0;
  EXPECT_EQ(parts(std::vector<double>(8, 0.125)), 0);
  EXPECT_EQ(parts({0.5, 0.5, 0, 0, 0, 0, 0, 0}), 2) << "some segments are equal";
  EXPECT_EQ(parts(std::vector<double>(4, 0.25)), 4) << "few segments";
  std::vector<double> one_more(16, 0.7 / 15);
  one_more[3] = 0.3;
  EXPECT_EQ(parts(one_more), 16) << "one has more than four times its part";
  one_more.assign(16, 0.75 / 15);
  one_more[3] = 0.25;
  EXPECT_EQ(parts(one_more), 0);
  rel_l2 = 0.02;
  EXPECT_EQ(parts(one_more), 16) << "more than rounding";
  EXPECT_TRUE(check_database(db).empty());
}

TEST_F(DifferenceFile, WhatRefersToNothingIsFound) {
  for (const char* change : {"run_id = 99", "tensor_id = 9999", "prompt_id = 99"}) {
    SQLite::Database db = made((std::string(change) + ".db").c_str());
    RunRecords(db).add_difference(row_);
    EXPECT_TRUE(check_content(db).empty());
    db.exec(std::string("UPDATE difference SET ") + change);
    EXPECT_FALSE(check_content(db).empty()) << change;
  }
}

TEST_F(DifferenceFile, AMergeBringsItOnce) {
  {
    SQLite::Database other = made("other.db");
    RunRecords(other).add_difference(row_);
  }
  SQLite::Database into = open_for_writing(folder_ / "into.db");
  NewRun first;  // so that ids are others
  first.name = first.experiment = "first";
  RunRecords(into).add_run(first);
  for (int i = 0; i < 2; ++i) {
    merge(into, folder_ / "other.db");
    EXPECT_EQ(text(into), "-1 7 0.125 4 0:500000 3:500000\n");
    EXPECT_EQ(into.execAndGet("SELECT location FROM pair WHERE measure = 'exact'").getString(),
              "3 of 64 values");
    EXPECT_TRUE(check_database(into).empty());
  }
}

TEST_F(DifferenceFile, AMergeBringsTheWorseOneWithItsParts) {
  for (const double there : {0.5, 0.0625}) {
    const std::string name = std::to_string(there) + ".db";
    {
      SQLite::Database other = made(("other" + name).c_str());
      DifferenceRow row = row_;
      row.rel_l2 = there;
      row.shares = {0, 1, 0, 0};
      RunRecords(other).add_difference(row);
    }
    SQLite::Database into = made(("into" + name).c_str());
    RunRecords(into).add_difference(row_);
    merge(into, folder_ / ("other" + name));
    EXPECT_EQ(text(into),
              there > 0.125 ? "-1 7 0.5 4 1:1000000\n" : "-1 7 0.125 4 0:500000 3:500000\n");
    EXPECT_TRUE(check_database(into).empty());
  }
}

}  // namespace
}  // namespace greta
