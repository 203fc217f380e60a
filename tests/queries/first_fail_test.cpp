// Where a run and its prompts fail first, what causes how much, and how it spreads.
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

std::string run_fail(Warehouse& w) {
  return w.rows("SELECT prompt, layer, tensor, first_fail FROM run_verdict");
}
std::string fails(Warehouse& w) {
  return w.rows("SELECT prompt, layer, tensor, first_fail FROM first_fail ORDER BY prompt_id");
}

TEST(FirstFail, ZeroPairsIsNoEvidence) {
  Warehouse w;
  w.run();
  EXPECT_EQ(fails(w), "");
  EXPECT_EQ(w.rows("SELECT verdict FROM run_verdict"), "NO_EVIDENCE");
}

TEST(FirstFail, APassingPromptHasNoRow) {
  Warehouse w;
  w.match("attn_out", 0);
  w.incomparable("mlp_out", 0);
  EXPECT_EQ(fails(w), "");
}

TEST(FirstFail, OneRowPerRunAndPrompt) {
  Warehouse w;
  w.add(prefill("attn_out", 3, 12).token(7), decode("attn_out", 3, 13).token(7));
  w.use_prompt("p1");
  w.match("attn_out", 3);
  EXPECT_EQ(w.rows("SELECT run, prompt, token_id, pos_id, layer, tensor, first_fail, root_cause,"
                   " first_drift_layer, first_drift_tensor, first_drift_cause, numeric_first_fail,"
                   " numeric_layer, numeric_tensor, numeric_origin FROM first_fail"),
            "r|p0|7|37|3|attn_out|ATTN_OUT_DRIFT|ATTENTION_COMPUTATION_MISMATCH|3|attn_out|"
            "ATTN_OUT_DRIFT|-|-|-|-");
  EXPECT_NE(w.rows("SELECT details FROM first_fail").find("prefill 12, decode 13"),
            std::string::npos);
}

TEST(FirstFail, ForwardOrderIsLayerThenTracePoint) {
  // Each drift comes before all those above it in this list.
  const std::pair<const char*, int> order[] = {
      {"gate_proj", -1},  {"logits", -1},    {"lm_head_in", 32}, {"final_norm", -1},
      {"hidden", 32},     {"embed_out", 32}, {"mystery", 31},    {"x_out", 31},
      {"x_in", 31},       {"attn_out", 1},   {"mystery", 0},     {"x_out", 0},
      {"x_after_mlp", 0}, {"mlp_out", 0},    {"ffn_norm", 0},    {"x_after_attn", 0},
      {"wo_out", 0},      {"attn_out", 0},   {"attn_probs", 0},  {"attn_scores", 0},
      {"v_cache", 0},     {"k_cache", 0},    {"k_post_rope", 0}, {"q_post_rope", 0},
      {"v_proj", 0},      {"k_proj", 0},     {"q_proj", 0},      {"norm_out", 0},
      {"rms_weight", 0},  {"rms_in", 0},     {"embed_out", 0},   {"embd_w_hash", 0}};
  Warehouse w;
  for (const auto& [tensor, layer] : order) {
    w.drift(tensor, layer);
    const std::string expected = std::string("p0|") + std::to_string(layer) + "|" + tensor;
    EXPECT_EQ(w.rows("SELECT prompt, layer, tensor FROM run_verdict"), expected);
    EXPECT_EQ(w.rows("SELECT prompt, layer, tensor FROM first_fail"), expected);
    EXPECT_EQ(w.rows("SELECT prompt, layer, tensor FROM propagation LIMIT 1"), expected);
  }
}

TEST(FirstFail, TensorsAfterTheStackSortLast) {
  Warehouse w;
  w.drift("logits", -1);
  w.drift("x_out", 31);
  EXPECT_EQ(run_fail(w), "p0|31|x_out|X_OUT_DRIFT");
}

