// The verdict of a run: the first line of the ladder in docs/design.md that applies.
#include <algorithm>
#include <functional>

#include "tests/queries/warehouse.h"

namespace greta {
namespace {

std::string verdict(Warehouse& w) { return w.rows("SELECT strict_verdict FROM run_verdict"); }
std::string acted_on(Warehouse& w) { return w.rows("SELECT verdict, gate FROM run_verdict"); }
std::string both(Warehouse& w) {
  return w.rows("SELECT strict_verdict, numeric_verdict FROM run_verdict");
}

// What a run may contain. Each is independent of the others.
const std::string kMissing = "x_out", kElsewhere = "wo_out", kPlanned = "mlp_out";

void add_fact(Warehouse& w, const std::string& fact) {
  if (fact == "match") w.match("q_pre_rope", 0);
  if (fact == "rounding") w.rounding("attn_norm_out", 0);
  if (fact == "divergent") w.divergent("attn_out", 0);
  if (fact == "unmeasured") w.drift("attn_probs", 0);
  if (fact == "nonfinite") w.add(prefill("k_cache", 0, 1).nans(1), decode("k_cache", 0, 1).nans(1));
  if (fact == "ambiguous")
    w.add(prefill("v_cache", 0, 1), prefill("v_cache", 0, 2), decode("v_cache", 0, 1));
  if (fact == "incomparable") w.incomparable("attn_scores", 0);
  if (fact == "missing") w.add(prefill(kMissing, 0, 1));
  if (fact == "elsewhere") w.add(prefill(kElsewhere, 0, 1), decode(kElsewhere, 0, 1).at(38));
  if (fact == "unmet") w.plan("p0", 0, 0, kPlanned);
  if (fact == "decode_only") w.add(decode("hidden", -1, 1).at(40));
  if (fact == "context") w.add(prefill("logits", -1, 1).at(-1));
  if (fact == "running" || fact == "failed" || fact == "complete") {
    w.db.exec("UPDATE run SET status = '" + fact + "'");
  }
}

struct LadderCase {
  std::vector<std::string> facts;
  std::string strict, numeric;
};

TEST(RunVerdict, FirstLineThatAppliesWins) {
  const std::vector<LadderCase> cases = {
      {{}, "NO_EVIDENCE", "NO_EVIDENCE"},
      {{"match"}, "PASS", "PASS"},
      {{"match", "complete"}, "PASS", "PASS"},
      {{"rounding"}, "FAIL", "PASS"},
      {{"rounding", "match"}, "FAIL", "PASS"},
      {{"divergent"}, "FAIL", "FAIL"},
      {{"unmeasured"}, "FAIL", "INCOMPARABLE"},
      {{"unmeasured", "match", "rounding"}, "FAIL", "INCOMPARABLE"},
      {{"nonfinite"}, "FAIL", "FAIL"},
      {{"ambiguous"}, "FAIL", "FAIL"},
      {{"incomparable"}, "INCOMPARABLE", "INCOMPARABLE"},
      {{"incomparable", "match"}, "INCOMPARABLE", "INCOMPARABLE"},
      {{"decode_only"}, "NO_EVIDENCE", "NO_EVIDENCE"},
      {{"decode_only", "match"}, "PASS", "PASS"},
      {{"context"}, "NO_EVIDENCE", "NO_EVIDENCE"},
      {{"context", "match"}, "PASS", "PASS"},
      {{"missing"}, "FAIL", "FAIL"},
      {{"missing", "match"}, "FAIL", "FAIL"},
      {{"elsewhere"}, "FAIL", "FAIL"},
      {{"running"}, "INCOMPLETE", "INCOMPLETE"},
      {{"failed"}, "INCOMPLETE", "INCOMPLETE"},
      {{"complete"}, "NO_EVIDENCE", "NO_EVIDENCE"},
      {{"unmet"}, "INCOMPLETE", "INCOMPLETE"},
      // precedence between the lines
      {{"unmet", "match", "complete"}, "INCOMPLETE", "INCOMPLETE"},
      {{"running", "match"}, "INCOMPLETE", "INCOMPLETE"},
      {{"running", "divergent"}, "FAIL", "FAIL"},
      {{"running", "nonfinite"}, "FAIL", "FAIL"},
      {{"running", "ambiguous"}, "FAIL", "FAIL"},
      {{"running", "rounding"}, "FAIL", "INCOMPLETE"},
      {{"running", "unmeasured"}, "FAIL", "INCOMPLETE"},
      {{"running", "missing"}, "INCOMPLETE", "INCOMPLETE"},
      {{"failed", "missing", "match"}, "INCOMPLETE", "INCOMPLETE"},
      {{"unmet", "missing"}, "INCOMPLETE", "INCOMPLETE"},
      {{"unmet", "elsewhere"}, "FAIL", "FAIL"},
      {{"running", "elsewhere", "match"}, "FAIL", "FAIL"},
      {{"unmet", "divergent"}, "FAIL", "FAIL"},
      {{"unmet", "rounding"}, "FAIL", "INCOMPLETE"},
      {{"running", "incomparable"}, "INCOMPLETE", "INCOMPLETE"},
      {{"unmet", "incomparable"}, "INCOMPLETE", "INCOMPLETE"},
      {{"missing", "incomparable"}, "FAIL", "FAIL"},
      {{"missing", "rounding"}, "FAIL", "FAIL"},
      {{"missing", "unmeasured"}, "FAIL", "FAIL"},
      {{"incomparable", "divergent"}, "FAIL", "FAIL"},
      {{"incomparable", "rounding"}, "FAIL", "INCOMPARABLE"},
      {{"decode_only", "incomparable"}, "INCOMPARABLE", "INCOMPARABLE"}};
  for (const LadderCase& c : cases) {
    Warehouse w;
    w.run();
    std::string name;
    for (const std::string& fact : c.facts) {
      add_fact(w, fact);
      name += fact + " ";
    }
    EXPECT_EQ(both(w), c.strict + "|" + c.numeric) << name;
    const auto has = [&c](const char* fact) {
      return std::find(c.facts.begin(), c.facts.end(), fact) != c.facts.end();
    };
    const bool nothing_measures = has("unmeasured") && !has("rounding") && !has("divergent");
    for (const char* mode : {"NULL", "'as_designed'", "'kv_aligned'", "'batch_invariant'"}) {
      w.db.exec(std::string("UPDATE run SET mode = ") + mode);
      const bool strictly = nothing_measures || std::string(mode) == "'batch_invariant'";
      EXPECT_EQ(acted_on(w), strictly ? c.strict + "|strict" : c.numeric + "|numeric")
          << name << mode;
    }
  }
}

TEST(RunVerdict, PassNeedsAPairWhateverElseIsThere) {
  // Every combination of facts without a pair.
  const std::vector<std::string> facts = {"missing", "elsewhere", "decode_only",
                                          "context", "unmet",     "running"};
  for (unsigned mask = 0; mask < 1u << facts.size(); ++mask) {
    Warehouse w;
    w.run();
    for (size_t i = 0; i < facts.size(); ++i) {
      if (mask >> i & 1u) add_fact(w, facts[i]);
    }
    EXPECT_EQ(
        w.rows(
            "SELECT pairs, 'PASS' IN (verdict, strict_verdict, numeric_verdict) FROM run_verdict"),
        "0|0")
        << mask;
  }
}

TEST(RunVerdict, OneRowPerRunWithItsAttributesAndCounts) {
  Warehouse w;
  w.run({.name = "2026-02-07/b3_66/as_designed",
         .experiment = "b3_66",
         .mode = "as_designed",
         .dtype = "bf16",
         .date = "2026-02-07",
         .commit = "abc"});
  for (const char* fact : {"match", "rounding", "divergent", "unmeasured", "nonfinite", "ambiguous",
                           "incomparable", "missing", "decode_only", "context"}) {
    add_fact(w, fact);
  }
  EXPECT_EQ(
      w.rows("SELECT run, experiment, mode, commit_sha, date, evidence, verdict,"
             " numeric_verdict, coverage, pairs, pass, fail, missing, decode_only,"
             " incomparable, prompt, layer, tensor, first_fail, root_cause,"
             " numeric_first_fail, numeric_layer, numeric_tensor FROM run_verdict"),
      "2026-02-07/b3_66/as_designed|b3_66|as_designed|abc|2026-02-07|trace|FAIL|FAIL|"
      "undeclared|7|1|5|1|1|1|p0|0|x_out|TRACE_OFFSET|PAIRING_MISMATCH|K_CACHE_DRIFT|0|k_cache");
  EXPECT_EQ(w.rows("SELECT rounding, divergent, unmeasured, unmet, status FROM run_verdict"),
            "1|1|1|0|unknown");
}

TEST(RunVerdict, ZeroRowsIsNoEvidence) {
  Warehouse w;
  w.run();
  EXPECT_EQ(
      w.rows("SELECT evidence, verdict, numeric_verdict, coverage, pairs, pass, fail, missing,"
             " decode_only, incomparable, prompt, layer, tensor, first_fail, root_cause,"
             " numeric_first_fail, numeric_layer, numeric_tensor FROM run_verdict"),
      "none|NO_EVIDENCE|NO_EVIDENCE|undeclared|0|0|0|0|0|0|-|-|-|-|-|-|-|-");
  EXPECT_EQ(w.rows("SELECT count(*) FROM first_fail"), "0");
}

TEST(RunVerdict, OnlyContextRowsIsNoEvidence) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1).at(-1), decode("attn_out", 0, 1).at(-1),
        prefill("attn_out", 0, 1).in("warmup"));
  EXPECT_EQ(w.rows("SELECT evidence, verdict, pairs, missing, decode_only FROM run_verdict"),
            "trace|NO_EVIDENCE|0|0|0");
}

