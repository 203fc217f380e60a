// What an engine knows of how two rows differ, value by value, and what the views make of it.
#include <gtest/gtest.h>

#include "db/run_records.h"
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

constexpr const char* kFigures =
    "SELECT status, class, measure, round(rel_l2, 9), round(rel_l2_low, 9), round(rel_l2_high, 9)"
    " FROM pair";

/// The rows of hashes 1 and 2 at layer 3, attn_out.
DifferenceRow slight(Warehouse& w, double rel_l2 = 1e-6) {
  DifferenceRow row;
  row.run_id = w.current_run();
  row.prompt_id = w.prompt_id("p0");
  row.pos_id = 37;
  row.layer = 3;
  row.tensor_id =
      w.db.execAndGet("SELECT tensor_id FROM tensor_name WHERE name = 'attn_out'").getInt64();
  row.prefill_hash = 1;
  row.decode_hash = 2;
  row.n = 4;
  row.differing = 4;
  row.last_at = 3;
  row.rel_l2 = rel_l2;
  row.max_abs = 0.5;
  row.max_abs_at = 1;
  row.max_ulp = 7;
  row.shares = {0.25, 0.75};
  return row;
}

void add(Warehouse& w, const DifferenceRow& row) { RunRecords(w.db).add_difference(row); }

TEST(Difference, DecidesWhereNothingElseMeasures) {
  Warehouse w;
  w.run({.dtype = "f32"});
  w.drift("attn_out", 3);
  EXPECT_EQ(w.rows(kFigures), "DRIFT|UNKNOWN|-|-|-|-");
  add(w, slight(w));
  EXPECT_EQ(w.rows(kFigures), "DRIFT|ROUNDING|exact|1.0e-06|-|-");
  EXPECT_EQ(w.rows("SELECT verdict, strict_verdict, numeric_verdict FROM run_verdict"),
            "PASS|FAIL|PASS");
  EXPECT_EQ(w.rows("SELECT location, differing, max_abs, max_abs_at, max_ulp FROM pair"),
            "every value|4|0.5|1|7");
}

TEST(Difference, IsBelievedBeforeAnEstimateUnlessSketchesOfAllValuesContradictIt) {
  for (const auto& [rel_l2, expected] : {std::pair(0.45, "DRIFT|DIVERGENT|exact|0.45|-|-"),
                                         {1e-9, "DRIFT|DIVERGENT|sketch|0.5|0.4|0.66"}}) {
    Warehouse w;
    w.run({.dtype = "f32"});
    w.divergent("attn_out", 3);
    EXPECT_EQ(w.rows(kFigures), "DRIFT|DIVERGENT|sketch|0.5|0.4|0.66");
    add(w, slight(w, rel_l2));
    EXPECT_EQ(w.rows(kFigures), expected);
  }
}

TEST(Difference, OfTwoOfTheSameRowsTheSmallerDoesNotStandWhicheverComesFirst) {
  for (const bool worse_first : {false, true}) {
    Warehouse w;
    w.run({.dtype = "f32"});
    w.drift("attn_out", 3);
    add(w, slight(w, worse_first ? 0.5 : 1e-9));
    add(w, slight(w, worse_first ? 1e-9 : 0.5));
    EXPECT_EQ(w.rows(kFigures), "DRIFT|DIVERGENT|exact|0.5|-|-");
    EXPECT_EQ(w.rows("SELECT count(*) FROM difference"), "1");
  }
}

TEST(Difference, SaysWhatElseADistanceComesFrom) {
  Warehouse w;
  w.match("q_proj", 0);
  w.add(prefill("k_proj", 0).sampled({1, 2, 3, 4}), decode("k_proj", 0).sampled({1, 2, 3, 5}));
  w.incomparable("v_proj", 0);
  EXPECT_EQ(w.rows("SELECT status, measure, rel_l2 IS NULL FROM pair ORDER BY tensor_id"),
            "MATCH|hash|0\nDRIFT|sample|0\nINCOMPARABLE|-|1");
}

TEST(Difference, OfOtherRowsSaysNothing) {
  Warehouse w;
  w.drift("attn_out", 3);
  DifferenceRow other = slight(w);
  other.decode_hash = 3;
  add(w, other);
  other = slight(w);
  other.pos_id = 38;
  add(w, other);
  other = slight(w);
  other.n = 5;
  add(w, other);
  EXPECT_EQ(w.rows(kFigures), "DRIFT|UNKNOWN|-|-|-|-");
  EXPECT_EQ(w.rows("SELECT location FROM pair"), "-");
}

