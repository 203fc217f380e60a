// Which rows pair, and what a pair's status is: docs/design.md.
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

/// Every row of `pair`, in forward order.
std::string pairs(Warehouse& w) {
  return w.rows(
      "SELECT tensor, layer, pos_id, status, cause FROM pair"
      " ORDER BY prompt_id, layer < 0, layer, tensor_id, pos_id, token_id, status, prefill_hash");
}

TEST(Pair, NoRowsNoPairs) {
  Warehouse w;
  w.run();
  EXPECT_EQ(pairs(w), "");
}

TEST(Pair, EqualHashIsMatch) {
  Warehouse w;
  w.add(prefill("attn_out", 3, 7), decode("attn_out", 3, 7));
  EXPECT_EQ(w.rows("SELECT run, prompt, token_id, logical_tok_idx, pos_id, layer, tensor,"
                   " canonical_tensor, status, class, origin, scope, compared_n, cause,"
                   " prefill_hash, decode_hash, rel_l2 FROM pair"),
            "r|p0|-|-|37|3|attn_out|attn_out|MATCH|-|-|full|4|-|7|7|0.0");
}

TEST(Pair, UnequalHashIsDrift) {
  Warehouse w;
  w.add(prefill("attn_out", 3, 7), decode("attn_out", 3, 8));
  EXPECT_EQ(w.rows("SELECT status, class, origin, inputs_complete, scope, compared_n, cause,"
                   " root_cause, prefill_hash, decode_hash, rel_l2 FROM pair"),
            "DRIFT|UNKNOWN|UNSAMPLED|0|full|4|ATTN_OUT_DRIFT|ATTENTION_COMPUTATION_MISMATCH|7|8|-");
}

TEST(Pair, HashesAboveTwoToThe63AreUnsignedAndComparable) {
  Warehouse w;
  w.add(prefill("q_pre_rope", 0, 18446744073709551615u),
        decode("q_pre_rope", 0, 18446744073709551615u),
        prefill("k_pre_rope", 0, 9223372036854775808u),
        decode("k_pre_rope", 0, 9223372036854775807u), prefill("v_proj", 0, 0),
        decode("v_proj", 0, 0));
  EXPECT_EQ(w.rows("SELECT tensor, status, prefill_hash, decode_hash FROM pair ORDER BY tensor_id"),
            "q_pre_rope|MATCH|18446744073709551615|18446744073709551615\n"
            "k_pre_rope|DRIFT|9223372036854775808|9223372036854775807\n"
            "v_proj|MATCH|0|0");
}

TEST(Pair, PrefillLastWithoutPartnerIsMissing) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1));
  EXPECT_EQ(pairs(w), "attn_out|0|37|MISSING|TRACE_OFFSET");
  EXPECT_EQ(w.rows("SELECT prefill_hash, decode_hash, root_cause FROM pair"),
            "1|-|PAIRING_MISMATCH");
}

TEST(Pair, DecodeRowWherePrefillLastTracedAnythingIsMissing) {
  Warehouse w;
  w.match("attn_out", 0);
  w.add(decode("mlp_out", 5, 1), decode("attn_out", 0, 1).in("decode").step(2).at(38));
  EXPECT_EQ(pairs(w),
            "attn_out|0|37|MATCH|-\n"
            "attn_out|0|38|DECODE_ONLY|-\n"
            "mlp_out|5|37|MISSING|TRACE_OFFSET");
}

TEST(Pair, PrefillLastOfAnotherPromptDoesNotCount) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1).of("p0"), decode("attn_out", 0, 1).of("p1"));
  EXPECT_EQ(w.rows("SELECT prompt, status FROM pair ORDER BY prompt"),
            "p0|MISSING\np1|DECODE_ONLY");
}

TEST(Pair, DecodeRowElsewhereIsDecodeOnlyWithoutCause) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1), decode("attn_out", 0, 1).at(38));
  EXPECT_EQ(pairs(w), "attn_out|0|37|MISSING|TRACE_OFFSET\nattn_out|0|38|DECODE_ONLY|-");
}

TEST(Pair, PrefillRowIsPairedWhenAPartnerExistsAndExcusedWhenNot) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1).in("prefill").at(5),
        prefill("attn_out", 0, 1).in("prefill").at(6), decode("attn_out", 0, 2).at(6),
        decode("attn_out", 0, 3).at(7));
  EXPECT_EQ(pairs(w),
            "attn_out|0|5|PREFILL_ONLY|-\nattn_out|0|6|DRIFT|ATTN_OUT_DRIFT\n"
            "attn_out|0|7|DECODE_ONLY|-");
}