TEST(RunVerdict, NothingOnThePrefillSideIsNoEvidence) {
  Warehouse w;
  w.add(decode("attn_out", 0, 1), decode("mlp_out", 0, 1));
  EXPECT_EQ(w.rows("SELECT verdict, decode_only FROM run_verdict"), "NO_EVIDENCE|2");
}

TEST(RunVerdict, OnlyExcusedPrefillRowsIsNoEvidence) {
  Warehouse w;
  w.add(prefill("attn_out", 0, 1).in("prefill"));
  EXPECT_EQ(verdict(w), "NO_EVIDENCE");
}

TEST(RunVerdict, AllMissingIsTraceOffset) {
  Warehouse w;  // prefill at 37, decode at 0: the synthetic b3_67 runs
  for (int layer : {0, 1, 2}) {
    w.add(prefill("x_in", layer, 1), decode("x_in", layer, 1).at(0).step(0));
  }
  EXPECT_EQ(w.rows("SELECT verdict, numeric_verdict, pairs, missing, decode_only, first_fail, layer"
                   " FROM run_verdict"),
            "FAIL|FAIL|0|3|3|TRACE_OFFSET|0");
}

TEST(RunVerdict, DecodeSideMissingElsewhereIsTraceOffsetBeforeIncomplete) {
  Warehouse w;
  w.run({.status = "running"});
  w.match("attn_out", 0);
  w.add(prefill("mlp_out", 0, 1).in("prefill").at(36), decode("mlp_out", 0, 1));
  EXPECT_EQ(w.rows("SELECT verdict, missing FROM run_verdict"), "FAIL|1");
}

