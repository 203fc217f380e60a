// drift: how far the phases of a run are apart at each trace point.
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

constexpr const char* kRows =
    "SELECT tensor, differ, rounding, divergent, nonfinite, printf('%.3g', rel_l2), layer, pos_id"
    " FROM drift WHERE run = 'r' ORDER BY ord";

TEST(Drift, CountsWhatDiffersAndNamesTheFurthest) {
  Warehouse w;
  w.pairs(
      "match x_in 0; rounding attn_out 0; divergent attn_out 1; match attn_out 2;"
      "rounding mlp_out 3; drift wo_out 0; incomparable v_proj 0; nonfinite k_cache 0;"
      "missing x_out 0");
  w.run({.name = "empty"});
  w.run({.name = "s"});
  w.rounding("attn_out", 0);
  EXPECT_EQ(w.rows(kRows),
            "v_proj|1|0|0|0|0|0|37\nk_cache|1|0|0|1|0|0|37\nattn_out|2|1|1|0|0.5|1|37\n"
            "wo_out|1|0|0|0|0|0|37\nmlp_out|1|1|0|0|0.001|3|37");
  EXPECT_EQ(w.rows("SELECT tensor FROM drift WHERE run = 'r' AND rel_l2 IS NULL ORDER BY ord"),
            "v_proj\nk_cache\nwo_out");
  EXPECT_EQ(w.rows("SELECT prompt, tolerance > 0 FROM drift WHERE tensor = 'mlp_out'"), "p0|1");
  EXPECT_EQ(w.rows("SELECT run, tensor, rounding FROM drift WHERE run_id > 1"), "s|attn_out|1");
}

}  // namespace
}  // namespace greta