TEST(Pair, TokenAndLogicalIndexAreNullSafe) {
  Warehouse w;
  w.add(prefill("embed_out", 0, 1).token(116), decode("embed_out", 0, 1).token(116),
        prefill("attn_out", 0, 1), decode("attn_out", 0, 1),
        prefill("attn_norm_out", 0, 1).logical(2), decode("attn_norm_out", 0, 1).logical(2));
  EXPECT_EQ(w.rows("SELECT tensor, token_id, logical_tok_idx, status FROM pair ORDER BY tensor_id"),
            "embed_out|116|-|MATCH\nattn_norm_out|-|2|MATCH\nattn_out|-|-|MATCH");
}

TEST(Pair, AnotherTokenOrLogicalIndexIsNoPartner) {
  Warehouse w;
  w.add(prefill("embed_out", 0, 1).token(116), decode("embed_out", 0, 1).token(117),
        prefill("attn_out", 0, 1).token(116), decode("attn_out", 0, 1),
        prefill("mlp_out", 0, 1).logical(2), decode("mlp_out", 0, 1).logical(3));
  EXPECT_EQ(w.rows("SELECT tensor, status, count(*) FROM pair GROUP BY 1, 2 ORDER BY tensor_id"),
            "embed_out|MISSING|2\nattn_out|MISSING|2\nmlp_out|MISSING|2");
}

TEST(Pair, UnknownPositionNeverPairs) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1).at(-1), decode("attn_out", 0, 1).at(-1));
  EXPECT_EQ(pairs(w), "");
  EXPECT_EQ(w.rows("SELECT count(*) FROM trace"), "2");
}

TEST(Pair, UnknownPhaseIsContext) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1).in("warmup"), decode("attn_out", 0, 1));
  EXPECT_EQ(pairs(w), "attn_out|0|37|DECODE_ONLY|-");
  EXPECT_EQ(w.rows("SELECT phase, side FROM trace ORDER BY phase"), "decode0|decode\nwarmup|-");
}

TEST(Pair, StepIsPartOfTheRowNotOfThePair) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1).step(0), decode("attn_out", 0, 1).step(9));
  EXPECT_EQ(pairs(w), "attn_out|0|37|MATCH|-");
}

TEST(Pair, TwoNamesOfOneTensorPairAndThePrefillNamePicksTheCause) {
  Warehouse w;
  w.add(prefill("x_in", 1, 1), decode("residual_pre_attn", 1, 2),
        prefill("residual_pre_attn", 2, 1), decode("rms_in", 2, 2), prefill("rms_in", 3, 1),
        decode("x_in", 3, 2), prefill("attn_norm_out", 4, 1), decode("norm_out", 4, 2),
        prefill("norm_out", 5, 1), decode("attn_norm_out", 5, 2));
  EXPECT_EQ(w.rows("SELECT tensor, canonical_tensor, status, cause FROM pair ORDER BY layer"),
            "x_in|residual_pre_attn|DRIFT|X_IN_DRIFT\n"
            "residual_pre_attn|residual_pre_attn|DRIFT|RESIDUAL_PRE_ATTN_DRIFT\n"
            "rms_in|residual_pre_attn|DRIFT|RMS_IN_DRIFT\n"
            "attn_norm_out|attn_norm_out|DRIFT|ATTN_NORM_DRIFT\n"
            "norm_out|attn_norm_out|DRIFT|NORM_OUT_DRIFT");
}

