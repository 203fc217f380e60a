// Rows as they are (trace).
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

using Trace = WarehouseTest;

TEST_F(Trace, HashesAreUnsignedDecimalAtEveryEdge) {
  w.add(decode("q_proj", 0, 0), decode("k_proj", 0, 9223372036854775807u),
        decode("v_proj", 0, 9223372036854775808u), decode("attn_out", 0, 18446744073709551615u),
        decode("mlp_out", 0, 14305319198029099000u), decode("x_out", 0));
  EXPECT_EQ(w.rows("SELECT tensor, hash, typeof(hash) FROM trace ORDER BY source_line"),
            "q_proj|0|text\nk_proj|9223372036854775807|text\nv_proj|9223372036854775808|text\n"
            "attn_out|18446744073709551615|text\nmlp_out|14305319198029099000|text\nx_out|-|null");
}

TEST_F(Trace, EveryNameSpelledOut) {
  w.run({.name = "2026-02-05/b3_59",
         .experiment = "b3_59",
         .mode = "as_designed",
         .date = "2026-02-05",
         .commit = "56b755a"});
  w.add(prefill("x_in", 4, 7).token(116).logical(2).averaging(0.5).nans(1).infs(2));
  w.db.exec(
      "INSERT INTO row_context(id, route, extra) VALUES (1, 'MFMA', '{}');"
      "UPDATE trace_row SET min = -1.5, max = 2.5, abs_sum = 4, nz_count = 3, context_id = 1");
  EXPECT_EQ(
      w.rows("SELECT run, experiment, mode, commit_sha, date, prompt, phase, step, pos_id,"
             " layer, tensor, token_id, logical_tok_idx, n, hash, min, max, mean, abs_sum, nan,"
             " inf, nz_count, route, source_file, source_line, canonical_tensor, side, seen"
             " FROM trace"),
      "2026-02-05/b3_59|b3_59|as_designed|56b755a|2026-02-05|p0|prefill_last|0|37|4|x_in|116|2|4|"
      "7|-1.5|2.5|0.5|4.0|1|2|3|MFMA|trace1|1|residual_pre_attn|prefill|1");
}

TEST_F(Trace, KeepsTheSample) {
  w.add(prefill("attn_out", 0).sampled({1, -2}).flagged(2), prefill("mlp_out", 0).sketched({1}));
  EXPECT_EQ(w.rows("SELECT tensor, sample_n, hex(sample), derived FROM trace ORDER BY source_line"),
            "attn_out|2|0000803F000000C0|1\nmlp_out|-||0");
}

}  // namespace
}  // namespace greta
