// Where a run and its prompts fail first, what causes how much, and how it spreads.
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

/// "prompt|layer|tensor|first_fail" of the run, and of each prompt that fails.
void expect_first(Warehouse& w, const std::string& of_run, const std::string& of_prompts) {
  EXPECT_EQ(w.rows("SELECT prompt, layer, tensor, first_fail FROM run_verdict"), of_run);
  EXPECT_EQ(w.rows("SELECT prompt, layer, tensor, first_fail FROM first_fail ORDER BY prompt_id"),
            of_prompts);
}

/// Pairs of prompts p0, p1, ....
void expect_first(const std::vector<const char*>& prompts, const std::string& of_run,
                  const std::string& of_prompts) {
  Warehouse w;
  int nth = 0;
  for (const char* pairs : prompts) {
    SCOPED_TRACE(pairs);
    w.use_prompt("p" + std::to_string(nth++));
    w.pairs(pairs);
  }
  expect_first(w, of_run, of_prompts);
}
void expect_first(const char* pairs, const std::string& expected) {
  expect_first({pairs}, expected, expected);
}

using FirstFail = WarehouseTest;

TEST_F(FirstFail, IsTheFirstOfThePromptInForwardOrder) {
  expect_first({"match attn_out 0; incomparable mlp_out 0"}, "-|-|-|-", "");
  expect_first("drift logits -1; drift x_out 31", "p0|31|x_out|X_OUT_DRIFT");
  expect_first("drift x_in 0; drift embed_out -1", "p0|-1|embed_out|EMBED_DRIFT");
  expect_first("match q_pre_rope 0; drift q_post_rope 0", "p0|0|q_post_rope|ROPE_DRIFT");
  expect_first({"drift mlp_out 2", "drift attn_out 2"}, "p1|2|attn_out|ATTN_OUT_DRIFT",
               "p0|2|mlp_out|MLP_OUT_DRIFT\np1|2|attn_out|ATTN_OUT_DRIFT");
  // logits and logits_top1 are both at 210: a tie
  expect_first({"drift logits_top1 -1", "drift logits -1"}, "p0|-1|logits_top1|LOGITS_DRIFT",
               "p0|-1|logits_top1|LOGITS_DRIFT\np1|-1|logits|LOGITS_DRIFT");
  // any row that is missing comes before
  expect_first({"drift attn_out 0", "drift attn_out 0; missing logits -1"},
               "p1|-1|logits|TRACE_OFFSET",
               "p0|0|attn_out|ATTN_OUT_DRIFT\np1|-1|logits|TRACE_OFFSET");
  expect_first("nonfinite attn_out 0; ambiguous mlp_out 0", "p0|0|attn_out|ATTN_OUT_DRIFT");
  expect_first("ambiguous attn_out 0", "p0|0|attn_out|AMBIGUOUS_TRACE");
  // by the name that prefill wrote, or decode where prefill has none
  Warehouse renamed, lone;
  renamed.add(prefill("x_in", 0, 1), decode("residual_pre_attn", 0, 2));
  expect_first(renamed, "p0|0|x_in|X_IN_DRIFT", "p0|0|x_in|X_IN_DRIFT");
  lone.match("attn_out", 0);
  lone.add(decode("x_after_mlp", 0, 1));
  expect_first(lone, "p0|0|x_after_mlp|TRACE_OFFSET", "p0|0|x_after_mlp|TRACE_OFFSET");
}

