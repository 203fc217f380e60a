// What a pair's verdict is worth (scope), how far it is off (class), and where that began (origin).
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

std::string scopes(Warehouse& w) {
  return w.rows("SELECT tensor, status, scope, compared_n FROM pair ORDER BY layer, tensor_id");
}

TEST(Scope, HashOfOursCoversTheWholeRow) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1).length(4096), decode("attn_out", 0, 1).length(4096));
  EXPECT_EQ(scopes(w), "attn_out|MATCH|full|4096");
}

TEST(Scope, LegacyHashCoversAPrefixOfAtMost256Values) {
  Warehouse w;
  w.run({.hash_algo = "fnv-256"});
  w.add(prefill("attn_out", 0, 1).length(64), decode("attn_out", 0, 1).length(64),
        prefill("mlp_out", 0, 1).length(4096), decode("mlp_out", 0, 2).length(4096));
  EXPECT_EQ(scopes(w), "attn_out|MATCH|prefix|64\nmlp_out|DRIFT|prefix|256");
}

TEST(Scope, SampleDecidesWhereHashesCannot) {
  Warehouse w;
  // no hash; a hash on one side; different hashes of different length
  w.add(prefill("q_pre_rope", 0).sampled({1, 2}), decode("q_pre_rope", 0).sampled({1, 2}),
        prefill("k_pre_rope", 0, 1).sampled({1, 2}), decode("k_pre_rope", 0).sampled({1, 2}),
        prefill("v_proj", 0, 1).length(4).sampled({1, 2}),
        decode("v_proj", 0, 2).length(5).sampled({1, 2}), prefill("attn_out", 0).sampled({1, 2}),
        decode("attn_out", 0).sampled({1, 3}));
  EXPECT_EQ(scopes(w),
            "q_pre_rope|MATCH|sample|2\nk_pre_rope|MATCH|sample|2\nv_proj|INCOMPARABLE|sample|2\n"
            "attn_out|DRIFT|sample|2");
}

TEST(Scope, SamplesOfDifferentLengthDoNotDecide) {
  Warehouse w;
  w.add(prefill("attn_out", 0).sampled({1, 2}), decode("attn_out", 0).sampled({1, 2, 3}));
  EXPECT_EQ(scopes(w), "attn_out|INCOMPARABLE|-|-");
}

TEST(Scope, NegativeZeroIsNotBitwiseEqual) {
  Warehouse w;
  w.add(prefill("attn_out", 0).sampled({0.0f, 1}), decode("attn_out", 0).sampled({-0.0f, 1}));
  EXPECT_EQ(w.rows("SELECT status, class, rel_l2 FROM pair"), "DRIFT|ROUNDING|0.0");
}

TEST(Scope, SketchesDecideOnlyAtEqualLengthAndScope) {
  Warehouse w;
  w.add(prefill("q_pre_rope", 0).sketched({1, 2}), decode("q_pre_rope", 0).sketched({1, 2}),
        prefill("k_pre_rope", 0).sketched({1, 2}), decode("k_pre_rope", 0).sketched({1, 3}),
        prefill("v_proj", 0).sketched({1, 2}), decode("v_proj", 0).sketched({1, 2, 0}),
        prefill("attn_out", 0).sketched({1, 2}), decode("attn_out", 0).sampled({1, 2}));
  EXPECT_EQ(scopes(w),
            "q_pre_rope|INCOMPARABLE|full|2\nk_pre_rope|DRIFT|full|2\nv_proj|INCOMPARABLE|-|-\n"
            "attn_out|INCOMPARABLE|-|-");
}

TEST(Scope, EqualHashWithDifferentSamplesIsDriftAndMeasured) {
  Warehouse w;  // the sample reaches further than the hashed prefix
  w.run({.hash_algo = "fnv-256"});
  w.add(prefill("attn_out", 0, 1).sampled({2, 0}), decode("attn_out", 0, 1).sampled({1, 0}));
  EXPECT_EQ(w.rows("SELECT status, class, rel_l2 FROM pair"), "DRIFT|DIVERGENT|0.5");
  EXPECT_EQ(w.rows("SELECT verdict, numeric_verdict FROM run_verdict"), "FAIL|FAIL");
}