TEST(RunVerdict, ElsewhereMeansTheSameLayerAndPromptAtAKnownPosition) {
  Warehouse w;
  w.run({.status = "running"});
  w.add(prefill("attn_out", 0, 1), decode("attn_out", 1, 1).at(38),
        decode("attn_out", 0, 1).at(38).of("p1"), decode("attn_out", 0, 1).at(-1),
        decode("mlp_out", 0, 1).at(38));
  EXPECT_EQ(w.rows("SELECT verdict, missing FROM run_verdict"), "INCOMPLETE|1");
}

TEST(RunVerdict, RunsDoNotMix) {
  Warehouse w;
  w.run({.name = "a"});
  w.match("attn_out", 0);
  w.run({.name = "b"});
  w.drift("attn_out", 0);
  w.run({.name = "c"});
  w.add(prefill("attn_out", 0, 1));
  w.run({.name = "d"});
  w.add(decode("attn_out", 0, 1));
  w.run({.name = "f"});
  EXPECT_EQ(w.rows("SELECT run, verdict, pairs FROM run_verdict ORDER BY run"),
            "a|PASS|1\nb|FAIL|1\nc|FAIL|0\nd|NO_EVIDENCE|0\nf|NO_EVIDENCE|0");
}

TEST(RunVerdict, DirectoryLevelThatOnlyCarriesAttributesIsNoRun) {
  Warehouse w;
  w.run({.name = "2026-02-07/b3_67"});
  w.run({.name = "2026-02-07/b3_67/seed_0"});
  w.run({.name = "2026-02-07/b3_67_v2"});
  EXPECT_EQ(w.rows("SELECT run FROM run_verdict ORDER BY run"),
            "2026-02-07/b3_67/seed_0\n2026-02-07/b3_67_v2");
  w.run({.name = "2026-02-08/b3_67"});
  w.match("attn_out", 0);
  w.run({.name = "2026-02-08/b3_67/seed_0"});
  EXPECT_EQ(w.rows("SELECT run FROM run_verdict WHERE run LIKE '2026-02-08%' ORDER BY run"),
            "2026-02-08/b3_67\n2026-02-08/b3_67/seed_0");
}