TEST(Pair, EveryTracePointReportsItsCause) {
  struct Case {
    const char *tensor, *cause;
  };
  const Case cases[] = {{"embd_w_hash", "EMBD_W_HASH_DRIFT"},
                        {"embed_out", "EMBED_DRIFT"},
                        {"residual_pre_attn", "RESIDUAL_PRE_ATTN_DRIFT"},
                        {"x_in", "X_IN_DRIFT"},
                        {"rms_in", "RMS_IN_DRIFT"},
                        {"rms_weight", "RMS_WEIGHT_DRIFT"},
                        {"attn_norm_out", "ATTN_NORM_DRIFT"},
                        {"norm_out", "NORM_OUT_DRIFT"},
                        {"q_pre_rope", "Q_PRE_ROPE_DRIFT"},
                        {"q_proj", "Q_PRE_ROPE_DRIFT"},
                        {"k_pre_rope", "K_PRE_ROPE_DRIFT"},
                        {"k_proj", "K_PRE_ROPE_DRIFT"},
                        {"v_proj", "V_PROJ_DRIFT"},
                        {"q_post_rope", "Q_POST_ROPE_DRIFT"},
                        {"k_post_rope", "K_POST_ROPE_DRIFT"},
                        {"k_cache", "K_CACHE_DRIFT"},
                        {"v_cache", "V_CACHE_DRIFT"},
                        {"k_cache_rows", "K_CACHE_ROWS_DRIFT"},
                        {"v_cache_rows", "V_CACHE_ROWS_DRIFT"},
                        {"attn_scores", "ATTN_SCORES_DRIFT"},
                        {"attn_probs", "ATTN_PROBS_DRIFT"},
                        {"attn_out", "ATTN_OUT_DRIFT"},
                        {"wo_out", "WO_OUT_DRIFT"},
                        {"residual_post_attn", "RESIDUAL_POST_ATTN_DRIFT"},
                        {"x_after_attn", "RESIDUAL_POST_ATTN_DRIFT"},
                        {"ffn_norm_in", "FFN_NORM_DRIFT"},
                        {"ffn_norm", "FFN_NORM_DRIFT"},
                        {"mlp_out", "MLP_OUT_DRIFT"},
                        {"residual_post_mlp", "RESIDUAL_POST_MLP_DRIFT"},
                        {"x_after_mlp", "RESIDUAL_POST_MLP_DRIFT"},
                        {"x_out", "X_OUT_DRIFT"},
                        {"hidden", "HIDDEN_DRIFT"},
                        {"final_norm", "FINAL_NORM_DRIFT"},
                        {"final_rms", "FINAL_NORM_DRIFT"},
                        {"rms", "FINAL_NORM_DRIFT"},
                        {"lm_head_in", "LM_HEAD_IN_DRIFT"},
                        {"logits", "LOGITS_DRIFT"},
                        {"logits_top1", "LOGITS_DRIFT"},
                        {"logits_topk", "LOGITS_DRIFT"},
                        {"gate_proj", "GATE_PROJ_DRIFT"}};
  for (const Case& c : cases) {
    Warehouse w;
    w.drift(c.tensor, 0);
    EXPECT_EQ(w.rows("SELECT cause FROM pair"), c.cause) << c.tensor;
  }
}

TEST(Pair, EveryCauseHasARootCause) {
  Warehouse w;
  EXPECT_EQ(w.rows("SELECT n.cause FROM tensor_name n LEFT JOIN cause c ON c.name = n.cause"
                   " WHERE c.name IS NULL"),
            "");
  EXPECT_EQ(
      w.rows("SELECT t.switch_cause FROM tensor t LEFT JOIN cause c ON c.name = t.switch_cause"
             " WHERE t.switch_cause IS NOT NULL AND c.name IS NULL"),
      "");
}

TEST(Pair, RopeDriftWhenThePreRopeRowMatched) {
  Warehouse w;
  w.add(prefill("q_proj", 0, 1), decode("q_pre_rope", 0, 1));
  w.drift("q_post_rope", 0);
  w.match("k_pre_rope", 0);
  w.drift("k_post_rope", 0);
  EXPECT_EQ(w.rows("SELECT tensor, cause FROM pair WHERE status = 'DRIFT' ORDER BY tensor_id"),
            "q_post_rope|ROPE_DRIFT\nk_post_rope|K_ROPE_DRIFT");
}

TEST(Pair, PostRopeDriftWhenThePreRopeRowDidNotMatch) {
  Warehouse w;
  w.drift("q_pre_rope", 0);  // drifted
  w.drift("q_post_rope", 0);
  w.match("k_pre_rope", 1);  // matched, but in another layer
  w.drift("k_post_rope", 0);
  w.incomparable("q_pre_rope", 2);  // cannot be read as fine
  w.drift("q_post_rope", 2);
  EXPECT_EQ(w.rows("SELECT layer, tensor, cause FROM pair WHERE tensor_id IN (50, 51)"
                   " ORDER BY layer, tensor_id"),
            "0|q_post_rope|Q_POST_ROPE_DRIFT\n0|k_post_rope|K_POST_ROPE_DRIFT\n"
            "2|q_post_rope|Q_POST_ROPE_DRIFT");
}

