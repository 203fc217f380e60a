// drift: how far the phases of a run are apart at each trace point.
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

constexpr const char* kRows =
    "SELECT tensor, differ, rounding, divergent, nonfinite, printf('%.3g', rel_l2), layer, pos_id"
    " FROM drift WHERE run = 'r' ORDER BY ord";

TEST(Drift, CountsWhatDiffersAndNamesTheFurthest) {
  Warehouse w;
  w.match("x_in", 0);
  w.rounding("attn_out", 0);
  w.divergent("attn_out", 1);
  w.match("attn_out", 2);
  w.rounding("mlp_out", 3);
  EXPECT_EQ(w.rows(kRows), "attn_out|2|1|1|0|0.5|1|37\nmlp_out|1|1|0|0|0.001|3|37");
  EXPECT_EQ(w.rows("SELECT prompt, tolerance > 0 FROM drift WHERE tensor = 'mlp_out'"), "p0|1");
}

TEST(Drift, WhatNothingMeasuresHasNoDistance) {
  Warehouse w;
  w.drift("attn_out", 0);
  w.incomparable("mlp_out", 0);
  EXPECT_EQ(w.rows("SELECT tensor, differ, rounding, divergent, rel_l2 IS NULL FROM drift"
                   " ORDER BY ord"),
            "attn_out|1|0|0|1\nmlp_out|1|0|0|1");
}

TEST(Drift, CountsWhatIsNotFinite) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 7).nans(2), decode("attn_out", 0, 8));
  EXPECT_EQ(w.rows("SELECT tensor, differ, nonfinite FROM drift"), "attn_out|1|1");
}

TEST(Drift, RowsWithoutAPartnerAndEqualOnesAreNone) {
  Warehouse w;
  w.match("x_in", 0);
  w.add(prefill("attn_out", 0, 1));
  w.add(decode("mlp_out", 0, 1));
  w.run({.name = "empty"});
  EXPECT_EQ(w.rows("SELECT count(*) FROM drift"), "0");
}

TEST(Drift, EachRunHasItsOwn) {
  Warehouse w;
  w.divergent("attn_out", 0);
  w.run({.name = "s"});
  w.rounding("attn_out", 0);
  EXPECT_EQ(w.rows("SELECT run, divergent, rounding FROM drift ORDER BY run"), "r|1|0\ns|0|1");
  EXPECT_EQ(w.rows("SELECT divergent FROM drift WHERE run_id = 1"), "1");
}

}  // namespace
}  // namespace greta
