// Do prefill and decode attend over the same keys and values, and does it matter if not?
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

/// One layer of attention: the state of each tensor, as Warehouse::pairs has it.
struct Block {
  std::string q = "match", k = "match", v = "match", attn_out = "match", scores = "none",
              probs = "none", k_cache = "none", v_cache = "none", mode = "as_designed",
              k_rows = "none", v_rows = "none";
};

void fill(Warehouse& w, const Block& block) {
  w.run({.mode = block.mode});
  for (const auto& [tensor, state] : {std::pair("q_post_rope", &block.q),
                                      {"k_post_rope", &block.k},
                                      {"v_proj", &block.v},
                                      {"attn_out", &block.attn_out},
                                      {"attn_scores", &block.scores},
                                      {"attn_probs", &block.probs},
                                      {"k_cache", &block.k_cache},
                                      {"v_cache", &block.v_cache},
                                      {"k_cache_rows", &block.k_rows},
                                      {"v_cache_rows", &block.v_rows}}) {
    w.pairs(*state + " " + tensor + " 0");
  }
}

std::string ask(const Block& block, const std::string& columns) {
  Warehouse w;
  fill(w, block);
  return w.rows("SELECT " + columns + " FROM kv_alignment");
}

TEST(KvAlignment, InterpretationIsTheFirstLineThatApplies) {
  const std::pair<Block, const char*> cases[] = {
      {{}, "ALIGNED"},
      {{.q = "rounding"}, "ALIGNED"},
      {{.attn_out = "rounding"}, "ALIGNED"},
      {{.scores = "match", .probs = "rounding"}, "ALIGNED"},
      {{.q = "divergent"}, "Q_MISMATCH"},
      {{.q = "nonfinite"}, "Q_MISMATCH"},
      {{.q = "divergent", .k = "divergent", .attn_out = "divergent"}, "Q_MISMATCH"},
      {{.k = "divergent", .attn_out = "divergent"}, "REAL_MISMATCH"},
      {{.v = "rounding", .attn_out = "divergent"}, "REAL_MISMATCH"},
      {{.q = "rounding", .k = "drift", .attn_out = "divergent"}, "REAL_MISMATCH"},
      {{.k = "divergent"}, "STRUCTURAL_DRIFT"},
      {{.k = "rounding", .attn_out = "rounding"}, "STRUCTURAL_DRIFT"},
      {{.v = "drift"}, "STRUCTURAL_DRIFT"},
      {{.v = "divergent", .scores = "divergent"}, "STRUCTURAL_DRIFT"},
      {{.attn_out = "divergent"}, "KV_MISALIGNMENT"},
      {{.scores = "divergent"}, "KV_MISALIGNMENT"},
      {{.probs = "divergent"}, "KV_MISALIGNMENT"},
      {{.q = "rounding", .attn_out = "nonfinite"}, "KV_MISALIGNMENT"},
      {{.k_cache = "divergent"}, "KV_MISALIGNMENT"},
      {{.k = "rounding", .v_cache = "nonfinite"}, "KV_MISALIGNMENT"},
      {{.k_rows = "divergent", .v_rows = "match"}, "KV_MISALIGNMENT"},
      {{.v = "rounding", .k_rows = "match", .v_rows = "nonfinite"}, "KV_MISALIGNMENT"},
      {{.k_rows = "rounding", .v_rows = "match"}, "ALIGNED"},
      {{.k = "divergent", .k_cache = "divergent", .k_rows = "divergent"}, "STRUCTURAL_DRIFT"},
      {{.q = "close", .attn_out = "close", .scores = "close", .k_cache = "close"}, "ALIGNED"},
      {{.k = "close", .attn_out = "rounding"}, "STRUCTURAL_DRIFT"},
      {{.v = "close", .scores = "divergent"}, "KV_MISALIGNMENT"}};
  for (const auto& [block, expected] : cases) {
    EXPECT_EQ(ask(block, "interpretation"), expected)
        << block.q << " " << block.k << " " << block.v << " " << block.attn_out;
  }
}