TEST(Pair, RopeCauseLooksAtTheSamePromptAndPosition) {
  Warehouse w;
  w.add(prefill("q_pre_rope", 0, 1).of("p1"), decode("q_pre_rope", 0, 1).of("p1"),
        prefill("q_pre_rope", 0, 1).at(36), decode("q_pre_rope", 0, 1).at(36));
  w.drift("q_post_rope", 0);
  EXPECT_EQ(w.rows("SELECT cause FROM pair WHERE status = 'DRIFT'"), "Q_POST_ROPE_DRIFT");
}

TEST(Pair, SeveralDifferentRowsUnderOneKeyAreAmbiguous) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1), prefill("attn_out", 0, 2), decode("attn_out", 0, 1));
  w.add(prefill("mlp_out", 0, 1), decode("mlp_out", 0, 1), decode("mlp_out", 0, 2));
  EXPECT_EQ(pairs(w),
            "attn_out|0|37|AMBIGUOUS|AMBIGUOUS_TRACE\nmlp_out|0|37|AMBIGUOUS|AMBIGUOUS_TRACE");
  EXPECT_EQ(w.rows("SELECT DISTINCT root_cause, class FROM pair"), "PAIRING_MISMATCH|-");
}

TEST(Pair, DifferentStepsAtOnePositionAreAmbiguousWhenTheyDiffer) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1), decode("attn_out", 0, 1), decode("attn_out", 0, 2).step(2));
  w.add(prefill("mlp_out", 0, 1), decode("mlp_out", 0, 1), decode("mlp_out", 0, 1).step(2));
  EXPECT_EQ(pairs(w), "attn_out|0|37|AMBIGUOUS|AMBIGUOUS_TRACE\nmlp_out|0|37|MATCH|-");
}

TEST(Pair, DifferentPhasesOfOneSideAreAmbiguousWhenTheyDiffer) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1), prefill("attn_out", 0, 2).in("prefill"),
        decode("attn_out", 0, 1));
  w.add(prefill("mlp_out", 0, 1), decode("mlp_out", 0, 1), decode("mlp_out", 0, 2).in("decode"));
  EXPECT_EQ(pairs(w),
            "attn_out|0|37|AMBIGUOUS|AMBIGUOUS_TRACE\nmlp_out|0|37|AMBIGUOUS|AMBIGUOUS_TRACE");
}

TEST(Pair, AliasesWithDifferentContentAreAmbiguous) {
  Warehouse w;
  w.add(prefill("x_in", 0, 1), prefill("residual_pre_attn", 0, 2), decode("x_in", 0, 1));
  w.add(prefill("x_in", 1, 1), prefill("residual_pre_attn", 1, 1), decode("x_in", 1, 1));
  EXPECT_EQ(w.rows("SELECT layer, status FROM pair ORDER BY layer"), "0|AMBIGUOUS\n1|MATCH");
}

TEST(Pair, ContentIsLengthHashStatisticsAndSample) {
  const Row base = prefill("attn_out", 0, 1).sampled({1, 2});
  const Row others[] = {
      base.length(5).step(1),       prefill("attn_out", 0, 2).sampled({1, 2}).step(1),
      base.averaging(0.5).step(1),  base.nans({}).step(1),
      base.infs({}).step(1),        base.flagged(1).step(1),
      base.sampled({1, 3}).step(1), prefill("attn_out", 0, 1).step(1)};
  for (const Row& other : others) {
    Warehouse w;
    w.add(base, other, decode("attn_out", 0, 1).sampled({1, 2}));
    EXPECT_EQ(w.rows("SELECT status FROM pair"), "AMBIGUOUS") << &other - others;
  }
}

TEST(Pair, SourceAndStepAreNotContent) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1), prefill("attn_out", 0, 1).step(3), decode("attn_out", 0, 1));
  w.db.exec("UPDATE trace_row SET ptr = step, offset_bytes = step, flags = step & 2");
  EXPECT_EQ(w.rows("SELECT status FROM pair"), "MATCH");
}

TEST(Pair, RowsOfDifferentTokensAtOnePositionAreNotAmbiguous) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1).token(5), prefill("attn_out", 0, 2).token(6).step(1),
        decode("attn_out", 0, 1).token(5), decode("attn_out", 0, 2).token(6).step(2));
  EXPECT_EQ(w.rows("SELECT token_id, status FROM pair ORDER BY 1"), "5|MATCH\n6|MATCH");
}