TEST_F(FirstFail, ShowsAllColumns) {
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

TEST_F(FirstFail, ForwardOrderIsLayerThenTracePoint) {
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
  for (const auto& [tensor, layer] : order) {
    w.drift(tensor, layer);
    const std::string expected = std::string("p0|") + std::to_string(layer) + "|" + tensor;
    EXPECT_EQ(w.rows("SELECT prompt, layer, tensor FROM run_verdict"), expected);
    EXPECT_EQ(w.rows("SELECT prompt, layer, tensor FROM propagation LIMIT 1"), expected);
  }
}

TEST(FirstFailTies, GoToTheFirstPositionThenByTheSuiteOrTheNameWhereFilesComeInAnyOrder) {
  struct Case {
    const char* status;
    int position_of_alpha;
    const char* expected;
  };
  for (const Case& one : std::vector<Case>{{"unknown", 37, "alpha|zeta"},
                                           {"unknown", 36, "alpha|zeta"},
                                           {"unknown", 38, "zeta|alpha"},
                                           {"complete", 37, "zeta|alpha"},
                                           {"complete", 36, "alpha|zeta"},
                                           {"failed", 37, "zeta|alpha"}}) {
    SCOPED_TRACE(std::string(one.status) + " " + std::to_string(one.position_of_alpha));
    Warehouse w;
    w.run({.status = one.status});
    w.prompt_id("zeta");  // the first of the suite
    for (const std::string prompt : {"alpha", "zeta"}) {
      w.use_prompt(prompt);
      const int pos = prompt == "alpha" ? one.position_of_alpha : 37;
      w.add(prefill("attn_out", 2, 1).at(pos), decode("attn_out", 2, 2).at(pos));
    }
    EXPECT_EQ(w.rows("SELECT v.prompt, f.prompt FROM run_verdict v JOIN first_fail f"
                     " ON f.run_id = v.run_id AND NOT f.leads"),
              one.expected);
  }
}

TEST_F(FirstFail, OfOneTracePointTheEarliestPositionIsShown) {
  for (int pos : {39, 38}) {
    w.add(prefill("attn_out", 0, 1).at(pos).token(pos),
          decode("attn_out", 0, 2).at(pos).token(pos));
  }
  w.match("attn_out", 0);
  EXPECT_EQ(w.rows("SELECT pos_id, token_id FROM first_fail"), "38|38");
  EXPECT_EQ(w.rows("SELECT pos_id, token_id FROM run_verdict"), "38|38");
}

TEST_F(FirstFail, MissingRowsOutrankAnEarlierDriftAndKeepIt) {
  w.drift("attn_out", 0);
  w.add(prefill("mlp_out", 5, 1), decode("mlp_out", 6, 1));
  EXPECT_EQ(w.rows("SELECT layer, tensor, first_fail, root_cause, first_drift_layer,"
                   " first_drift_tensor, first_drift_cause, details FROM first_fail"),
            "5|mlp_out|TRACE_OFFSET|PAIRING_MISMATCH|0|attn_out|ATTN_OUT_DRIFT|"
            "2 rows have no partner");
}

TEST_F(FirstFail, NumericColumnsAreOfTheFirstDivergentPairOfThePrompt) {
  w.pairs("rounding x_in 0; rounding x_in 4; divergent attn_out 4");
  w.use_prompt("p1");
  w.rounding("x_in", 0);
  EXPECT_EQ(
      w.rows("SELECT prompt, first_fail, strict_first_fail, numeric_first_fail, numeric_layer,"
             " numeric_tensor, numeric_origin, verdict FROM first_fail"),
      "p0|ATTN_OUT_DRIFT|X_IN_DRIFT|ATTN_OUT_DRIFT|4|attn_out|ORIGIN|FAIL");
  EXPECT_EQ(w.rows("SELECT strict_first_fail, strict_layer, strict_tensor, numeric_first_fail,"
                   " numeric_layer, numeric_tensor, numeric_origin, first_fail, layer, tensor"
                   " FROM run_verdict"),
            "X_IN_DRIFT|0|x_in|ATTN_OUT_DRIFT|4|attn_out|ORIGIN|ATTN_OUT_DRIFT|4|attn_out");
}

using FailureBreakdown = WarehouseTest;

TEST_F(FailureBreakdown, CountsByCauseWithPercentOfAllPairs) {
  w.run({.name = "another"});
  w.drift("attn_out", 0);
  w.run();
  w.pairs(
      "rounding attn_out 0; rounding attn_out 1; divergent attn_out 2; drift x_in 3;"
      "nonfinite mlp_out 0; missing wo_out 0; rounding x_in 0; match embed_out 0");
  w.add(decode("hidden", -1, 1).at(40));  // no comparison
  EXPECT_EQ(w.rows("SELECT cause, count, percent, numeric_count, numeric_percent"
                   " FROM failure_breakdown WHERE run = 'r' ORDER BY cause"),
            "ATTN_OUT_DRIFT|3|37.5|1|12.5\nMLP_OUT_DRIFT|1|12.5|1|12.5\n"
            "TRACE_OFFSET|1|12.5|1|12.5\nX_IN_DRIFT|2|25.0|0|0.0");
}

TEST_F(FailureBreakdown, ZeroPairsDivideByNothing) {
  w.run();
  EXPECT_EQ(w.rows("SELECT * FROM failure_breakdown"), "");
  w.pairs("missing attn_out 0; missing mlp_out 0");
  EXPECT_EQ(w.rows("SELECT cause, count FROM failure_breakdown"), "TRACE_OFFSET|2");
}

TEST(Propagation, ForwardOrderWithOriginAndCause) {
  Warehouse w;
  w.pairs(
      "drift logits -1; drift mlp_out 0; drift attn_out 0; drift x_in 1; match x_in 0;"
      "match embed_out 0");
  w.add(decode("attn_out", 0, 1).at(38));
  EXPECT_EQ(w.rows("SELECT run, prompt, layer, tensor, status, origin, caused_by FROM propagation"),
            "r|p0|0|embed_out|MATCH|-|-\n"
            "r|p0|0|x_in|MATCH|-|-\n"
            "r|p0|0|attn_out|DRIFT|ORIGIN|-\n"
            "r|p0|0|mlp_out|DRIFT|PROPAGATED|attn_out@0\n"
            "r|p0|1|x_in|DRIFT|PROPAGATED|attn_out@0\n"
            "r|p0|-1|logits|DRIFT|PROPAGATED|residual_pre_attn@1\n"
            "r|p0|0|attn_out|DECODE_ONLY|-|-");
}

}  // namespace
}  // namespace greta