TEST(KvAlignment, WhatIsMissingOrUnmeasuredIsUnknownUnlessTheRestDecides) {
  for (const char* state : {"none", "missing", "incomparable"}) {
    EXPECT_EQ(ask({.q = state}, "interpretation"), "UNKNOWN") << state;
    EXPECT_EQ(ask({.k = state}, "interpretation"), "UNKNOWN") << state;
    EXPECT_EQ(ask({.v = state}, "interpretation"), "UNKNOWN") << state;
    EXPECT_EQ(ask({.attn_out = state}, "interpretation"), "UNKNOWN") << state;
    EXPECT_EQ(ask({.k = "divergent", .attn_out = state}, "interpretation"), "UNKNOWN") << state;
    EXPECT_EQ(ask({.q = "divergent", .k = state}, "interpretation"), "Q_MISMATCH") << state;
    EXPECT_EQ(ask({.k = "divergent", .v = state, .attn_out = "divergent"}, "interpretation"),
              "REAL_MISMATCH")
        << state;
  }
  // a drift of unknown size is neither beyond rounding nor within it
  EXPECT_EQ(ask({.q = "drift"}, "interpretation"), "UNKNOWN");
  EXPECT_EQ(ask({.attn_out = "drift"}, "interpretation"), "UNKNOWN");
  EXPECT_EQ(ask({.k = "divergent", .attn_out = "drift"}, "interpretation"), "UNKNOWN");
  EXPECT_EQ(ask({.scores = "drift"}, "interpretation"), "UNKNOWN");
  EXPECT_EQ(ask({.probs = "missing"}, "interpretation"), "UNKNOWN");
  for (const char* state : {"drift", "missing", "incomparable"}) {
    EXPECT_EQ(ask({.k_cache = state}, "interpretation"), "UNKNOWN") << state;
    EXPECT_EQ(ask({.v_cache = state}, "interpretation"), "UNKNOWN") << state;
    EXPECT_EQ(ask({.k_rows = state}, "interpretation"), "UNKNOWN") << state;
    EXPECT_EQ(ask({.v_rows = state}, "interpretation"), "UNKNOWN") << state;
  }
}

TEST(KvAlignment, EqualSketchesAloneAreWithinRoundingButNotEqual) {
  EXPECT_EQ(ask({.k = "close", .v = "close", .attn_out = "close", .scores = "close"},
                "k_match, v_match, k_class, v_class, attn_out_class, scores_class, status"),
            "-|-|ROUNDING|ROUNDING|ROUNDING|ROUNDING|KV_MISMATCH");
}

TEST(KvAlignment, CacheRowsUpToThePositionMustBeEqualWhereTheyWereTraced) {
  for (const char* mode : {"as_designed", "kv_aligned"}) {
    const auto status = [&](const std::string& k_rows, const std::string& v_rows) {
      return ask({.k_cache = "match",
                  .v_cache = "match",
                  .mode = mode,
                  .k_rows = k_rows,
                  .v_rows = v_rows},
                 "cache_rows_match, status");
    };
    EXPECT_EQ(status("match", "match"), "1|PASS") << mode;
    EXPECT_EQ(status("none", "none"), "-|PASS") << mode;
    for (const char* state : {"rounding", "divergent", "drift", "nonfinite"}) {
      EXPECT_EQ(status(state, "match"), "0|KV_MISMATCH") << mode << " " << state;
      EXPECT_EQ(status("match", state), "0|KV_MISMATCH") << mode << " " << state;
    }
    for (const char* state : {"missing", "incomparable", "close"}) {
      EXPECT_EQ(status(state, "match"), "-|KV_MISMATCH") << mode << " " << state;
      EXPECT_EQ(status("match", state), "-|KV_MISMATCH") << mode << " " << state;
    }
  }
}

TEST(KvAlignment, MatchesAndClasses) {
  EXPECT_EQ(ask({.q = "rounding",
                 .k = "divergent",
                 .v = "drift",
                 .attn_out = "rounding",
                 .scores = "divergent",
                 .probs = "drift",
                 .k_cache = "match",
                 .v_cache = "match"},
                "run, prompt, layer, pos_id, k_match, v_match, q_match, cache_match, k_class,"
                " v_class, scores_class, probs_class, attn_out_class, kv_aligned"),
            "r|p0|0|37|0|0|0|1|DIVERGENT|UNKNOWN|DIVERGENT|UNKNOWN|ROUNDING|0");
  EXPECT_EQ(ask({}, "k_match, v_match, q_match, cache_match, k_class, v_class, kv_aligned"),
            "1|1|1|-|-|-|1");
  EXPECT_EQ(ask({.k = "incomparable", .v = "missing"}, "k_match, v_match, q_match, kv_aligned"),
            "-|-|1|-");
}