TEST(Class, RelativeL2IsTheDifferenceOverTheLargerNorm) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1).sketched({3, 4}), decode("attn_out", 0, 2).sketched({3, 0}),
        prefill("mlp_out", 0, 1).sketched({0, 0}), decode("mlp_out", 0, 2).sketched({0, 5}));
  EXPECT_EQ(w.rows("SELECT rel_l2, class FROM pair ORDER BY tensor_id"),
            "0.8|DIVERGENT\n1.0|DIVERGENT");
}

TEST(Class, NothingToMeasureWithIsUnknown) {
  Warehouse w;
  w.drift("attn_out", 0);
  w.add(prefill("mlp_out", 0, 1).sketched({1, 2}), decode("mlp_out", 0, 2));  // one side only
  EXPECT_EQ(w.rows("SELECT status, class, rel_l2 FROM pair ORDER BY tensor_id"),
            "DRIFT|UNKNOWN|-\nDRIFT|UNKNOWN|-");
  EXPECT_EQ(w.rows("SELECT numeric_verdict FROM run_verdict"), "INCOMPARABLE");
}

TEST(Class, EqualSamplesDoNotMeasureADifferenceThatOnlyTheHashesSaw) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1).sampled({1, 2}), decode("attn_out", 0, 2).sampled({1, 2}));
  EXPECT_EQ(w.rows("SELECT status, class, rel_l2 FROM pair"), "DRIFT|UNKNOWN|-");
  EXPECT_EQ(w.rows("SELECT numeric_verdict FROM run_verdict"), "INCOMPARABLE");
}

TEST(Class, OnlyADriftHasOne) {
  Warehouse w;
  w.match("q_pre_rope", 0);
  w.incomparable("k_pre_rope", 0);
  w.add(prefill("v_proj", 0, 1).nans(1), decode("v_proj", 0, 2));
  w.add(prefill("attn_out", 0, 1), prefill("attn_out", 0, 3), decode("attn_out", 0, 2));
  w.add(prefill("mlp_out", 0, 1), decode("x_out", 0, 1).at(50));
  EXPECT_EQ(w.rows("SELECT count(*), count(class), count(origin) FROM pair"), "6|0|2");
}

struct ToleranceCase {
  const char *inserts, *dtype, *expected;
};

TEST(Class, TheMostSpecificToleranceWins) {
  // The pair differs by 1 %.
  const ToleranceCase cases[] = {
      {"(NULL, NULL, 0.1)", "bf16", "ROUNDING"},
      {"(NULL, NULL, 0.1), (NULL, 'bf16', 0.001)", "bf16", "DIVERGENT"},
      {"(NULL, NULL, 0.1), (NULL, 'bf16', 0.001)", "f32", "ROUNDING"},
      {"(NULL, 'bf16', 0.001), (70, NULL, 0.1)", "bf16", "ROUNDING"},
      {"(NULL, 'bf16', 0.1), (70, NULL, 0.001)", "bf16", "DIVERGENT"},
      {"(70, NULL, 0.001), (70, 'bf16', 0.1)", "bf16", "ROUNDING"},
      {"(70, NULL, 0.1), (70, 'bf16', 0.001)", "bf16", "DIVERGENT"},
      {"(70, 'f32', 0.001), (71, NULL, 0.001), (NULL, NULL, 0.1)", "bf16", "ROUNDING"}};
  for (const ToleranceCase& c : cases) {
    Warehouse w;
    w.db.exec(
        "DELETE FROM tolerance; INSERT INTO tensor VALUES (71, 71, 't', 'layer', NULL, NULL);"
        "INSERT INTO tolerance VALUES " +
        std::string(c.inserts));
    w.run({.dtype = c.dtype});
    w.add(prefill("attn_out", 0, 1).sketched({100}), decode("attn_out", 0, 2).sketched({99}));
    EXPECT_EQ(w.rows("SELECT class FROM pair"), c.expected) << c.inserts;
  }
}

TEST(Class, ToleranceItselfIsStillRounding) {
  Warehouse w;
  w.db.exec("DELETE FROM tolerance; INSERT INTO tolerance VALUES (NULL, NULL, 0.5)");
  w.divergent("attn_out", 0);
  EXPECT_EQ(w.rows("SELECT rel_l2, tolerance, class FROM pair"), "0.5|0.5|ROUNDING");
}