TEST(RunVerdict, ARunThatStartedOrWasPlannedIsNoDirectoryLevel) {
  Warehouse w;
  w.run({.name = "a", .status = "failed"});
  w.run({.name = "a/x"});
  w.run({.name = "b"});
  w.plan("p0", 0, 0, "attn_out");
  w.run({.name = "b/x"});
  EXPECT_EQ(w.rows("SELECT run, verdict FROM run_verdict ORDER BY run"),
            "a|INCOMPLETE\na/x|NO_EVIDENCE\nb|INCOMPLETE\nb/x|NO_EVIDENCE");
}

/// A planned run of one probe: two prompts, three layers, a head; all match.
void fill_planned_run(Warehouse& w) {
  w.run({.status = "complete"});
  for (const char* prompt : {"p0", "p1"}) {
    w.use_prompt(prompt);
    w.match("embed_out", 0);
    for (int layer : {0, 1}) {
      w.match("x_in", layer);
      w.match("attn_out", layer);
    }
    w.match("logits", -1);
  }
  w.plan_what_is_there();
}

TEST(RunVerdict, CompletePlannedRunPasses) {
  Warehouse w;
  fill_planned_run(w);
  EXPECT_EQ(w.rows("SELECT verdict, numeric_verdict, coverage, pairs FROM run_verdict"),
            "PASS|PASS|complete|12");
}

TEST(RunVerdict, DeletingAnySingleRowOfAPlannedPassIsIncomplete) {
  Warehouse w;
  fill_planned_run(w);
  for (int i = 0; i < 24; ++i) {
    w.db.exec("SAVEPOINT s");
    const std::string key = w.rows(
        "SELECT printf('prompt_id=%d AND side=%d AND layer=%d AND tensor_id=%d', prompt_id, side,"
        " layer, tensor_id) FROM trace_row ORDER BY 1 LIMIT 1 OFFSET " +
        std::to_string(i));
    EXPECT_EQ(w.db.exec("DELETE FROM trace_row WHERE " + key), 1);
    EXPECT_EQ(both(w), "INCOMPLETE|INCOMPLETE") << key;
    EXPECT_EQ(w.rows("SELECT unmet, missing, coverage <> 'complete' FROM run_verdict"), "1|1|1")
        << key;
    w.db.exec("ROLLBACK TO s; RELEASE s");
  }
  EXPECT_EQ(verdict(w), "PASS");
}

TEST(RunVerdict, DeletingAnyPairOfAPlannedPassIsIncomplete) {
  Warehouse w;
  fill_planned_run(w);
  for (const char* where : {"side = 0", "side = 1", "side >= 0"}) {
    for (const char* tensor : {"embed_out", "x_in", "attn_out", "logits"}) {
      w.db.exec("SAVEPOINT s");
      w.db.exec("DELETE FROM trace_row WHERE " + std::string(where) +
                " AND name_id = (SELECT id FROM tensor_name WHERE name = '" + tensor + "')");
      EXPECT_EQ(both(w), "INCOMPLETE|INCOMPLETE") << where << tensor;
      w.db.exec("ROLLBACK TO s; RELEASE s");
    }
  }
}

TEST(RunVerdict, PlannedRunWithoutAnyRowIsIncomplete) {
  Warehouse w;
  w.run({.status = "complete"});
  w.plan("p0", 0, 0, "attn_out");
  EXPECT_EQ(w.rows("SELECT verdict, unmet, pairs FROM run_verdict"), "INCOMPLETE|1|0");
}

TEST(RunVerdict, PlanHoldsPerPromptSideLayerAndCanonicalTensor) {
  Warehouse w;
  w.add(prefill("x_in", 0, 1), decode("residual_pre_attn", 0, 1));
  w.plan("p0", 0, 0, "residual_pre_attn");
  w.plan("p0", 1, 0, "rms_in");
  EXPECT_EQ(w.rows("SELECT verdict, unmet FROM run_verdict"), "PASS|0");
  w.plan("p1", 0, 0, "x_in");
  w.plan("p0", 0, 1, "x_in");
  EXPECT_EQ(w.rows("SELECT verdict, unmet FROM run_verdict"), "INCOMPLETE|2");
}

