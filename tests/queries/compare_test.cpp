// Runs beside each other (run_diff, history), rows as they are (trace) and what is said of runs.
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

TEST(RunDiff, ARunEqualsItself) {
  Warehouse w;
  w.drift("attn_out", 0);
  EXPECT_EQ(
      w.rows("SELECT phase, status FROM run_diff WHERE run_a = 'r' AND run_b = 'r' ORDER BY 1"),
      "decode0|MATCH\nprefill_last|MATCH");
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
            "ffn_norm_in|CONFLICT|-\n"
            "mlp_out|MATCH|-\n"
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

TEST(History, InOrderOfDate) {
  Warehouse w;
  w.run({.name = "2026-02-08/b/x",
         .experiment = "b",
         .mode = "kv_aligned",
         .date = "2026-02-08",
         .commit = "c2"});
  w.drift("attn_out", 3);
  w.run({.name = "2026-02-07/b/x", .experiment = "b", .date = "2026-02-07", .commit = "c1"});
  w.match("attn_out", 3);
  w.run({.name = "2026-02-08/a/x", .experiment = "a", .date = "2026-02-08"});
  w.run({.name = "2026-02-08/b/y", .experiment = "b", .date = "2026-02-08", .status = "running"});
  EXPECT_EQ(
      w.rows("SELECT experiment, mode, date, commit_sha, run, verdict, first_fail, layer, tensor,"
             " prompt FROM history"),
      "b|-|2026-02-07|c1|2026-02-07/b/x|PASS|-|-|-|-\n"
      "a|-|2026-02-08|-|2026-02-08/a/x|NO_EVIDENCE|-|-|-|-\n"
      "b|kv_aligned|2026-02-08|c2|2026-02-08/b/x|FAIL|ATTN_OUT_DRIFT|3|attn_out|p0\n"
      "b|-|2026-02-08|-|2026-02-08/b/y|INCOMPLETE|-|-|-|-");
}

TEST(Trace, HashesAreUnsignedDecimalAtEveryEdge) {
  Warehouse w;
  w.add(decode("q_proj", 0, 0), decode("k_proj", 0, 9223372036854775807u),
        decode("v_proj", 0, 9223372036854775808u), decode("attn_out", 0, 18446744073709551615u),
        decode("mlp_out", 0, 14305319198029099000u), decode("x_out", 0));
  EXPECT_EQ(w.rows("SELECT tensor, hash, typeof(hash) FROM trace ORDER BY source_line"),
            "q_proj|0|text\nk_proj|9223372036854775807|text\nv_proj|9223372036854775808|text\n"
            "attn_out|18446744073709551615|text\nmlp_out|14305319198029099000|text\nx_out|-|null");
}

TEST(Trace, EveryNameSpelledOut) {
  Warehouse w;
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

TEST(Trace, WhatIsNotKnownIsNull) {
  Warehouse w;
  w.add(prefill("hidden", -1).at(-1).step(-1).length({}).nans({}).infs({}));
  EXPECT_EQ(
      w.rows(
          "SELECT step, pos_id, layer, token_id, logical_tok_idx, n, hash, min, max, mean,"
          " abs_sum, nan, inf, nz_count, route, mode, commit_sha, date, sample, extra FROM trace"),
      "-|-|-1|-|-|-|-|-|-|-|-|-|-|-|-|-|-|-|-|-");
}

TEST(Trace, CountsHowOftenARowWasSeen) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1), prefill("attn_out", 0, 2), decode("attn_out", 0, 1));
  w.db.exec(
      "INSERT INTO trace_repeat SELECT run_id, prompt_id, side, pos_id, layer, tensor_id,"
      " nth, 4 FROM trace_row WHERE side = 0 AND nth = 1");
  EXPECT_EQ(w.rows("SELECT phase, occurrence, hash, seen FROM trace ORDER BY phase, occurrence"),
            "decode0|0|1|1\nprefill_last|0|1|1\nprefill_last|1|2|5");
}

TEST(Trace, KeepsTheSample) {
  Warehouse w;
  w.add(prefill("attn_out", 0).sampled({1, -2}).flagged(2), prefill("mlp_out", 0).sketched({1}));
  EXPECT_EQ(w.rows("SELECT tensor, sample_n, hex(sample), derived FROM trace ORDER BY source_line"),
            "attn_out|2|0000803F000000C0|1\nmlp_out|-||0");
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

TEST(StatedAttribute, HoldsForTheRunsBelowALevelWhateverTheirNames) {
  Warehouse w;
  for (const char* name :
       {"a", "a/b", "a/b/c", "a/", "a//b", "ab/c", "a/\"\\\x01\xc3\xa9", "A/b"}) {
    SQLite::Statement run(w.db, "INSERT INTO run(name, experiment) VALUES (?, 'e')");
    run.bind(1, name);
    run.exec();
  }
  w.db.exec(
      "INSERT INTO attribute(run_id, dim, value, rank) SELECT id, 'seed', 'of ' || name, 0 FROM "
      "run");
  const auto said_of = [&w](const std::string& run) {
    SQLite::Statement levels(
        w.db,
        "SELECT group_concat(said_of, ' ') FROM (SELECT said_of FROM stated_attribute"
        " WHERE run = ? AND value = 'of ' || said_of ORDER BY believed)");
    levels.bind(1, run);
    levels.executeStep();
    return levels.getColumn(0).getString();
  };
  EXPECT_EQ(said_of("a"), "a");
  EXPECT_EQ(said_of("a/b"), "a/b a");
  EXPECT_EQ(said_of("a/b/c"), "a/b/c a/b a");
  EXPECT_EQ(said_of("a/"), "a/ a");
  EXPECT_EQ(said_of("a//b"), "a//b a/ a");
  EXPECT_EQ(said_of("ab/c"), "ab/c");
  EXPECT_EQ(said_of("a/\"\\\x01\xc3\xa9"), "a/\"\\\x01\xc3\xa9 a");
  EXPECT_EQ(said_of("A/b"), "A/b");
}

}  // namespace
}  // namespace greta
