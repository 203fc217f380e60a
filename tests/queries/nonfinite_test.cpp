// Values that are not finite fail their run, wherever they are.
#include <tuple>

#include "tests/queries/warehouse.h"

namespace greta {
namespace {

std::string verdicts(Warehouse& w) {
  return w.rows("SELECT verdict, numeric_verdict, pairs, pass, fail, nonfinite FROM run_verdict");
}

TEST(Nonfinite, ARowThatHasNoPartnerFailsItsRun) {
  const Row rows[] = {
      decode("attn_out", 0, 5).in("decode").at(40).step(4).nans(1),
      decode("attn_out", 0, 5).in("decode").at(40).step(4).infs(1),
      decode("attn_out", 0, 5).in("decode").at(40).step(4).flagged(1),
      prefill("attn_out", 0, 5).in("prefill").at(3).nans(1),
      prefill("attn_out", 0, 5).in("prefill").at(-1).nans(1),
      decode("attn_out", 0, 5).at(-1).infs(2),
  };
  for (const Row& row : rows) {
    Warehouse w;
    w.match("x_in", 0);
    w.add(row);
    EXPECT_EQ(verdicts(w), "FAIL|FAIL|1|1|1|1") << row.phase << row.pos_id;
    EXPECT_EQ(w.rows("SELECT first_fail, layer, tensor, prompt, pos_id FROM run_verdict"),
              "ATTN_OUT_DRIFT|0|attn_out|p0|" +
                  (row.pos_id < 0 ? std::string("-") : std::to_string(row.pos_id)));
  }
}

TEST(Nonfinite, WithoutAPositionARowOfTheOtherSideDoesNotStandForIt) {
  for (const bool of_decode : {false, true}) {
    Warehouse w;
    w.match("x_in", 0);
    w.add(prefill("attn_out", 0, 1).at(-1).nans(of_decode ? 0 : 1));
    w.add(decode("attn_out", 0, 1).at(-1).nans(of_decode ? 1 : 0));
    EXPECT_EQ(w.rows("SELECT verdict FROM run_verdict"), "FAIL") << of_decode;
  }
}

TEST(Nonfinite, ItsPlaceIsThatOfTheFirstInForwardOrder) {
  Warehouse w;
  w.match("x_in", 0);
  for (int64_t pos : {40, 41}) {
    for (const char* tensor : {"x_in", "attn_out", "x_out"}) {
      const Row row = decode(tensor, 2, 5).in("decode").at(pos).step(pos - 36);
      w.add(pos == 41 && tensor != std::string("x_in") ? row.nans(3) : row);
    }
  }
  EXPECT_EQ(verdicts(w), "FAIL|FAIL|1|1|2|2");
  EXPECT_EQ(w.rows("SELECT decode_only, layer, tensor, pos_id, numeric_tensor, numeric_pos_id FROM"
                   " run_verdict"),
            "4|2|attn_out|41|attn_out|41");
  EXPECT_EQ(w.rows("SELECT details FROM first_fail"),
            "NONFINITE: nan=3 inf=0, in a row of decode that has no partner");
  EXPECT_EQ(w.rows("SELECT tensor, origin, caused_by, details FROM pair WHERE status = 'NONFINITE'"
                   " ORDER BY tensor_id"),
            "attn_out|ORIGIN|-|nan=3 inf=0, in a row without a partner\n"
            "x_out|PROPAGATED|attn_out@2|nan=3 inf=0, in a row without a partner");
}

TEST(Nonfinite, AMissingPartnerDoesNotHideIt) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1).nans(1), prefill("mlp_out", 0, 1));
  EXPECT_EQ(verdicts(w), "FAIL|FAIL|0|0|1|1");
}

TEST(Nonfinite, OnlyDocumentsStateItAndItFailsAllTheSame) {
  Warehouse w;
  w.match("x_in", 0);
  w.add(decode("attn_out", 0, 1).at(50).nans(1).flagged(8));
  EXPECT_EQ(verdicts(w), "FAIL|FAIL|1|1|1|1");
}

TEST(Nonfinite, ARowOfAnotherRunIsNotItsOwn) {
  Warehouse w;
  w.run({.name = "a"});
  w.match("x_in", 0);
  w.run({.name = "b"});
  w.match("x_in", 0);
  w.add(decode("attn_out", 0, 1).at(50).nans(1));
  EXPECT_EQ(w.rows("SELECT run, verdict FROM run_verdict ORDER BY run"), "a|PASS\nb|FAIL");
}

TEST(Nonfinite, FiniteRowsWithoutAPartnerAreCountedAsBefore) {
  Warehouse w;
  w.match("x_in", 0);
  w.add(decode("x_in", 0, 1).at(38).in("decode"), prefill("x_in", 0, 1).at(3).in("prefill"),
        decode("x_in", 0, 1).at(-1), prefill("x_in", 0, 1).at(-1));
  EXPECT_EQ(w.rows("SELECT verdict, pairs, fail, decode_only, prefill_only FROM run_verdict"),
            "PASS|1|0|1|1");
}

// ---- what double arithmetic refutes ----

void add_readout(Warehouse& w, int side, int pos, const std::string& errors) {
  w.db.exec(
      "INSERT INTO readout(run_id, prompt_id, side, step, pos_id, name_id, source_id, line,"
      " norm_error, logits_error) SELECT " +
      std::to_string(w.current_run()) + ", " + std::to_string(w.prompt_id("p0")) + ", " +
      std::to_string(side) + ", " + std::to_string(side) + ", " + std::to_string(pos) + ", id, " +
      std::to_string(w.trace_source()) + ", 1, " + errors +
      " FROM tensor_name WHERE name = 'logits'");
}

TEST(Refuted, AnErrorThatBothPhasesMakeAlikeFails) {
  Warehouse w;
  w.run({.dtype = "f32"});
  w.match("final_norm", -1);
  w.match("logits", -1);
  add_readout(w, 0, 37, "0.3, 1e-6");
  add_readout(w, 1, 37, "0.3, 1e-6");
  EXPECT_EQ(w.rows("SELECT verdict, numeric_verdict, pairs, pass, fail, first_fail, root_cause,"
                   " layer, tensor, pos_id FROM run_verdict"),
            "FAIL|FAIL|2|2|2|FINAL_NORM_REFUTED|NORMALIZATION_MISMATCH|-1|final_norm|37");
  EXPECT_EQ(w.rows("SELECT details FROM first_fail"),
            "REFUTED: prefill at step 0 is rel_l2=0.3 from double arithmetic");
  EXPECT_EQ(w.rows("SELECT cause, count FROM failure_breakdown"), "FINAL_NORM_REFUTED|2");
}

TEST(Refuted, LogitsBeyondTheToleranceOfTheRunsArithmeticFail) {
  for (const auto& [dtype, error, verdict] :
       {std::tuple("f32", "9e-5", "PASS"), std::tuple("f32", "2e-4", "FAIL"),
        std::tuple("f16", "2e-4", "PASS"), std::tuple("f16", "2e-2", "FAIL"),
        std::tuple("f16", "1e30", "FAIL"), std::tuple("f16", "NULL", "PASS")}) {
    Warehouse w;
    w.run({.dtype = dtype});
    w.match("logits", -1);
    add_readout(w, 1, 37, std::string("NULL, ") + error);
    EXPECT_EQ(w.rows("SELECT verdict FROM run_verdict"), verdict) << dtype << error;
  }
}

}  // namespace
}  // namespace greta