TEST(Class, WithoutAToleranceNothingIsRounding) {
  Warehouse w;
  w.db.exec("DELETE FROM tolerance");
  w.rounding("attn_out", 0);
  EXPECT_EQ(w.rows("SELECT class FROM pair"), "DIVERGENT");
  EXPECT_EQ(w.rows("SELECT numeric_verdict FROM run_verdict"), "FAIL");
}

TEST(Class, RunWithoutDtypeTakesTheGeneralTolerance) {
  Warehouse w;
  w.db.exec(
      "DELETE FROM tolerance; INSERT INTO tolerance VALUES (NULL, 'bf16', 1.0), (NULL, NULL, "
      "0.0001)");
  w.rounding("attn_out", 0);
  EXPECT_EQ(w.rows("SELECT class FROM pair"), "DIVERGENT");
}

TEST(Class, WeightsAndEmbeddingsHaveNoRounding) {
  for (const char* tensor : {"embd_w_hash", "embed_out", "rms_weight"}) {
    Warehouse w;
    w.run({.dtype = "bf16"});
    w.rounding(tensor, 0);
    EXPECT_EQ(w.rows("SELECT class FROM pair"), "DIVERGENT") << tensor;
  }
}

/// tensor@layer|origin|caused_by of what failed, in forward order.
std::string origins(Warehouse& w) {
  return w.rows(
      "SELECT tensor || '@' || layer, origin, caused_by FROM pair WHERE origin IS NOT NULL"
      " ORDER BY layer < 0, layer, tensor_id");
}

TEST(Origin, WhereAllInputsMatch) {
  Warehouse w;
  w.match("q_post_rope", 0);
  w.match("k_cache", 0);
  w.drift("attn_scores", 0);
  EXPECT_EQ(origins(w), "attn_scores@0|ORIGIN|-");
  EXPECT_EQ(w.rows("SELECT inputs_complete FROM pair WHERE tensor = 'attn_scores'"), "1");
}

TEST(Origin, PropagatedWhenOneInputDrifted) {
  Warehouse w;
  w.match("q_post_rope", 0);
  w.drift("k_cache", 0);
  w.drift("attn_scores", 0);
  EXPECT_EQ(origins(w), "k_cache@0|UNSAMPLED|-\nattn_scores@0|PROPAGATED|k_cache@0");
}

TEST(Origin, UnsampledWhenNoAncestorWasTraced) {
  Warehouse w;
  w.drift("attn_out", 5);
  w.match("mlp_out", 5);
  EXPECT_EQ(origins(w), "attn_out@5|UNSAMPLED|-");
}

TEST(Origin, LooksAtTheNearestTracedAncestorOnly) {
  Warehouse w;
  w.drift("residual_pre_attn", 0);
  w.match("attn_norm_out", 0);  // shields what follows
  w.drift("q_pre_rope", 0);
  w.drift("attn_out", 0);  // nearest: q_pre_rope, and attn_norm_out by way of K and V
  EXPECT_EQ(origins(w),
            "residual_pre_attn@0|UNSAMPLED|-\nq_pre_rope@0|ORIGIN|-\n"
            "attn_out@0|PROPAGATED|q_pre_rope@0");
}

TEST(Origin, WalksThroughLayersThatWereNotTraced) {
  Warehouse w;
  for (int layer : {0, 1, 2}) {
    w.match("x_in", layer);
    w.match("attn_out", layer);
    w.match("mlp_out", layer);
  }
  for (int layer : {4, 8}) {
    w.drift("x_in", layer);
    w.drift("attn_out", layer);
    w.drift("mlp_out", layer);
  }
  EXPECT_EQ(origins(w),
            "x_in@4|UNSAMPLED|-\nattn_out@4|PROPAGATED|residual_pre_attn@4\n"
            "mlp_out@4|PROPAGATED|residual_pre_attn@4\nx_in@8|PROPAGATED|residual_pre_attn@4\n"
            "attn_out@8|PROPAGATED|residual_pre_attn@8\nmlp_out@8|PROPAGATED|residual_pre_attn@8");
  EXPECT_EQ(w.rows("SELECT DISTINCT inputs_complete FROM pair WHERE origin IS NOT NULL"), "0");
}