TEST(FirstFail, TiesGoToThePromptOfTheFirstNameWhicheverCameFirst) {
  Warehouse w;
  w.prompt_id("zeta");
  w.use_prompt("alpha");
  w.drift("attn_out", 2);
  w.use_prompt("zeta");
  w.drift("attn_out", 2);
  EXPECT_EQ(run_fail(w), "alpha|2|attn_out|ATTN_OUT_DRIFT");
}

TEST(FirstFail, TracePointsOfOneOrdAreATie) {
  Warehouse w;  // logits and logits_top1 are both at 210
  w.use_prompt("p0");
  w.drift("logits_top1", -1);
  w.use_prompt("p1");
  w.drift("logits", -1);
  EXPECT_EQ(run_fail(w), "p0|-1|logits_top1|LOGITS_DRIFT");
}

TEST(FirstFail, PromptOrderDoesNotOutweighForwardOrder) {
  Warehouse w;
  w.use_prompt("p0");
  w.drift("mlp_out", 2);
  w.use_prompt("p1");
  w.drift("attn_out", 2);
  EXPECT_EQ(run_fail(w), "p1|2|attn_out|ATTN_OUT_DRIFT");
  EXPECT_EQ(fails(w), "p0|2|mlp_out|MLP_OUT_DRIFT\np1|2|attn_out|ATTN_OUT_DRIFT");
}

TEST(FirstFail, OfOneTracePointTheEarliestPositionIsShown) {
  Warehouse w;
  for (int pos : {39, 38}) {
    w.add(prefill("attn_out", 0, 1).at(pos).token(pos),
          decode("attn_out", 0, 2).at(pos).token(pos));
  }
  w.match("attn_out", 0);
  EXPECT_EQ(w.rows("SELECT pos_id, token_id FROM first_fail"), "38|38");
  EXPECT_EQ(w.rows("SELECT pos_id, token_id FROM run_verdict"), "38|38");
}

TEST(FirstFail, MissingRowsOutrankAnEarlierDriftAndKeepIt) {
  Warehouse w;
  w.drift("attn_out", 0);
  w.add(prefill("mlp_out", 5, 1), decode("mlp_out", 6, 1));
  EXPECT_EQ(w.rows("SELECT layer, tensor, first_fail, root_cause, first_drift_layer,"
                   " first_drift_tensor, first_drift_cause, details FROM first_fail"),
            "5|mlp_out|TRACE_OFFSET|PAIRING_MISMATCH|0|attn_out|ATTN_OUT_DRIFT|"
            "2 rows have no partner");
  EXPECT_EQ(run_fail(w), "p0|5|mlp_out|TRACE_OFFSET");
}

TEST(FirstFail, RunIsTraceOffsetIfAnyPromptIs) {
  Warehouse w;
  w.drift("attn_out", 0);
  w.use_prompt("p1");
  w.drift("attn_out", 0);
  w.add(prefill("logits", -1, 1));
  EXPECT_EQ(fails(w), "p0|0|attn_out|ATTN_OUT_DRIFT\np1|-1|logits|TRACE_OFFSET");
  EXPECT_EQ(run_fail(w), "p1|-1|logits|TRACE_OFFSET");
}

TEST(FirstFail, NonfiniteAndAmbiguousPairsFailToo) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1).nans(2).infs(1), decode("attn_out", 0, 1).nans(2).infs(1));
  w.use_prompt("p1");
  w.add(prefill("attn_out", 1, 1), prefill("attn_out", 1, 2), decode("attn_out", 1, 1));
  EXPECT_EQ(w.rows("SELECT prompt, layer, first_fail, numeric_first_fail, numeric_layer FROM"
                   " first_fail ORDER BY prompt_id"),
            "p0|0|ATTN_OUT_DRIFT|ATTN_OUT_DRIFT|0\np1|1|AMBIGUOUS_TRACE|AMBIGUOUS_TRACE|1");
}

TEST(FirstFail, ShowsTheNameThatPrefillWrote) {
  Warehouse w;
  w.add(prefill("x_in", 0, 1), decode("residual_pre_attn", 0, 2));
  EXPECT_EQ(run_fail(w), "p0|0|x_in|X_IN_DRIFT");
  EXPECT_EQ(w.rows("SELECT tensor, first_drift_tensor FROM first_fail"), "x_in|x_in");
}

