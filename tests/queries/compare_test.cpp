// Runs beside each other (run_diff, diff_verdict).
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

/// run a, then run b: what a test adds after each call belongs to it.
struct TwoRuns : Warehouse {
  void a() { run({.name = "a"}); }
  void b(const std::string& algo = "greta-1") { run({.name = "b", .hash_algo = algo}); }
  std::string diff(const std::string& columns = "tensor, status, class") {
    return rows("SELECT " + columns +
                " FROM run_diff WHERE run_a = 'a' AND run_b = 'b'"
                " ORDER BY prompt, phase, pos_id, layer < 0, layer, tensor_id, status");
  }
};

TEST(RunDiff, SamePhaseRowsOfTwoRuns) {
  TwoRuns w;
  w.a();
  w.add(prefill("attn_out", 0, 1), decode("attn_out", 0, 2), prefill("mlp_out", 0, 3));
  w.b();
  w.add(prefill("attn_out", 0, 1), decode("attn_out", 0, 9), prefill("x_out", 0, 3));
  EXPECT_EQ(w.diff("run_a, run_b, prompt, phase, pos_id, layer, tensor, status, class, rel_l2"),
            "a|b|p0|decode0|37|0|attn_out|DRIFT|UNKNOWN|-\n"
            "a|b|p0|prefill_last|37|0|attn_out|MATCH|-|0.0\n"
            "a|b|p0|prefill_last|37|0|mlp_out|ONLY_A|-|-\n"
            "a|b|p0|prefill_last|37|0|x_out|ONLY_B|-|-");
}

constexpr int64_t kTensorFlag = 32;

/// A row that covers a whole tensor.
Row whole(std::string tensor, std::optional<uint64_t> hash = {}) {
  return Row{.tensor = std::move(tensor), .phase = "forward", .hash = hash}.at(-1).flagged(
      kTensorFlag);
}

TEST(RunDiff, RowsOfWholeTensorsAreComparedByStep) {
  TwoRuns w;
  w.a();
  w.add(whole("x", 1), whole("x", 2).step(1), whole("y", 3), whole("z", 4).averaging(1));
  w.b();
  w.add(whole("x", 1), whole("x", 9).step(1), whole("z", 4).averaging(1));
  EXPECT_EQ(w.diff("phase, pos_id, tensor, status, class, scope"),
            "forward|-|x|DRIFT|UNKNOWN|tensor\nforward|-|x|MATCH|-|tensor\n"
            "forward|-|y|ONLY_A|-|tensor\nforward|-|z|MATCH|-|tensor");
  EXPECT_EQ(w.rows("SELECT verdict, match, unknown, only_a FROM diff_verdict WHERE run_a = 'a' AND"
                   " run_b = 'b'"),
            "FAIL|2|1|1");
}

TEST(RunDiff, StatisticsOfWholeTensorsTellADifferenceAndNoMatch) {
  TwoRuns w;
  w.a();
  w.add(whole("x").up_to(1), whole("y").up_to(1), whole("z"));
  w.b();
  w.add(whole("x").up_to(1), whole("y").up_to(1.001), whole("z").averaging(2));
  EXPECT_EQ(w.diff(), "x|INCOMPARABLE|-\ny|DRIFT|UNKNOWN\nz|INCOMPARABLE|-");
}

TEST(RunDiff, HashesThatKnowNoOrderMatchNothing) {
  TwoRuns w;
  w.run({.name = "a", .hash_algo = "torch-xor"});
  w.add(whole("x", 1), whole("y", 1));
  w.b("torch-xor");
  w.add(whole("x", 1), whole("y", 2));
  EXPECT_EQ(w.diff(), "x|INCOMPARABLE|-\ny|DRIFT|UNKNOWN");
}

TEST(RunDiff, HashesOfAnotherToolCoverAllValues) {
  TwoRuns w;
  w.run({.name = "a", .hash_algo = "crc-32"});
  w.add(whole("x", 1).length(5000), whole("y", 1));
  w.b("crc-32");
  w.add(whole("x", 1).length(5000), whole("y", 2));
  w.run({.name = "c", .hash_algo = "md5"});
  w.add(whole("x", 1).length(5000), whole("y", 2));
  EXPECT_EQ(w.diff(), "x|MATCH|-\ny|DRIFT|UNKNOWN");
  EXPECT_EQ(
      w.rows("SELECT tensor, status FROM run_diff WHERE run_a = 'a' AND run_b = 'c' ORDER BY 1"),
      "x|INCOMPARABLE\ny|INCOMPARABLE");
}

TEST(RunVerdict, RowsOfWholeTensorsAreNoEvidence) {
  Warehouse w;
  w.run();
  w.add(whole("attn_out", 1), whole("attn_out", 1).in("backward"));
  EXPECT_EQ(w.rows("SELECT verdict, numeric_verdict, pairs, missing FROM run_verdict"),
            "NO_EVIDENCE|NO_EVIDENCE|0|0");
  w.match("attn_out", 0);
  EXPECT_EQ(w.rows("SELECT verdict, pairs FROM run_verdict"), "PASS|1") << "nor do they harm any";
  w.add(whole("attn_out", 2).step(1).nans(1));
  EXPECT_EQ(w.rows("SELECT verdict FROM run_verdict"), "FAIL");
}