TEST(Origin, WalksDownToTheEmbedding) {
  Warehouse w;
  w.match("embed_out", 0);
  w.drift("x_out", 31);
  EXPECT_EQ(origins(w), "x_out@31|UNSAMPLED|-");
}

TEST(Origin, FirstLayerReadsTheEmbedding) {
  Warehouse w;
  w.add(prefill("embed_out", 0, 1).token(116), decode("embed_out", 0, 2).token(116));
  w.drift("x_in", 0);
  EXPECT_EQ(origins(w), "embed_out@0|UNSAMPLED|-\nx_in@0|PROPAGATED|embed_out@0");
  EXPECT_EQ(w.rows("SELECT inputs_complete FROM pair WHERE tensor = 'x_in'"), "1");
}

TEST(Origin, LaterLayersReadTheLayerBefore) {
  Warehouse w;
  w.drift("x_out", 3);
  w.drift("x_in", 4);
  EXPECT_EQ(origins(w), "x_out@3|UNSAMPLED|-\nx_in@4|PROPAGATED|x_out@3");
  EXPECT_EQ(w.rows("SELECT inputs_complete FROM pair WHERE tensor = 'x_in'"), "1");
}

TEST(Origin, TensorsAfterTheStackReadTheLastLayer) {
  for (int head_layer : {-1, 32}) {
    Warehouse w;
    w.match("x_out", 0);
    w.drift("x_out", 31);
    w.drift("hidden", head_layer);
    w.drift("final_norm", head_layer);
    w.drift("logits", head_layer);
    const std::string at = "@" + std::to_string(head_layer);
    EXPECT_EQ(origins(w), "x_out@31|UNSAMPLED|-\nhidden" + at + "|PROPAGATED|x_out@31\nfinal_norm" +
                              at + "|PROPAGATED|hidden" + at + "\nlogits" + at +
                              "|PROPAGATED|final_norm" + at);
    EXPECT_EQ(w.rows("SELECT tensor, inputs_complete FROM pair WHERE layer NOT IN (0, 31)"
                     " ORDER BY tensor_id"),
              "hidden|1\nfinal_norm|1\nlogits|0");
  }
}

TEST(Origin, LogitsAreTheOriginWhenTheLastLayerMatches) {
  Warehouse w;
  w.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (" +
            std::to_string(w.current_run()) + ", 'n_layers', '32', 0)");
  w.match("mlp_out", 31);
  w.match("residual_post_attn", 31);
  w.drift("logits", -1);
  EXPECT_EQ(origins(w), "logits@-1|ORIGIN|-");
}

std::string segments(Warehouse& w) {
  return w.rows(
      "SELECT tensor, layer, origin, numeric_origin, segment, untraced_layers FROM pair WHERE"
      " status = 'DRIFT' ORDER BY forward_layer, tensor_id");
}

TEST(Origin, LayersThatWereNotTracedAreNotBlamedOnTheNextOne) {
  Warehouse w;
  for (int layer : {0, 1, 2, 4}) {
    for (const char* tensor : {"x_in", "attn_out", "x_out"}) w.match(tensor, layer);
  }
  w.divergent("x_in", 8);
  w.divergent("attn_out", 8);
  EXPECT_EQ(segments(w),
            "x_in|8|UNSAMPLED|UNSAMPLED|between x_out of layer 4 and x_in of layer 8|5-7\n"
            "attn_out|8|PROPAGATED|PROPAGATED|between residual_pre_attn and attn_out of layer 8|-");
}

TEST(Origin, WhatFollowsALayerThatWasNotTracedIsNotItsOrigin) {
  Warehouse w;
  w.match("x_out", 4);
  w.divergent("attn_norm_out", 6);  // x_in of layer 6 was not traced, nor any of layer 5
  EXPECT_EQ(segments(w),
            "attn_norm_out|6|UNSAMPLED|UNSAMPLED|between x_out of layer 4 and attn_norm_out of"
            " layer 6|5");
}

TEST(Origin, ACopyOfWhatWasNotTracedIsNoOrigin) {
  Warehouse w;
  w.match("mlp_out", 3);
  w.match("residual_post_attn", 3);
  w.divergent("x_in", 4);
  EXPECT_EQ(segments(w),
            "x_in|4|UNSAMPLED|UNSAMPLED|between residual_post_attn of layer 3 and x_in of layer"
            " 4|-");
}