TEST(Difference, DoesNotMeasureWhatIsNotFinite) {
  Warehouse w;
  w.add(prefill("attn_out", 3, 1).nans(1), decode("attn_out", 3, 2));
  DifferenceRow row = slight(w);
  add(w, row);
  EXPECT_EQ(w.rows(kFigures), "NONFINITE|-|-|-|-|-");
  w.db.exec("DELETE FROM difference_part; DELETE FROM difference");
  row.rel_l2.reset();
  row.differing = 1;
  row.first_at = row.last_at = 2;
  row.max_abs = 0;
  row.max_abs_at.reset();
  row.shares = {0, 0};
  add(w, row);
  EXPECT_EQ(w.rows("SELECT status, rel_l2, location, max_abs_at FROM pair"),
            "NONFINITE|-|value 2|-");
}

struct Placed {
  int64_t n, differing, first_at, last_at, heads;
  std::vector<double> shares;
  const char* location;
};

TEST(Difference, SaysWhereInWords) {
  const Placed cases[] = {
      {8, 8, 0, 7, 0, {0.5, 0.5}, "every value"},
      {8, 8, 0, 7, 4, {0, 1, 0, 0}, "every value"},
      {1, 1, 0, 0, 0, {1}, "every value"},
      {8, 1, 0, 0, 0, {1, 0}, "first value"},
      {8, 1, 7, 7, 0, {0, 1}, "last value"},
      {8, 1, 5, 5, 0, {0, 1}, "value 5"},
      {8, 3, 0, 2, 0, {1, 0}, "first 3 values"},
      {8, 4, 4, 7, 0, {0, 1}, "last 4 values"},
      {12, 5, 5, 9, 0, {0.2, 0.8}, "values 5 to 9"},
      {288, 17, 3, 250, 0, {0.5, 0.5}, "17 of 288 values"},
      {64, 8, 40, 47, 8, {0, 0, 0, 0, 0, 1, 0, 0}, "head 5 only"},
      {64, 16, 16, 31, 8, {0, 0, 0.5, 0.5, 0, 0, 0, 0}, "heads 2-3"},
      {64, 16, 16, 31, 16, {0, 0, 0.5, 0.5, 0, 0, 0, 0}, "heads 4-7"},
      {64, 7, 5, 61, 8, {0, 0, 0, 0, 0, 1, 0, 0}, "head 5 only"},  // interleaved
      {64, 2, 62, 63, 8, {0, 0, 0, 0, 0, 0, 0, 1}, "last 2 values"},
      {64, 16, 8, 47, 8, {0, 0.5, 0, 0, 0, 0.5, 0, 0}, "16 of 64 values"},
      {64, 64, 0, 63, 8, {0.01, 0, 0, 0, 0, 0.99, 0, 0}, "every value, 99 % in head 5"},
      {64, 64, 0, 63, 8, {0.05, 0, 0.95, 0}, "every value, 95 % in head 4-5"},
      {10, 9, 0, 9, 0, {0.04, 0.92, 0.04}, "9 of 10 values, 92 % in values 4 to 6"},
  };
  for (const Placed& one : cases) {
    Warehouse w;
    w.add(prefill("attn_out", 3, 1).length(one.n), decode("attn_out", 3, 2).length(one.n));
    DifferenceRow row = slight(w);
    row.n = one.n;
    row.differing = one.differing;
    row.first_at = one.first_at;
    row.last_at = one.last_at;
    row.max_abs_at = one.first_at;
    row.heads = one.heads;
    row.shares = one.shares;
    add(w, row);
    EXPECT_EQ(w.rows("SELECT location FROM pair"), std::string(one.location) + "");
  }
}

TEST(Difference, IsSaidWhereARunFirstFails) {
  Warehouse w;
  w.run({.dtype = "f32"});
  w.drift("attn_out", 3);
  add(w, slight(w, 0.21));
  EXPECT_EQ(w.rows("SELECT details FROM first_fail"),
            "DRIFT DIVERGENT rel_l2=0.21 exact, every value: prefill 1, decode 2");
}

TEST(Difference, OfTwoRunsIsAnEstimate) {
  Warehouse w;
  w.run({.name = "a"});
  w.add(prefill("attn_out", 3, 1).sketched({2, 0, 0, 0}));
  w.run({.name = "b"});
  w.add(prefill("attn_out", 3, 2).sketched({1, 0, 0, 0}));
  EXPECT_EQ(w.rows("SELECT measure FROM run_diff WHERE run_a = 'a' AND run_b = 'b'"), "sketch");
}

}  // namespace
}  // namespace greta