TEST(RunDiff, ARunAndItselfAreNotTwo) {
  Warehouse w;
  w.drift("attn_out", 0);
  EXPECT_EQ(
      w.rows("SELECT phase, status FROM run_diff WHERE run_a = 'r' AND run_b = 'r' ORDER BY 1"),
      "");
  EXPECT_EQ(w.rows("SELECT verdict FROM diff_verdict WHERE run_a = 'r' AND run_b = 'r'"), "");
}

TEST(RunDiff, EveryStatus) {
  TwoRuns w;
  const std::vector<float> two = {2, 0}, one = {1, 0}, near = {1.999f, 0};
  w.a();
  w.add(prefill("embed_out", 0, 1), prefill("x_in", 0, 1).sketched(two),
        prefill("norm_out", 0, 1).sketched(two), prefill("q_proj", 0, 1),
        prefill("k_proj", 0, 1).nans(1), prefill("v_proj", 0, 1).token(5),
        prefill("q_post_rope", 0), prefill("k_post_rope", 0, 1), prefill("k_post_rope", 0, 2),
        prefill("v_cache", 0, 1), prefill("attn_out", 0).sampled(two),
        prefill("wo_out", 0).sampled(two), prefill("ffn_norm", 0, 1).length(7),
        prefill("mlp_out", 0).sketched(two), prefill("x_out", 0, 1).flagged(1));
  w.b();
  w.add(prefill("embed_out", 0, 1), prefill("x_in", 0, 2).sketched(one),
        prefill("norm_out", 0, 2).sketched(near), prefill("q_proj", 0, 2), prefill("k_proj", 0, 1),
        prefill("v_proj", 0, 1).token(6), prefill("q_post_rope", 0, 1),
        prefill("k_post_rope", 0, 1), prefill("k_cache", 0, 1), prefill("attn_out", 0).sampled(two),
        prefill("wo_out", 0).sampled(one), prefill("ffn_norm", 0, 1).length(8),
        prefill("mlp_out", 0).sketched(two), prefill("x_out", 0, 1));
  EXPECT_EQ(w.diff(),
            "embed_out|MATCH|-\n"
            "residual_pre_attn|DRIFT|DIVERGENT\n"
            "attn_norm_out|DRIFT|ROUNDING\n"
            "q_pre_rope|DRIFT|UNKNOWN\n"
            "k_pre_rope|NONFINITE|-\n"
            "v_proj|INCOMPARABLE|-\n"
            "q_post_rope|INCOMPARABLE|-\n"
            "k_post_rope|AMBIGUOUS|-\n"
            "k_cache|ONLY_B|-\n"
            "v_cache|ONLY_A|-\n"
            "attn_out|MATCH|-\n"
            "wo_out|DRIFT|DIVERGENT\n"
            "ffn_norm_in|INCOMPARABLE|-\n"
            "mlp_out|INCOMPARABLE|ROUNDING\n"
            "x_out|NONFINITE|-");
}

TEST(RunDiff, HashesOfDifferentAlgorithmsDoNotCompareButSamplesDo) {
  TwoRuns w;
  w.a();
  w.add(prefill("attn_out", 0, 1), prefill("mlp_out", 0, 1).sampled({1}),
        prefill("x_out", 0, 1).sampled({2}));
  w.b("fnv-256");
  w.add(prefill("attn_out", 0, 1), prefill("mlp_out", 0, 7).sampled({1}),
        prefill("x_out", 0, 1).sampled({1}));
  EXPECT_EQ(w.diff(), "attn_out|INCOMPARABLE|-\nmlp_out|MATCH|-\nx_out|DRIFT|DIVERGENT");
}

TEST(RunDiff, EqualPrefixHashWithDifferentSamplesIsDrift) {
  TwoRuns w;
  w.run({.name = "a", .hash_algo = "fnv-256"});
  w.add(prefill("attn_out", 0, 1).sampled({2}));
  w.b("fnv-256");
  w.add(prefill("attn_out", 0, 1).sampled({1}));
  EXPECT_EQ(w.diff("status, class, rel_l2"), "DRIFT|DIVERGENT|0.5");
}

TEST(RunDiff, AnotherNameOfTheTensorOrAnotherStepIsTheSameRow) {
  TwoRuns w;
  w.a();
  w.add(prefill("x_in", 0, 1), decode("x_in", 0, 1).step(1));
  w.b();
  w.add(prefill("residual_pre_attn", 0, 1), decode("rms_in", 0, 1).step(2));
  EXPECT_EQ(w.diff("phase, tensor, status"),
            "decode0|residual_pre_attn|MATCH\nprefill_last|residual_pre_attn|MATCH");
}

