// Where a difference came from: the nearest traced ancestors of a pair.
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

constexpr const char* kOrigins =
    "SELECT tensor || '@' || layer, origin, numeric_origin, caused_by, inputs_complete,"
    " untraced_layers FROM pair WHERE origin IS NOT NULL ORDER BY forward_layer, tensor_id";

/// "tensor@layer|origin|numeric_origin|caused_by|inputs_complete|untraced_layers" of each pair that
/// differs, in forward order.
void expect_origins(const std::string& pairs, const std::string& expected,
                    const std::vector<const char*>& n_layers = {}) {
  Warehouse w;
  w.pairs(pairs);
  int rank = 4;
  for (const char* n : n_layers) {
    w.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (1, 'n_layers', '" +
              std::string(n) + "', " + std::to_string(rank--) + ")");
  }
  EXPECT_EQ(w.rows(kOrigins), expected) << pairs;
}

TEST(Origin, IsWhereAllInputsMatch) {
  expect_origins("match q_post_rope 0; match k_cache 0; drift attn_scores 0",
                 "attn_scores@0|ORIGIN|ORIGIN|-|1|-");
  expect_origins(
      "match q_post_rope 0; drift k_cache 0; drift attn_scores 0",
      "k_cache@0|UNSAMPLED|UNSAMPLED|-|0|-\nattn_scores@0|PROPAGATED|PROPAGATED|k_cache@0|1|-");
  expect_origins("drift attn_out 5; match mlp_out 5", "attn_out@5|UNSAMPLED|UNSAMPLED|-|0|0-4");
  // attn_norm_out shields what follows
  expect_origins(
      "drift residual_pre_attn 0; match attn_norm_out 0; drift q_pre_rope 0; drift attn_out 0",
      "residual_pre_attn@0|UNSAMPLED|UNSAMPLED|-|0|-\nq_pre_rope@0|ORIGIN|ORIGIN|-|1|-\n"
      "attn_out@0|PROPAGATED|PROPAGATED|q_pre_rope@0|0|-");
  expect_origins("match attn_out 0; drift gate_proj 0", "gate_proj@0|UNSAMPLED|UNSAMPLED|-|0|-");
}

TEST(Origin, OfALayerIsInTheLayerBefore) {
  expect_origins("drift x_out 3; drift x_in 4",
                 "x_out@3|UNSAMPLED|UNSAMPLED|-|0|0-2\nx_in@4|PROPAGATED|PROPAGATED|x_out@3|1|-");
  expect_origins(
      "drift embed_out 0; drift x_in 0",
      "embed_out@0|UNSAMPLED|UNSAMPLED|-|0|-\nx_in@0|PROPAGATED|PROPAGATED|embed_out@0|1|-");
  expect_origins("match embed_out 0; drift x_out 31", "x_out@31|UNSAMPLED|UNSAMPLED|-|0|0-30");
}

TEST(Origin, AfterTheStackIsInTheLastLayer) {
  for (const std::string head : {"-1", "32"}) {
    expect_origins("match x_out 0; drift x_out 31; drift hidden " + head + "; drift final_norm " +
                       head + "; drift logits " + head,
                   "x_out@31|UNSAMPLED|UNSAMPLED|-|0|1-30\nhidden@" + head +
                       "|PROPAGATED|PROPAGATED|x_out@31|1|-\nfinal_norm@" + head +
                       "|PROPAGATED|PROPAGATED|hidden@" + head + "|1|-\nlogits@" + head +
                       "|PROPAGATED|PROPAGATED|final_norm@" + head + "|0|-");
  }
  expect_origins("match mlp_out 31; match residual_post_attn 31; drift logits -1",
                 "logits@-1|ORIGIN|ORIGIN|-|0|-", {"32"});
  const char* const last = "match x_out 8; divergent hidden -1";
  expect_origins(last, "hidden@-1|ORIGIN|ORIGIN|-|1|-", {"9"});
  expect_origins(last, "hidden@-1|UNSAMPLED|UNSAMPLED|-|1|9-11", {"12"});
  expect_origins(last, "hidden@-1|UNSAMPLED|UNSAMPLED|-|1|-");
  expect_origins(last, "hidden@-1|ORIGIN|ORIGIN|-|1|-", {"12", "9"});  // the more believed
}