TEST(FirstFail, MissingDecodeRowShowsTheNameThatDecodeWrote) {
  Warehouse w;
  w.match("attn_out", 0);
  w.add(decode("x_after_mlp", 0, 1));
  EXPECT_EQ(run_fail(w), "p0|0|x_after_mlp|TRACE_OFFSET");
}

TEST(FirstFail, RopeCauseReachesTheVerdict) {
  Warehouse w;
  w.match("q_pre_rope", 0);
  w.drift("q_post_rope", 0);
  EXPECT_EQ(run_fail(w), "p0|0|q_post_rope|ROPE_DRIFT");
  EXPECT_EQ(w.rows("SELECT cause, count FROM failure_breakdown"), "ROPE_DRIFT|1");
}

TEST(FirstFail, WhatDivergesBehindRoundingHasTheCauseOfTheSwitch) {
  Warehouse w;
  w.rounding("q_pre_rope", 0);
  w.divergent("q_post_rope", 0);
  w.rounding("q_pre_rope", 1);
  w.rounding("q_post_rope", 1);
  w.divergent("q_pre_rope", 2);
  w.divergent("q_post_rope", 2);
  w.rounding("q_pre_rope", 3);
  w.add(prefill("q_post_rope", 3, 1), decode("q_post_rope", 3, 2).nans(1));
  w.drift("q_pre_rope", 4);  // unmeasured
  w.divergent("q_post_rope", 4);
  EXPECT_EQ(w.rows("SELECT numeric_first_fail, numeric_layer, numeric_tensor FROM first_fail"),
            "ROPE_DRIFT|0|q_post_rope");
  EXPECT_EQ(w.rows("SELECT layer, cause FROM pair WHERE tensor = 'q_post_rope' ORDER BY layer"),
            "0|ROPE_DRIFT\n1|Q_POST_ROPE_DRIFT\n2|Q_POST_ROPE_DRIFT\n3|ROPE_DRIFT\n"
            "4|Q_POST_ROPE_DRIFT");
}

TEST(FirstFail, NumericColumnsAreOfTheFirstDivergentPairOfThePrompt) {
  Warehouse w;
  w.rounding("x_in", 0);
  w.rounding("x_in", 4);
  w.divergent("attn_out", 4);
  w.use_prompt("p1");
  w.rounding("x_in", 0);
  EXPECT_EQ(
      w.rows("SELECT prompt, first_fail, strict_first_fail, numeric_first_fail, numeric_layer,"
             " numeric_tensor, numeric_origin, verdict FROM first_fail"),
      "p0|ATTN_OUT_DRIFT|X_IN_DRIFT|ATTN_OUT_DRIFT|4|attn_out|ORIGIN|FAIL");
  // what differs by rounding alone is no fail, and is kept
  EXPECT_EQ(w.rows("SELECT item, verdict, strict_verdict, first_fail, strict_first_fail,"
                   " numeric_first_fail FROM verdict WHERE level = 'prompt' ORDER BY item"),
            "p0|FAIL|FAIL|ATTN_OUT_DRIFT|X_IN_DRIFT|ATTN_OUT_DRIFT\n"
            "p1|PASS|FAIL|-|X_IN_DRIFT|-");
}

TEST(FailureBreakdown, CountsByCauseWithPercentOfAllPairs) {
  Warehouse w;
  w.match("embed_out", 0);
  w.incomparable("v_proj", 0);
  for (int layer : {0, 1, 2}) w.drift("attn_out", layer);
  for (int layer : {1, 2}) w.drift("x_in", layer);
  w.drift("rms_in", 3);
  w.add(decode("hidden", -1, 1).at(40));  // no comparison
  EXPECT_EQ(w.rows("SELECT run, cause, count, percent FROM failure_breakdown"),
            "r|ATTN_OUT_DRIFT|3|37.5\nr|X_IN_DRIFT|2|25.0\nr|RMS_IN_DRIFT|1|12.5");
}

