// Runs beside each other (run_diff, diff_verdict).
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

/// A run's rows, and how they are hashed.
struct HashedRows {
  std::vector<Row> rows;
  std::string hash_algo = "greta-1";
};

/// What run_diff shows of a run a and a run b.
std::string diff(const HashedRows& a, const HashedRows& b,
                 const std::string& columns = "tensor, status, class") {
  Warehouse w;
  for (const auto& [name, side] : {std::pair("a", &a), {"b", &b}}) {
    w.run({.name = name, .hash_algo = side->hash_algo});
    for (const Row& row : side->rows) w.add(row);
  }
  return w.rows("SELECT " + columns +
                " FROM run_diff WHERE run_a = 'a' AND run_b = 'b'"
                " ORDER BY prompt, phase, pos_id, layer < 0, layer, tensor_id, status");
}

/// A row that covers a whole tensor.
Row whole(std::string tensor, std::optional<uint64_t> hash = {}) {
  return Row{.tensor = std::move(tensor), .phase = "forward", .hash = hash}.at(-1).flagged(
      kFlagTensor);
}

using RunDiff = WarehouseTest;

TEST_F(RunDiff, SamePhaseRowsOfTwoRuns) {
  EXPECT_EQ(diff({{prefill("attn_out", 0, 1), decode("attn_out", 0, 2), prefill("mlp_out", 0, 3)}},
                 {{prefill("attn_out", 0, 1), decode("attn_out", 0, 9), prefill("x_out", 0, 3)}},
                 "run_a, run_b, prompt, phase, pos_id, layer, tensor, status, class, rel_l2"),
            "a|b|p0|decode0|37|0|attn_out|DRIFT|UNKNOWN|-\n"
            "a|b|p0|prefill_last|37|0|attn_out|MATCH|-|0.0\n"
            "a|b|p0|prefill_last|37|0|mlp_out|ONLY_A|-|-\n"
            "a|b|p0|prefill_last|37|0|x_out|ONLY_B|-|-");
}

TEST_F(RunDiff, RowsOfWholeTensorsAreComparedByStep) {
  EXPECT_EQ(
      diff({{whole("x", 1), whole("x", 2).step(1), whole("y", 3), whole("z", 4).averaging(1)}},
           {{whole("x", 1), whole("x", 9).step(1), whole("z", 4).averaging(1)}},
           "phase, pos_id, tensor, status, class, scope"),
      "forward|-|x|DRIFT|UNKNOWN|tensor\nforward|-|x|MATCH|-|tensor\n"
      "forward|-|y|ONLY_A|-|tensor\nforward|-|z|MATCH|-|tensor");
  // statistics tell a difference and no match
  EXPECT_EQ(diff({{whole("x").up_to(1), whole("y").up_to(1), whole("z")}},
                 {{whole("x").up_to(1), whole("y").up_to(1.001), whole("z").averaging(2)}}),
            "x|INCOMPARABLE|-\ny|DRIFT|UNKNOWN\nz|INCOMPARABLE|-");
}