TEST(Origin, IsNotTheLayerAfterOnesThatWereNotTraced) {
  expect_origins(
      "match x_in 4; match attn_out 4; match x_out 4; divergent x_in 8; divergent attn_out 8",
      "x_in@8|UNSAMPLED|UNSAMPLED|-|0|5-7\n"
      "attn_out@8|PROPAGATED|PROPAGATED|residual_pre_attn@8|0|-");
  expect_origins("drift x_in 4; drift x_in 8; drift mlp_out 8",
                 "x_in@4|UNSAMPLED|UNSAMPLED|-|0|0-3\n"
                 "x_in@8|PROPAGATED|PROPAGATED|residual_pre_attn@4|0|5-7\n"
                 "mlp_out@8|PROPAGATED|PROPAGATED|residual_pre_attn@8|0|-");
  expect_origins("match x_out 4; divergent attn_norm_out 6",
                 "attn_norm_out@6|UNSAMPLED|UNSAMPLED|-|0|5");
  // a copy of what was not traced
  expect_origins("match mlp_out 3; match residual_post_attn 3; divergent x_in 4",
                 "x_in@4|UNSAMPLED|UNSAMPLED|-|0|-");
  // the embedding is all that lies behind the other branch; then layers that were not traced
  expect_origins("match wo_out 0; divergent x_out 0; match wo_out 3; divergent ffn_norm_in 3",
                 "x_out@0|ORIGIN|ORIGIN|-|0|-\nffn_norm_in@3|PROPAGATED|PROPAGATED|x_out@0|0|1-2");
  expect_origins("match wo_out 3; divergent ffn_norm_in 3",
                 "ffn_norm_in@3|UNSAMPLED|UNSAMPLED|-|0|0-2");
}

TEST(Origin, NamesItsSegment) {
  Warehouse w;
  w.pairs("match x_in 0; divergent attn_out 0; match x_out 1; divergent q_pre_rope 2");
  EXPECT_EQ(w.rows("SELECT segment, untraced_layers FROM pair WHERE status = 'DRIFT'"
                   " ORDER BY layer"),
            "between residual_pre_attn and attn_out of layer 0|-\n"
            "between x_out of layer 1 and q_pre_rope of layer 2|-");
}

TEST(Origin, NumericallyIsBehindRounding) {
  // the input of k_post_rope differs by an unknown amount: not clean
  expect_origins(
      "rounding attn_norm_out 0; divergent q_pre_rope 0; drift k_pre_rope 0;"
      "divergent k_post_rope 0",
      "attn_norm_out@0|UNSAMPLED|UNSAMPLED|-|0|-\n"
      "q_pre_rope@0|PROPAGATED|ORIGIN|attn_norm_out@0|1|-\n"
      "k_pre_rope@0|PROPAGATED|ORIGIN|attn_norm_out@0|1|-\n"
      "k_post_rope@0|PROPAGATED|PROPAGATED|k_pre_rope@0|1|-");
}

TEST(Origin, IsNotWhatFollowsFromOtherFailures) {
  expect_origins("nonfinite attn_norm_out 0; drift q_pre_rope 0",
                 "attn_norm_out@0|UNSAMPLED|UNSAMPLED|-|0|-\n"
                 "q_pre_rope@0|PROPAGATED|PROPAGATED|attn_norm_out@0|1|-");
  expect_origins(
      "ambiguous v_proj 0; drift v_cache 0",
      "v_proj@0|UNSAMPLED|UNSAMPLED|-|0|-\nv_cache@0|PROPAGATED|PROPAGATED|v_proj@0|1|-");
  // what cannot be compared proves neither
  expect_origins("incomparable q_pre_rope 0; drift q_post_rope 0",
                 "q_post_rope@0|UNSAMPLED|UNSAMPLED|-|1|-");
  expect_origins(
      "incomparable q_post_rope 0; drift k_cache 0; drift attn_scores 0",
      "k_cache@0|UNSAMPLED|UNSAMPLED|-|0|-\nattn_scores@0|PROPAGATED|PROPAGATED|k_cache@0|1|-");
}

TEST(Origin, LooksPastInputsThatWereNotCompared) {
  expect_origins("match residual_pre_attn 0; missing attn_norm_out 0; drift q_pre_rope 0",
                 "q_pre_rope@0|ORIGIN|ORIGIN|-|0|-");
  Warehouse w;  // of another token, prompt or position
  w.add(prefill("attn_norm_out", 0, 1).token(5), decode("attn_norm_out", 0, 1).token(6),
        prefill("attn_norm_out", 0, 1).of("p1"), decode("attn_norm_out", 0, 2).of("p1"),
        prefill("attn_norm_out", 0, 1).at(36), decode("attn_norm_out", 0, 2).at(36));
  w.pairs("drift residual_pre_attn 0; drift q_pre_rope 0");
  EXPECT_EQ(w.rows("SELECT origin, caused_by, inputs_complete FROM pair"
                   " WHERE tensor = 'q_pre_rope' AND origin IS NOT NULL"),
            "PROPAGATED|residual_pre_attn@0|0");
}

TEST(Origin, OfAReportsPairsIsTheSame) {
  Warehouse w;
  w.report("final.md", 1000000,
           {{.prompt = "p", .layer = 4, .tensor = "x_out", .status = "MATCH"},
            {.prompt = "p", .layer = 8, .tensor = "x_in", .status = "DRIFT"},
            {.prompt = "p", .layer = 8, .tensor = "attn_out", .status = "DRIFT"}});
  EXPECT_EQ(w.rows("SELECT tensor, origin, untraced_layers FROM pair WHERE status = 'DRIFT'"
                   " ORDER BY tensor_id"),
            "x_in|UNSAMPLED|5-7\nattn_out|PROPAGATED|-");
}

}  // namespace
}  // namespace greta