TEST(FailureBreakdown, CountsBeyondRoundingAreOfTheNumericVerdict) {
  Warehouse w;
  for (int layer : {0, 1}) w.rounding("attn_out", layer);
  w.divergent("attn_out", 2);
  w.drift("x_in", 3);  // unmeasured
  w.add(prefill("mlp_out", 0, 1), decode("mlp_out", 0, 2).nans(1));
  w.add(prefill("wo_out", 0, 1));
  w.rounding("x_in", 0);
  w.match("embed_out", 0);
  EXPECT_EQ(w.rows("SELECT cause, count, percent, numeric_count, numeric_percent"
                   " FROM failure_breakdown ORDER BY cause"),
            "ATTN_OUT_DRIFT|3|37.5|1|12.5\nMLP_OUT_DRIFT|1|12.5|1|12.5\n"
            "TRACE_OFFSET|1|12.5|1|12.5\nX_IN_DRIFT|2|25.0|0|0.0");
}

TEST(FailureBreakdown, CountsMissingRowsAsTraceOffset) {
  Warehouse w;
  w.match("embed_out", 0);
  w.add(prefill("attn_out", 0, 1));
  EXPECT_EQ(w.rows("SELECT cause, count FROM failure_breakdown"), "TRACE_OFFSET|1");
}

TEST(FailureBreakdown, ZeroPairsDivideByNothing) {
  Warehouse w;
  w.run();
  EXPECT_EQ(w.rows("SELECT * FROM failure_breakdown"), "");
  w.add(prefill("attn_out", 0, 1), prefill("mlp_out", 0, 1));
  EXPECT_EQ(w.rows("SELECT cause, count FROM failure_breakdown"), "TRACE_OFFSET|2");
}

TEST(FailureBreakdown, RunsDoNotMix) {
  Warehouse w;
  w.run({.name = "a"});
  w.drift("attn_out", 0);
  w.run({.name = "b"});
  w.drift("attn_out", 0);
  w.match("mlp_out", 0);
  EXPECT_EQ(w.rows("SELECT run, percent FROM failure_breakdown ORDER BY run"), "a|100.0\nb|50.0");
}

TEST(Propagation, ForwardOrderWithOriginAndCause) {
  Warehouse w;
  w.drift("logits", -1);
  w.drift("mlp_out", 0);
  w.drift("attn_out", 0);
  w.drift("x_in", 1);
  w.match("x_in", 0);
  w.add(prefill("embed_out", 0, 1).token(116), decode("embed_out", 0, 1).token(116));
  EXPECT_EQ(w.rows("SELECT run, prompt, layer, tensor, status, origin, caused_by FROM propagation"),
            "r|p0|0|embed_out|MATCH|-|-\n"
            "r|p0|0|x_in|MATCH|-|-\n"
            "r|p0|0|attn_out|DRIFT|ORIGIN|-\n"
            "r|p0|0|mlp_out|DRIFT|PROPAGATED|attn_out@0\n"
            "r|p0|1|x_in|DRIFT|PROPAGATED|attn_out@0\n"
            "r|p0|-1|logits|DRIFT|PROPAGATED|residual_pre_attn@1");
}

TEST(Propagation, ShowsWhatHasNoPartner) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1), decode("attn_out", 0, 1).at(38));
  EXPECT_EQ(w.rows("SELECT tensor, status, origin FROM propagation"),
            "attn_out|MISSING|-\nattn_out|DECODE_ONLY|-");
}

TEST(Propagation, EmbeddingWithoutALayerComesFirst) {
  Warehouse w;
  w.drift("x_in", 0);
  w.drift("embed_out", -1);
  EXPECT_EQ(w.rows("SELECT tensor FROM propagation"), "embed_out\nx_in");
  EXPECT_EQ(run_fail(w), "p0|-1|embed_out|EMBED_DRIFT");
}

}  // namespace
}  // namespace greta