TEST(Pair, MissingComesBeforeAmbiguous) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1), prefill("attn_out", 0, 2));
  EXPECT_EQ(pairs(w), "attn_out|0|37|MISSING|TRACE_OFFSET");
}

TEST(Pair, DecodeOnlyComesBeforeAmbiguous) {
  Warehouse w;
  w.add(decode("attn_out", 0, 1), decode("attn_out", 0, 2));
  EXPECT_EQ(pairs(w), "attn_out|0|37|DECODE_ONLY|-");
}

TEST(Pair, NonfiniteComesBeforeMissingAndDecodeOnly) {
  for (const Row& row : {prefill("attn_out", 0, 1).nans(3), decode("attn_out", 0, 1).infs(1)}) {
    Warehouse w;
    w.add(row);
    EXPECT_EQ(pairs(w), "attn_out|0|37|NONFINITE|ATTN_OUT_DRIFT");
  }
}

TEST(Pair, AmbiguousComesBeforeNonfinite) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1).nans(3), prefill("attn_out", 0, 2), decode("attn_out", 0, 1));
  EXPECT_EQ(pairs(w), "attn_out|0|37|AMBIGUOUS|AMBIGUOUS_TRACE");
}

TEST(Pair, AnyNanOrInfOnEitherSideIsNonfinite) {
  const Row p = prefill("attn_out", 0, 1), d = decode("attn_out", 0, 1);
  const std::pair<Row, Row> cases[] = {{p.nans(1), d},
                                       {p.infs(1), d},
                                       {p, d.nans(1)},
                                       {p, d.infs(2)},
                                       {p.nans(1), d.nans(1)},
                                       {p.flagged(1), d},
                                       {p, d.flagged(1)},
                                       {p.nans({}).infs(1), d.nans({}).infs({})},
                                       {p.nans(1), decode("attn_out", 0)}};
  for (const auto& [a, b] : cases) {
    Warehouse w;
    w.add(a, b);
    EXPECT_EQ(w.rows("SELECT status, class, cause FROM pair"), "NONFINITE|-|ATTN_OUT_DRIFT");
    EXPECT_EQ(w.rows("SELECT verdict, numeric_verdict, fail FROM run_verdict"), "FAIL|FAIL|1");
  }
}

TEST(Pair, NonfiniteOfARepeatedRowIsNotOverlooked) {
  Warehouse w;  // the same content but for the flag: whichever comes first, it is not clean
  w.add(prefill("attn_out", 0, 1), prefill("attn_out", 0, 1).step(1).flagged(1),
        decode("attn_out", 0, 1));
  EXPECT_NE(w.rows("SELECT status FROM pair"), "MATCH");
}

TEST(Pair, UnknownCountsAreNotNonfinite) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1).nans({}).infs({}), decode("attn_out", 0, 1).nans({}).infs({}));
  EXPECT_EQ(w.rows("SELECT status FROM pair"), "MATCH");
}

TEST(Pair, WithoutHashSampleOrSketchIsIncomparable) {
  Warehouse w;
  w.incomparable("attn_out", 0);
  w.add(prefill("mlp_out", 0, 1), decode("mlp_out", 0));
  w.add(prefill("x_out", 0), decode("x_out", 0, 1));
  w.add(prefill("wo_out", 0, 1).sampled({1}), decode("wo_out", 0).sketched({1}));
  EXPECT_EQ(w.rows("SELECT tensor, status, class, scope, compared_n, cause, rel_l2 FROM pair"
                   " ORDER BY tensor_id"),
            "attn_out|INCOMPARABLE|-|-|-|-|-\n"
            "wo_out|INCOMPARABLE|-|-|-|-|-\n"
            "mlp_out|INCOMPARABLE|-|-|-|-|-\n"
            "x_out|INCOMPARABLE|-|-|-|-|-");
}

TEST(Pair, HashesOfDifferentOrUnknownLengthDoNotCompare) {
  Warehouse w;
  w.add(prefill("wo_out", 0, 1).length(4), decode("wo_out", 0, 2).length(5),
        prefill("mlp_out", 0, 1).length({}), decode("mlp_out", 0, 1).length({}),
        prefill("x_out", 0, 1).length({}), decode("x_out", 0, 1));
  EXPECT_EQ(w.rows("SELECT DISTINCT status FROM pair"), "INCOMPARABLE");
}

}  // namespace
}  // namespace greta