TEST(KvAlignment, CacheMatchNeedsBothCachesBitwise) {
  EXPECT_EQ(ask({.k_cache = "match", .v_cache = "match"}, "cache_match"), "1");
  EXPECT_EQ(ask({.k_cache = "match", .v_cache = "rounding"}, "cache_match"), "0");
  EXPECT_EQ(ask({.k_cache = "drift", .v_cache = "match"}, "cache_match"), "0");
  EXPECT_EQ(ask({.k_cache = "match"}, "cache_match"), "-");
}

TEST(KvAlignment, KvAlignedModeRequiresTheCacheBitwise) {
  const std::string mode = "kv_aligned";
  EXPECT_EQ(ask({.k_cache = "match", .v_cache = "match", .mode = mode}, "status"), "PASS");
  // decode's own K and V may differ, it attends over those of prefill
  EXPECT_EQ(ask({.k = "divergent", .k_cache = "match", .v_cache = "match", .mode = mode}, "status"),
            "PASS");
  for (const char* state : {"none", "missing", "incomparable", "rounding", "drift", "nonfinite"}) {
    EXPECT_EQ(ask({.k_cache = state, .v_cache = "match", .mode = mode}, "status"), "KV_MISMATCH")
        << state;
    EXPECT_EQ(ask({.k_cache = "match", .v_cache = state, .mode = mode}, "status"), "KV_MISMATCH")
        << state;
  }
}

TEST(KvAlignment, OtherModesRequireKAndVBitwise) {
  for (const char* mode : {"as_designed", "batch_invariant"}) {
    EXPECT_EQ(ask({.mode = mode}, "status"), "PASS");
    EXPECT_EQ(ask({.q = "divergent", .attn_out = "divergent", .mode = mode}, "status"), "PASS");
    for (const char* state :
         {"none", "missing", "incomparable", "rounding", "drift", "nonfinite"}) {
      EXPECT_EQ(ask({.k = state, .mode = mode}, "status"), "KV_MISMATCH") << state;
      EXPECT_EQ(ask({.v = state, .mode = mode}, "status"), "KV_MISMATCH") << state;
    }
    EXPECT_EQ(ask({.k_cache = "match", .v_cache = "match", .mode = mode}, "status"), "PASS");
    for (const char* state : {"missing", "incomparable", "rounding", "drift", "nonfinite"}) {
      EXPECT_EQ(ask({.k_cache = state, .v_cache = "match", .mode = mode}, "status"), "KV_MISMATCH")
          << state;
    }
  }
}

TEST(KvAlignment, RowsThatDecodeLostShowAsUnknown) {
  Warehouse w;  // a whole layer is gone on one side: it may not silently drop out
  w.pairs("match k_post_rope 0; match v_proj 0; match attn_out 3");
  w.add(prefill("k_post_rope", 1, 1), prefill("v_proj", 1, 1), decode("k_post_rope", 2, 1));
  // decode steps beyond the prompt are no rows, nor is a layer without K and V
  w.add(decode("k_post_rope", 0, 1).at(38), prefill("v_proj", 0, 1).in("prefill").at(3));
  EXPECT_EQ(w.rows("SELECT layer, pos_id, k_match, v_match, interpretation, status, mode"
                   " FROM kv_alignment"),
            "0|37|1|1|UNKNOWN|PASS|-\n1|37|-|-|UNKNOWN|KV_MISMATCH|-\n"
            "2|37|-|-|UNKNOWN|KV_MISMATCH|-");
}

TEST(KvAlignment, OneRowPerPromptLayerAndPosition) {
  Warehouse w;
  for (const char* prompt : {"p0", "p1"}) {
    w.use_prompt(prompt);
    for (int layer : {0, 1}) w.match("k_post_rope", layer);
    w.add(prefill("k_post_rope", 0, 1).in("prefill").at(36), decode("k_post_rope", 0, 1).at(36));
  }
  EXPECT_EQ(w.rows("SELECT prompt, pos_id, layer FROM kv_alignment"),
            "p0|36|0\np0|37|0\np0|37|1\np1|36|0\np1|37|0\np1|37|1");
}

// lm_head_delta

struct Readout {
  std::string prompt;
  int side, step, pos;
  std::string tensor = "logits";
  std::string values;  // top1_id, gap, route, cpu_top1_id, cpu_agrees
};