TEST(RunDiff, RowsThatRepeatAreOne) {
  TwoRuns w;
  w.a();
  w.add(prefill("x_in", 0, 1), prefill("residual_pre_attn", 0, 1));
  w.b();
  w.add(prefill("x_in", 0, 1), prefill("x_in", 0, 1).step(2), decode("x_in", 0, 1),
        decode("x_in", 0, 1).step(2));
  EXPECT_EQ(w.diff("phase, status"), "decode0|ONLY_B\nprefill_last|MATCH");
}

TEST(RunDiff, UnknownPositionsMeetByStep) {
  TwoRuns w;
  w.a();
  w.add(decode("logits_topk", -1, 1).at(-1).step(1), decode("logits_topk", -1, 2).at(-1).step(2));
  w.b();
  w.add(decode("logits_topk", -1, 1).at(-1).step(1), decode("logits_topk", -1, 3).at(-1).step(2),
        decode("logits_topk", -1, 3).at(-1).step(3));
  EXPECT_EQ(w.diff("pos_id, tensor, status"),
            "-|logits_topk|DRIFT\n-|logits_topk|MATCH\n-|logits_topk|ONLY_B");
}

TEST(RunDiff, PromptsMeetByName) {
  TwoRuns w;
  w.a();
  w.use_prompt("p0");
  w.add(prefill("attn_out", 0, 1));
  w.use_prompt("p1");
  w.add(prefill("attn_out", 0, 2));
  w.b();
  w.add(prefill("attn_out", 0, 2));
  EXPECT_EQ(w.diff("prompt, status"), "p0|ONLY_A\np1|MATCH");
}

TEST(RunDiff, HashesAreUnsigned) {
  TwoRuns w;
  w.a();
  w.add(prefill("attn_out", 0, 18446744073709551615u));
  w.b();
  w.add(prefill("attn_out", 0, 9223372036854775808u));
  EXPECT_EQ(w.diff("hash_a, hash_b"), "18446744073709551615|9223372036854775808");
}

TEST(RunDiff, ToleranceIsThatOfTheCoarserArithmetic) {
  Warehouse w;
  w.db.exec(
      "DELETE FROM tolerance; INSERT INTO tolerance VALUES (NULL, 'bf16', 0.6), (NULL, NULL, 0)");
  w.run({.name = "a", .dtype = "bf16"});
  w.add(prefill("attn_out", 0, 1).sketched({2}));
  w.run({.name = "b", .dtype = "f32"});
  w.add(prefill("attn_out", 0, 2).sketched({1}));
  EXPECT_EQ(w.rows("SELECT run_a, class FROM run_diff WHERE run_a <> run_b ORDER BY 1"),
            "a|ROUNDING\nb|ROUNDING");
  w.db.exec(
      "DELETE FROM tolerance; INSERT INTO tolerance VALUES (NULL, 'bf16', 0.4), (NULL, NULL, 0)");
  EXPECT_EQ(w.rows("SELECT run_a, class FROM run_diff WHERE run_a <> run_b ORDER BY 1"),
            "a|DIVERGENT\nb|DIVERGENT");
}

TEST(DiffVerdict, TwoRunsByTheWorstOfTheirRows) {
  const auto verdict_of = [](auto&& fill_b) {
    Warehouse w;
    w.run({.name = "a"});
    w.add(prefill("x_in", 0, 1), decode("x_in", 0, 1));
    w.run({.name = "b"});
    fill_b(w);
    return w.rows(
        "SELECT verdict, numeric_verdict, compared, match, unknown, nonfinite, only_a, only_b"
        " FROM diff_verdict WHERE run_a = 'a' AND run_b = 'b'");
  };
  EXPECT_EQ(verdict_of([](Warehouse& w) { w.add(prefill("x_in", 0, 1), decode("x_in", 0, 1)); }),
            "PASS|PASS|2|2|0|0|0|0");
  EXPECT_EQ(verdict_of([](Warehouse& w) { w.add(prefill("x_in", 0, 1), decode("x_in", 0, 2)); }),
            "FAIL|INCOMPARABLE|2|1|1|0|0|0");
  EXPECT_EQ(
      verdict_of([](Warehouse& w) { w.add(prefill("x_in", 0, 1).nans(1), decode("x_in", 0, 1)); }),
      "FAIL|FAIL|2|1|0|1|0|0");
  EXPECT_EQ(verdict_of([](Warehouse& w) { w.add(prefill("x_in", 0, 1)); }),
            "FAIL|FAIL|1|1|0|0|1|0");
  EXPECT_EQ(verdict_of([](Warehouse&) {}), "NO_EVIDENCE|NO_EVIDENCE|0|0|0|0|2|0");
  EXPECT_EQ(verdict_of([](Warehouse& w) { w.add(prefill("mlp_out", 3, 1)); }),
            "NO_EVIDENCE|NO_EVIDENCE|0|0|0|0|2|1");
}

}  // namespace
}  // namespace greta