TEST(Origin, WithinALayerAnOriginNamesItsSegment) {
  Warehouse w;
  w.match("x_in", 0);
  w.divergent("attn_out", 0);
  w.match("x_out", 1);
  w.divergent("q_pre_rope", 2);  // from the layer before, and no whole layer lies between
  EXPECT_EQ(segments(w),
            "attn_out|0|ORIGIN|ORIGIN|between residual_pre_attn and attn_out of layer 0|-\n"
            "q_pre_rope|2|ORIGIN|ORIGIN|between x_out of layer 1 and q_pre_rope of layer 2|-");
}

TEST(Origin, AfterTheStackItDependsOnTheLastLayerOfTheModel) {
  for (const auto& [n_layers, expected] :
       {std::pair("9", "hidden|-1|ORIGIN|ORIGIN|between x_out of layer 8 and hidden|-"),
        std::pair("12", "hidden|-1|UNSAMPLED|UNSAMPLED|between x_out of layer 8 and hidden|9-11"),
        std::pair("", "hidden|-1|UNSAMPLED|UNSAMPLED|between x_out of layer 8 and hidden|-")}) {
    Warehouse w;
    w.match("x_out", 8);
    w.divergent("hidden", -1);
    if (*n_layers != '\0') {
      w.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (" +
                std::to_string(w.current_run()) + ", 'n_layers', '" + n_layers + "', 0)");
    }
    EXPECT_EQ(segments(w), expected);
  }
}

TEST(Origin, ABranchThatWasNeverTracedLeavesItOpen) {
  Warehouse w;
  w.match("wo_out", 0);
  w.divergent("x_out", 0);  // the embedding is all that lies behind the other branch
  w.match("wo_out", 3);
  w.divergent("ffn_norm_in", 3);  // behind the residual stream lie layers that nobody traced
  EXPECT_EQ(w.rows("SELECT tensor, layer, origin, untraced_layers FROM pair WHERE status = 'DRIFT'"
                   " ORDER BY forward_layer, tensor_id"),
            "x_out|0|ORIGIN|-\nffn_norm_in|3|PROPAGATED|1-2");
  Warehouse open;
  open.match("wo_out", 3);
  open.divergent("ffn_norm_in", 3);
  EXPECT_EQ(segments(open),
            "ffn_norm_in|3|UNSAMPLED|UNSAMPLED|between embd_w_hash and ffn_norm_in of layer 3|0-2");
}

TEST(Origin, OfTwoNumbersOfLayersTheMoreBelievedCounts) {
  Warehouse w;
  w.match("x_out", 8);
  w.divergent("hidden", -1);
  w.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (" +
            std::to_string(w.current_run()) + ", 'n_layers', '12', 4), (" +
            std::to_string(w.current_run()) + ", 'n_layers', '9', 0)");
  EXPECT_EQ(segments(w), "hidden|-1|ORIGIN|ORIGIN|between x_out of layer 8 and hidden|-");
}

TEST(Origin, AReportsLayersAreNoOtherThanARows) {
  Warehouse w;
  w.report("final.md", 1000000,
           {{.prompt = "p", .layer = 4, .tensor = "x_out", .status = "MATCH"},
            {.prompt = "p", .layer = 8, .tensor = "x_in", .status = "DRIFT"},
            {.prompt = "p", .layer = 8, .tensor = "attn_out", .status = "DRIFT"}});
  EXPECT_EQ(w.rows("SELECT tensor, origin, untraced_layers FROM pair WHERE status = 'DRIFT'"
                   " ORDER BY tensor_id"),
            "x_in|UNSAMPLED|5-7\nattn_out|PROPAGATED|-");
}