TEST(RunVerdict, FewerRowsThanTheRunSaysItWroteIsIncomplete) {
  Warehouse w;
  w.run({.status = "complete"});
  w.match("attn_out", 0);
  w.add(decode("attn_out", 0, 1).at(38));  // in no plan, for plans have no positions
  const auto state = [&w](int64_t rows) {
    w.db.exec("DELETE FROM attribute");
    w.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (1, 'trace_rows', '" +
              std::to_string(rows) + "', 0)");
    return w.rows("SELECT verdict, numeric_verdict, unmet FROM run_verdict");
  };
  EXPECT_EQ(state(2), "PASS|PASS|0");
  EXPECT_EQ(state(3), "PASS|PASS|0");
  EXPECT_EQ(state(4), "INCOMPLETE|INCOMPLETE|1");
  EXPECT_EQ(state(INT64_MAX), "INCOMPLETE|INCOMPLETE|9223372036854775804");
  w.db.exec(
      "INSERT INTO trace_repeat SELECT run_id, prompt_id, side, pos_id, layer, tensor_id, nth,"
      " 1 FROM trace_row WHERE pos_id = 38");
  EXPECT_EQ(state(4), "INCOMPLETE|INCOMPLETE|1") << "a row that came again may be of a copy";
  w.db.exec("UPDATE source SET shape = 'engine', duplicates = 1");
  EXPECT_EQ(state(4), "PASS|PASS|0") << "a row that an engine wrote twice counts twice";
  w.plan("p0", 0, 0, "attn_out");
  w.plan("p0", 0, 1, "attn_out");
  w.plan("p0", 1, 1, "attn_out");
  EXPECT_EQ(state(5), "INCOMPLETE|INCOMPLETE|2") << "the same loss is not counted twice";
  EXPECT_EQ(w.rows("SELECT count(*) FROM first_fail"), "0");
}

TEST(RunVerdict, Coverage) {
  struct Case {
    const char *name, *expected;
    std::function<void(Warehouse&)> fill;
  };
  const std::vector<Case> cases = {
      {"no plan", "undeclared", [](Warehouse& w) { w.match("attn_out", 0); }},
      {"plan met", "complete",
       [](Warehouse& w) {
         w.match("attn_out", 0);
         w.plan_what_is_there();
       }},
      {"a prefix", "sampled",
       [](Warehouse& w) {
         w.run({.name = "legacy", .hash_algo = "fnv-256"});
         w.match("attn_out", 0);
       }},
      {"a sample among full pairs, planned", "sampled", [](Warehouse& w) {
         w.match("attn_out", 0);
         w.add(prefill("mlp_out", 0).sampled({1}), decode("mlp_out", 0).sampled({1}));
         w.plan_what_is_there();
       }}};
  for (const Case& c : cases) {
    Warehouse w;
    c.fill(w);
    EXPECT_EQ(w.rows("SELECT coverage FROM run_verdict ORDER BY run_id DESC LIMIT 1"), c.expected)
        << c.name;
  }
}

TEST(RunVerdict, UnmetPlanIsNeverComplete) {
  Warehouse w;
  w.match("attn_out", 0);
  w.plan("p0", 0, 1, "attn_out");
  EXPECT_EQ(w.rows("SELECT coverage = 'complete', verdict FROM run_verdict"), "0|INCOMPLETE");
}

TEST(RunVerdict, BatchInvariantDemandsBitwise) {
  Warehouse w;
  w.run({.mode = "batch_invariant"});
  w.rounding("attn_out", 0);
  EXPECT_EQ(acted_on(w), "FAIL|strict");
  EXPECT_EQ(w.rows("SELECT prompt, first_fail FROM first_fail"), "p0|ATTN_OUT_DRIFT");
}

TEST(RunVerdict, NumericFirstFailIsFoundBehindRoundingInLayerZero) {
  Warehouse w;
  for (int layer = 0; layer < 12; ++layer) {
    w.rounding("x_in", layer);
    if (layer < 8)
      w.rounding("attn_out", layer);
    else
      w.divergent("attn_out", layer);
  }
  EXPECT_EQ(
      w.rows("SELECT strict_verdict, strict_first_fail, strict_layer, strict_tensor,"
             " numeric_verdict, numeric_first_fail, numeric_layer, numeric_tensor,"
             " numeric_origin, first_fail, layer, tensor FROM run_verdict"),
      "FAIL|X_IN_DRIFT|0|x_in|FAIL|ATTN_OUT_DRIFT|8|attn_out|ORIGIN|ATTN_OUT_DRIFT|8|attn_out");
  EXPECT_EQ(w.rows("SELECT strict_first_fail, strict_layer, numeric_first_fail, numeric_layer,"
                   " numeric_tensor, numeric_origin, first_fail, layer FROM first_fail"),
            "X_IN_DRIFT|0|ATTN_OUT_DRIFT|8|attn_out|ORIGIN|ATTN_OUT_DRIFT|8");
}

}  // namespace
}  // namespace greta