void add_readout(Warehouse& w, const Readout& r) {
  const std::string prompt = std::to_string(w.prompt_id(r.prompt)),
                    run = std::to_string(w.current_run());
  w.db.exec(
      "INSERT INTO readout(run_id, prompt_id, side, step, pos_id, name_id, source_id, line,"
      " top1_id, gap, route, cpu_top1_id, cpu_agrees) SELECT " +
      run + ", " + prompt + ", " + std::to_string(r.side) + ", " + std::to_string(r.step) + ", " +
      std::to_string(r.pos) + ", id, " + std::to_string(w.trace_source()) + ", 1, " + r.values +
      " FROM tensor_name WHERE name = '" + r.tensor + "'");
}

TEST(LmHeadDelta, PairsByPromptAndOrderAndNamesTheRouteTheCpuContradicts) {
  Warehouse w;  // the four lines of seed 003
  w.run({.name = "2026-02-03/b3_13", .experiment = "b3_13"});
  add_readout(w, {"p4_sys", 0, 0, 204, "logits", "79, 0.993584, 'MFMA', 127158, 0"});
  add_readout(w, {"p4_sys", 1, 1, 205, "logits", "96965, 1.41033, 'VALU', 96965, 1"});
  add_readout(w, {"p5_ba", 0, 0, 44, "logits", "79, 0.992851, 'MFMA', 127158, 0"});
  add_readout(w, {"p5_ba", 1, 1, 45, "logits", "96965, 1.41656, 'VALU', 96965, 1"});
  EXPECT_EQ(w.rows("SELECT run, prompt, prefill_route, decode_route, prefill_top1, decode_top1,"
                   " printf('%.4f', prefill_gap), printf('%.4f', decode_gap),"
                   " cpu_probe_agrees_prefill, cpu_probe_agrees_decode, suspect FROM lm_head_delta"
                   " ORDER BY prompt"),
            "2026-02-03/b3_13|p4_sys|MFMA|VALU|79|96965|0.9936|1.4103|0|1|MFMA\n"
            "2026-02-03/b3_13|p5_ba|MFMA|VALU|79|96965|0.9929|1.4166|0|1|MFMA");
}

TEST(LmHeadDelta, TakesTheLastPrefillAndTheFirstDecodeReadout) {
  Warehouse w;
  for (int pos : {0, 5, 9}) {
    add_readout(w, {"p", 0, 0, pos, "logits", std::to_string(pos) + ", 1, NULL, NULL, NULL"});
  }
  for (int step : {3, 1, 2}) {
    add_readout(w,
                {"p", 1, step, 9 + step, "logits", std::to_string(step) + ", 2, NULL, NULL, NULL"});
  }
  EXPECT_EQ(w.rows("SELECT prefill_top1, decode_top1, prefill_pos_id, decode_pos_id, suspect,"
                   " prefill_route FROM lm_head_delta"),
            "9|1|9|10|-|-");
}

TEST(LmHeadDelta, SuspectIsTheRouteThatTheProbeContradicts) {
  const char* cases[][3] = {{"'MFMA', 1, 1", "'VALU', 1, 1", "-"},
                            {"'MFMA', 1, 1", "'VALU', 1, 0", "VALU"},
                            {"'MFMA', 1, 0", "'VALU', 1, 0", "MFMA and VALU"},
                            {"'VALU', 1, 0", "'VALU', 1, 0", "VALU"},
                            {"'MFMA', NULL, NULL", "'VALU', 1, 1", "-"},
                            {"NULL, 1, 0", "NULL, 1, 1", "prefill"},
                            {"NULL, 1, 1", "NULL, 1, 0", "decode"},
                            {"'MFMA', NULL, NULL", "'VALU', NULL, NULL", "-"}};
  for (const auto& c : cases) {
    Warehouse w;
    add_readout(w, {"p", 0, 0, 9, "logits", std::string("1, 1, ") + c[0]});
    add_readout(w, {"p", 1, 1, 10, "logits", std::string("2, 1, ") + c[1]});
    EXPECT_EQ(w.rows("SELECT suspect FROM lm_head_delta"), c[2]) << c[0] << " / " << c[1];
  }
}

TEST(LmHeadDelta, OneSideAloneIsNoRow) {
  Warehouse w;
  add_readout(w, {"p", 0, 0, 9, "logits", "1, 1, NULL, NULL, NULL"});
  add_readout(w, {"q", 1, 1, 9, "logits", "1, 1, NULL, NULL, NULL"});
  add_readout(w, {"p", 1, 1, 9, "logits_topk", "1, 1, NULL, NULL, NULL"});
  EXPECT_EQ(w.rows("SELECT * FROM lm_head_delta"), "");
}

}  // namespace
}  // namespace greta