TEST(Origin, RoundingInputsAreDirtyForOriginAndCleanForNumericOrigin) {
  Warehouse w;
  w.rounding("attn_norm_out", 0);
  w.divergent("q_pre_rope", 0);
  w.drift("k_pre_rope", 0);
  w.divergent("k_post_rope", 0);  // its input differs by an unknown amount: not clean
  EXPECT_EQ(w.rows("SELECT tensor, class, origin, numeric_origin, caused_by FROM pair"
                   " ORDER BY tensor_id"),
            "attn_norm_out|ROUNDING|UNSAMPLED|UNSAMPLED|-\n"
            "q_pre_rope|DIVERGENT|PROPAGATED|ORIGIN|attn_norm_out@0\n"
            "k_pre_rope|UNKNOWN|PROPAGATED|ORIGIN|attn_norm_out@0\n"
            "k_post_rope|DIVERGENT|PROPAGATED|PROPAGATED|k_pre_rope@0");
}

TEST(Origin, NonfiniteAndAmbiguousInputsPropagate) {
  Warehouse w;
  w.add(prefill("attn_norm_out", 0, 1).nans(1), decode("attn_norm_out", 0, 1));
  w.drift("q_pre_rope", 0);
  w.add(prefill("v_proj", 1, 1), prefill("v_proj", 1, 2), decode("v_proj", 1, 1));
  w.drift("v_cache", 1);
  EXPECT_EQ(w.rows("SELECT tensor, origin, numeric_origin FROM pair ORDER BY layer, tensor_id"),
            "attn_norm_out|UNSAMPLED|UNSAMPLED\nq_pre_rope|PROPAGATED|PROPAGATED\n"
            "v_proj|PROPAGATED|PROPAGATED\nv_cache|PROPAGATED|PROPAGATED");
}

TEST(Origin, AnIncomparableInputProvesNeither) {
  Warehouse w;
  w.incomparable("q_pre_rope", 0);
  w.drift("q_post_rope", 0);
  EXPECT_EQ(w.rows("SELECT origin, numeric_origin, caused_by FROM pair WHERE status = 'DRIFT'"),
            "UNSAMPLED|UNSAMPLED|-");
}

TEST(Origin, ADriftedInputOutweighsAnIncomparableOne) {
  Warehouse w;
  w.incomparable("q_post_rope", 0);
  w.drift("k_cache", 0);
  w.drift("attn_scores", 0);
  EXPECT_EQ(w.rows("SELECT origin, caused_by FROM pair WHERE tensor = 'attn_scores'"),
            "PROPAGATED|k_cache@0");
}

TEST(Origin, AnInputOfOneSideOnlyIsNotTraced) {
  Warehouse w;
  w.match("residual_pre_attn", 0);
  w.add(prefill("attn_norm_out", 0, 1));
  w.drift("q_pre_rope", 0);
  EXPECT_EQ(origins(w), "q_pre_rope@0|ORIGIN|-");
  EXPECT_EQ(w.rows("SELECT inputs_complete FROM pair WHERE tensor = 'q_pre_rope'"), "0");
}

TEST(Origin, AnInputOfAnotherTokenIsNotTraced) {
  Warehouse w;
  w.drift("residual_pre_attn", 0);
  w.add(prefill("attn_norm_out", 0, 1).token(5), decode("attn_norm_out", 0, 1).token(6));
  w.drift("q_pre_rope", 0);
  EXPECT_EQ(w.rows("SELECT origin, caused_by FROM pair WHERE tensor = 'q_pre_rope'"),
            "PROPAGATED|residual_pre_attn@0");
  EXPECT_EQ(w.rows("SELECT inputs_complete FROM pair WHERE tensor = 'q_pre_rope'"), "0");
}

TEST(Origin, InputsOfAnotherPromptOrPositionDoNotCount) {
  Warehouse w;
  w.add(prefill("q_pre_rope", 0, 1).of("p1"), decode("q_pre_rope", 0, 2).of("p1"),
        prefill("q_pre_rope", 0, 1).at(36), decode("q_pre_rope", 0, 2).at(36));
  w.drift("q_post_rope", 0);
  EXPECT_EQ(w.rows("SELECT origin FROM pair WHERE tensor = 'q_post_rope'"), "UNSAMPLED");
}

TEST(Origin, UnknownTensorHasNoAncestors) {
  Warehouse w;
  w.match("attn_out", 0);
  w.drift("gate_proj", 0);
  EXPECT_EQ(
      w.rows("SELECT tensor, origin, inputs_complete, cause FROM pair WHERE status = 'DRIFT'"),
      "gate_proj|UNSAMPLED|0|GATE_PROJ_DRIFT");
}

}  // namespace
}  // namespace greta