TEST_F(RunDiff, HashesOfOtherTools) {
  const std::vector<Row> one = {whole("x", 1).length(5000), whole("y", 1)},
                         other = {whole("x", 1).length(5000), whole("y", 2)};
  EXPECT_EQ(diff({one, "torch-xor"}, {other, "torch-xor"}), "x|INCOMPARABLE|-\ny|DRIFT|UNKNOWN")
      << "knows no order";
  EXPECT_EQ(diff({one, "crc-32"}, {other, "crc-32"}), "x|MATCH|-\ny|DRIFT|UNKNOWN");
  EXPECT_EQ(diff({one, "crc-32"}, {other, "md5"}), "x|INCOMPARABLE|-\ny|INCOMPARABLE|-");
  // samples compare all the same
  EXPECT_EQ(diff({{prefill("attn_out", 0, 1), prefill("mlp_out", 0, 1).sampled({1}),
                   prefill("x_out", 0, 1).sampled({2})}},
                 {{prefill("attn_out", 0, 1), prefill("mlp_out", 0, 7).sampled({1}),
                   prefill("x_out", 0, 1).sampled({1})},
                  "fnv-256"}),
            "attn_out|INCOMPARABLE|-\nmlp_out|MATCH|-\nx_out|DRIFT|DIVERGENT");
  EXPECT_EQ(diff({{prefill("attn_out", 0, 1).sampled({2})}, "fnv-256"},
                 {{prefill("attn_out", 0, 1).sampled({1})}, "fnv-256"}, "status, class, rel_l2"),
            "CONFLICT|-|0.5");
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

TEST_F(RunDiff, ARunAndItselfAreNotTwo) {
  w.drift("attn_out", 0);
  EXPECT_EQ(
      w.rows("SELECT phase, status FROM run_diff WHERE run_a = 'r' AND run_b = 'r' ORDER BY 1"),
      "");
  EXPECT_EQ(w.rows("SELECT verdict FROM diff_verdict WHERE run_a = 'r' AND run_b = 'r'"), "");
}

TEST_F(RunDiff, EveryStatus) {
  const std::vector<float> two = {2, 0}, one = {1, 0}, near = {1.999f, 0};
  const HashedRows a = {{prefill("embed_out", 0, 1), prefill("x_in", 0, 1).sketched(two),
                         prefill("norm_out", 0, 1).sketched(two), prefill("q_proj", 0, 1),
                         prefill("k_proj", 0, 1).nans(1), prefill("v_proj", 0, 1).token(5),
                         prefill("q_post_rope", 0), prefill("k_post_rope", 0, 1),
                         prefill("k_post_rope", 0, 2), prefill("v_cache", 0, 1),
                         prefill("attn_out", 0).sampled(two), prefill("wo_out", 0).sampled(two),
                         prefill("ffn_norm", 0, 1).length(7), prefill("mlp_out", 0).sketched(two),
                         prefill("x_out", 0, 1).flagged(1)}};
  const HashedRows b = {{prefill("embed_out", 0, 1), prefill("x_in", 0, 2).sketched(one),
                         prefill("norm_out", 0, 2).sketched(near), prefill("q_proj", 0, 2),
                         prefill("k_proj", 0, 1), prefill("v_proj", 0, 1).token(6),
                         prefill("q_post_rope", 0, 1), prefill("k_post_rope", 0, 1),
                         prefill("k_cache", 0, 1), prefill("attn_out", 0).sampled(two),
                         prefill("wo_out", 0).sampled(one), prefill("ffn_norm", 0, 1).length(8),
                         prefill("mlp_out", 0).sketched(two), prefill("x_out", 0, 1)}};
  EXPECT_EQ(diff(a, b),
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

TEST_F(RunDiff, WhichRowsMeet) {
  // another name of the tensor, or another step
  EXPECT_EQ(diff({{prefill("x_in", 0, 1), decode("x_in", 0, 1).step(1)}},
                 {{prefill("residual_pre_attn", 0, 1), decode("rms_in", 0, 1).step(2)}},
                 "phase, tensor, status"),
            "decode0|residual_pre_attn|MATCH\nprefill_last|residual_pre_attn|MATCH");
  // rows that repeat are one
  EXPECT_EQ(diff({{prefill("x_in", 0, 1), prefill("residual_pre_attn", 0, 1)}},
                 {{prefill("x_in", 0, 1), prefill("x_in", 0, 1).step(2), decode("x_in", 0, 1),
                   decode("x_in", 0, 1).step(2)}},
                 "phase, status"),
            "decode0|ONLY_B\nprefill_last|MATCH");
  // without a position by step
  const Row row = decode("logits_topk", -1, 1).at(-1), other = decode("logits_topk", -1, 3).at(-1);
  EXPECT_EQ(diff({{row.step(1), row.step(2)}}, {{row.step(1), other.step(2), other.step(3)}},
                 "pos_id, tensor, status"),
            "-|logits_topk|DRIFT\n-|logits_topk|MATCH\n-|logits_topk|ONLY_B");
  // prompts by name
  EXPECT_EQ(diff({{prefill("attn_out", 0, 1), prefill("attn_out", 0, 2).of("p1")}},
                 {{prefill("attn_out", 0, 2).of("p1")}}, "prompt, status"),
            "p0|ONLY_A\np1|MATCH");
}

TEST_F(RunDiff, HashesAreUnsigned) {
  EXPECT_EQ(diff({{prefill("attn_out", 0, 18446744073709551615u)}},
                 {{prefill("attn_out", 0, 9223372036854775808u)}}, "hash_a, hash_b"),
            "18446744073709551615|9223372036854775808");
}

TEST_F(RunDiff, ToleranceIsThatOfTheCoarserArithmetic) {
  w.db.exec(
      "DELETE FROM tolerance; INSERT INTO tolerance VALUES (NULL, 'bf16', 0.6), (NULL, 'f32', 0)");
  w.run({.name = "a", .dtype = "bf16"});
  w.add(prefill("attn_out", 0, 1).sketched({2}));
  w.run({.name = "b", .dtype = "f32"});
  w.add(prefill("attn_out", 0, 2).sketched({1}));
  EXPECT_EQ(w.rows("SELECT run_a, class FROM run_diff WHERE run_a <> run_b ORDER BY 1"),
            "a|ROUNDING\nb|ROUNDING");
  w.db.exec(
      "DELETE FROM tolerance; INSERT INTO tolerance VALUES (NULL, 'bf16', 0.4), (NULL, 'f32', 0)");
  EXPECT_EQ(w.rows("SELECT run_a, class FROM run_diff WHERE run_a <> run_b ORDER BY 1"),
            "a|DIVERGENT\nb|DIVERGENT");
  w.db.exec("DELETE FROM tolerance; INSERT INTO tolerance VALUES (NULL, 'bf16', 0.6)");
  EXPECT_EQ(w.rows("SELECT run_a, class FROM run_diff WHERE run_a <> run_b ORDER BY 1"),
            "a|UNKNOWN\nb|UNKNOWN")
      << "no tolerance knows one of them";
}

TEST(DiffVerdict, TwoRunsByTheWorstOfTheirRows) {
  const Row p = prefill("x_in", 0, 1), d = decode("x_in", 0, 1);
  for (const auto& [rows, expected] :
       {std::pair(std::vector<Row>{p, d}, "PASS|PASS|2|2|0|0|0|0"),
        {{p, decode("x_in", 0, 2)}, "FAIL|INCOMPARABLE|2|1|1|0|0|0"},
        {{p.nans(1), d}, "FAIL|FAIL|2|1|0|1|0|0"},
        {{p}, "FAIL|FAIL|1|1|0|0|1|0"},
        {{}, "NO_EVIDENCE|NO_EVIDENCE|0|0|0|0|2|0"},
        {{prefill("mlp_out", 3, 1)}, "NO_EVIDENCE|NO_EVIDENCE|0|0|0|0|2|1"}}) {
    Warehouse w;
    w.run({.name = "a"});
    w.add(p, d);
    w.run({.name = "b"});
    for (const Row& row : rows) w.add(row);
    EXPECT_EQ(w.rows("SELECT verdict, numeric_verdict, compared, match, unknown, nonfinite, only_a,"
                     " only_b FROM diff_verdict WHERE run_a = 'a' AND run_b = 'b'"),
              expected);
  }
}

}  // namespace
}  // namespace greta
