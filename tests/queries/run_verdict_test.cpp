// The verdict of a run: the first line of the ladder in docs/design.md that applies.
#include <algorithm>
#include <tuple>

#include "tests/queries/warehouse.h"

namespace greta {
namespace {

std::string both(Warehouse& w) {
  return w.rows("SELECT strict_verdict, numeric_verdict FROM run_verdict");
}

// What a run may contain. Each is independent of the others.

void add_fact(Warehouse& w, const std::string& fact) {
  if (fact == "match") w.match("q_pre_rope", 0);
  if (fact == "rounding") w.rounding("attn_norm_out", 0);
  if (fact == "divergent") w.divergent("attn_out", 0);
  if (fact == "unmeasured") w.drift("attn_probs", 0);
  if (fact == "nonfinite") w.nonfinite("k_cache", 0);
  if (fact == "ambiguous") w.ambiguous("v_cache", 0);
  if (fact == "incomparable") w.incomparable("attn_scores", 0);
  if (fact == "missing") w.missing("x_out", 0);
  if (fact == "elsewhere") w.add(prefill("wo_out", 0, 1), decode("wo_out", 0, 1).at(38));
  if (fact == "unmet") w.plan("p0", 0, 0, "mlp_out");
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
      EXPECT_EQ(w.rows("SELECT verdict, gate FROM run_verdict"),
                strictly ? c.strict + "|strict" : c.numeric + "|numeric")
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
}

TEST(RunVerdict, ElsewhereMeansTheSameLayerAndPromptAtAKnownPosition) {
  Warehouse w;
  w.run({.status = "running"});
  w.add(prefill("attn_out", 0, 1), decode("attn_out", 1, 1).at(38),
        decode("attn_out", 0, 1).at(38).of("p1"), decode("attn_out", 0, 1).at(-1),
        decode("mlp_out", 0, 1).at(38));
  EXPECT_EQ(w.rows("SELECT verdict, missing FROM run_verdict"), "INCOMPLETE|1");
  w.add(prefill("mlp_out", 0, 1).in("prefill").at(36), decode("mlp_out", 0, 1));
  EXPECT_EQ(w.rows("SELECT verdict, missing FROM run_verdict"), "FAIL|2") << "of decode, too";
}

TEST(RunVerdict, RunsDoNotMix) {
  Warehouse w;
  for (const auto& [run, pairs] :
       {std::pair("a", "match attn_out 0"), std::pair("b", "drift attn_out 0"),
        std::pair("c", "missing attn_out 0"), std::pair("d", "none")}) {
    w.run({.name = run});
    w.pairs(pairs);
  }
  EXPECT_EQ(w.rows("SELECT run, verdict, pairs FROM run_verdict ORDER BY run"),
            "a|PASS|1\nb|FAIL|1\nc|FAIL|0\nd|NO_EVIDENCE|0");
}

TEST(RunVerdict, DirectoryLevelThatOnlyCarriesAttributesIsNoRun) {
  Warehouse w;
  for (const char* name : {"a", "a/x", "a_v2", "b/x", "c/x", "d/x"}) w.run({.name = name});
  // runs that have rows, that ended, that were planned
  w.run({.name = "b"});
  w.match("attn_out", 0);
  w.run({.name = "c", .status = "failed"});
  w.run({.name = "d"});
  w.plan("p0", 0, 0, "attn_out");
  EXPECT_EQ(w.rows("SELECT group_concat(run || ' ' || verdict, ', ') FROM"
                   " (SELECT * FROM run_verdict ORDER BY run)"),
            "a/x NO_EVIDENCE, a_v2 NO_EVIDENCE, b PASS, b/x NO_EVIDENCE, c INCOMPLETE,"
            " c/x NO_EVIDENCE, d INCOMPLETE, d/x NO_EVIDENCE");
}

TEST(RunVerdict, DeletingAnySingleRowOfAPlannedPassIsIncomplete) {
  Warehouse w;  // one probe: two prompts, two layers, a head; all match
  w.run({.status = "complete"});
  for (const char* prompt : {"p0", "p1"}) {
    w.use_prompt(prompt);
    w.pairs(
        "match embed_out 0; match x_in 0; match attn_out 0; match x_in 1; match attn_out 1;"
        "match logits -1");
  }
  w.plan_what_is_there();
  const char* const verdict =
      "SELECT strict_verdict, numeric_verdict, coverage, unmet, missing FROM run_verdict";
  EXPECT_EQ(w.rows(verdict), "PASS|PASS|complete|0|0");
  for (int i = 0; i < 24; ++i) {
    w.db.exec("SAVEPOINT s");
    const std::string key = w.rows(
        "SELECT printf('prompt_id=%d AND side=%d AND layer=%d AND tensor_id=%d', prompt_id, side,"
        " layer, tensor_id) FROM trace_row ORDER BY 1 LIMIT 1 OFFSET " +
        std::to_string(i));
    EXPECT_EQ(w.db.exec("DELETE FROM trace_row WHERE " + key), 1);
    EXPECT_EQ(w.rows(verdict), "INCOMPLETE|INCOMPLETE|unmet|1|1") << key;
    w.db.exec("ROLLBACK TO s; RELEASE s");
  }
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

TEST(RunVerdict, APlanIsNotMetByWhatNothingCanBeComparedWith) {
  const Row lone = prefill("mlp_out", 0, 1).in("prefill").at(5);
  for (const auto& [row, verdict] : {std::pair(lone, "PASS|PASS"),
                                     {lone.at(-1), "INCOMPLETE|INCOMPLETE"},
                                     {lone.flagged(kFlagClaimed), "INCOMPLETE|INCOMPLETE"}}) {
    Warehouse w;
    w.match("x_in", 0);
    w.add(row);
    w.plan("p0", 0, 0, "mlp_out");
    EXPECT_EQ(both(w), verdict);
  }
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
  w.add(prefill("mlp_out", 0, 1).in("prefill").at(5).flagged(kFlagClaimed));
  EXPECT_EQ(state(4), "INCOMPLETE|INCOMPLETE|1") << "a row of a document is none that it wrote";
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
}

TEST(RunVerdict, AnAnnouncedPromptWithoutRowsDoesNotPass) {
  Warehouse w;
  w.run({.status = "complete"});
  w.match("attn_out", 0);
  w.report("report.md", 1, {{.prompt = "q", .layer = 0, .tensor = "attn_out", .status = "MATCH"}});
  w.db.exec(
      "INSERT INTO prompt(run_id, name, n_tokens) VALUES (1, 'logged', 7);"
      "INSERT INTO run_metric(run_id, prompt, name, value, text, source_id)"
      " SELECT 1, 'logged', 'prompt_tokens', 7, '7', max(id) FROM source");
  EXPECT_EQ(w.rows("SELECT verdict, unmet FROM run_verdict"), "PASS|0") << "only others tell of it";
  w.db.exec("INSERT INTO prompt(run_id, name, token_ids) VALUES (1, 'untraced', '[1]')");
  EXPECT_EQ(w.rows("SELECT strict_verdict, numeric_verdict, unmet, coverage FROM run_verdict"),
            "INCOMPLETE|INCOMPLETE|1|undeclared");
  w.add(decode("attn_out", 0, 1).of("untraced").flagged(kFlagClaimed));
  EXPECT_EQ(w.rows("SELECT unmet FROM run_verdict"), "1") << "a row of a document is none";
  w.add(decode("x_in", 0, 1).of("untraced"));
  EXPECT_EQ(w.rows("SELECT unmet FROM run_verdict"), "0");
}

TEST(RunVerdict, WhatWasNotTakenOrNotEndedDoesNotPass) {
  const std::string rejects =
      "INSERT INTO ingest_error(source_id, file, line, severity, reason)"
      " SELECT min(source_id), 'f', 1, '";
  const std::string of_source = "' FROM trace_row";
  const std::string open =
      "INSERT INTO ingest VALUES (1, '2026-01-01T00:00:00Z', 'h', 1, 'p', '', '[]');"
      "INSERT INTO ingest_run SELECT id, 1 FROM run";
  for (const auto& [pairs, by_hand, expected] :
       {std::tuple("match x_in 0", rejects + "warning', 'odd" + of_source, "PASS|PASS|0|0"),
        {"match x_in 0", rejects + "error', 'not JSON" + of_source, "INCOMPLETE|INCOMPLETE|1|0"},
        {"divergent x_in 0", rejects + "error', 'not JSON" + of_source, "FAIL|FAIL|1|0"},
        {"match x_in 0", open, "INCOMPLETE|INCOMPLETE|0|1"}}) {
    Warehouse w;
    w.pairs(pairs);
    w.db.exec(by_hand);
    EXPECT_EQ(w.rows("SELECT strict_verdict, numeric_verdict, rejected, ingest_open"
                     " FROM run_verdict"),
              expected)
        << pairs << by_hand;
  }
}

TEST(RunVerdict, AnArchiveThatWasNotReadDoesNotPassForItsRuns) {
  Warehouse w;
  for (const char* name : {"d/a", "d/a/b", "d/ab"}) {
    w.run({.name = name});
    w.match("x_in", 0);
  }
  w.db.exec(
      "INSERT INTO ingest_error(file, line, severity, reason, about)"
      " VALUES ('d/a/x.tgz', 0, 'error', 'truncated', 'd/a')");
  EXPECT_EQ(w.rows("SELECT run, verdict FROM run_verdict ORDER BY run"),
            "d/a|INCOMPLETE\nd/a/b|INCOMPLETE\nd/ab|PASS");
}

TEST(RunVerdict, Coverage) {
  const Row match[] = {prefill("attn_out", 0, 1), decode("attn_out", 0, 1)};
  const Row sample[] = {prefill("mlp_out", 0).sampled({1}), decode("mlp_out", 0).sampled({1})};
  const auto coverage = [&](const char* algo, bool is_planned, const std::vector<Row>& more) {
    Warehouse w;
    w.run({.hash_algo = algo});
    w.add(match[0], match[1]);
    if (is_planned) w.plan_what_is_there();
    for (const Row& row : more) w.add(row);
    return w.rows("SELECT verdict, coverage, prefill_only FROM run_verdict");
  };
  EXPECT_EQ(coverage("greta-1", false, {}), "PASS|undeclared|0");
  EXPECT_EQ(coverage("greta-1", true, {}), "PASS|complete|0");
  EXPECT_EQ(coverage("fnv-256", false, {}), "PASS|sampled|0");
  EXPECT_EQ(coverage("greta-1", true, {sample[0], sample[1]}), "PASS|sampled|0");
  EXPECT_EQ(coverage("greta-1", true, {match[0].in("prefill").at(3)}), "PASS|partial|1");
  EXPECT_EQ(coverage("greta-1", true, {match[0].at(-1)}), "PASS|partial|0");
  EXPECT_EQ(coverage("greta-1", true, {match[1].at(-1)}), "PASS|partial|0");
}

// Values that are not finite fail their run, wherever they are.

TEST(Nonfinite, ARowThatHasNoPartnerFailsItsRun) {
  const Row later = decode("attn_out", 0, 5).in("decode").at(40).step(4);
  const Row earlier = prefill("attn_out", 0, 5).in("prefill").at(3);
  for (const Row& row :
       {later.nans(1), later.infs(1), later.flagged(kFlagNonfiniteStatistic), earlier.nans(1),
        earlier.at(-1).nans(1), decode("attn_out", 0, 5).at(-1).infs(2)}) {
    Warehouse w;
    w.match("x_in", 0);
    w.add(row,
          row.in(row.phase == "prefill" ? "decode" : "prefill").at(-1).nans(0).infs(0).flagged(0));
    EXPECT_EQ(w.rows("SELECT verdict, numeric_verdict, pairs, pass, fail, nonfinite, first_fail,"
                     " layer, tensor, prompt, pos_id FROM run_verdict"),
              "FAIL|FAIL|1|1|1|1|ATTN_OUT_DRIFT|0|attn_out|p0|" +
                  (row.pos_id < 0 ? std::string("-") : std::to_string(row.pos_id)));
  }
}

TEST(Nonfinite, ItsPlaceIsThatOfTheFirstInForwardOrder) {
  Warehouse w;
  w.match("x_in", 0);
  for (int64_t pos : {40, 41}) {
    for (const char* tensor : {"x_in", "attn_out", "x_out"}) {
      const Row row = decode(tensor, 2, 5).in("decode").at(pos).step(pos - 36);
      w.add(pos == 41 && tensor != std::string("x_in") ? row.nans(3) : row);
    }
  }
  EXPECT_EQ(w.rows("SELECT decode_only, fail, layer, tensor, pos_id, numeric_tensor, numeric_pos_id"
                   " FROM run_verdict"),
            "4|2|2|attn_out|41|attn_out|41");
  EXPECT_EQ(w.rows("SELECT details FROM first_fail"),
            "NONFINITE: nan=3 inf=0, in a row of decode that has no partner");
  EXPECT_EQ(w.rows("SELECT tensor, origin, caused_by, details FROM pair WHERE status = 'NONFINITE'"
                   " ORDER BY tensor_id"),
            "attn_out|ORIGIN|-|nan=3 inf=0, in a row without a partner\n"
            "x_out|PROPAGATED|attn_out@2|nan=3 inf=0, in a row without a partner");
}

// What double arithmetic refutes.

void add_readout(Warehouse& w, int side, int pos, const std::string& errors) {
  w.db.exec(
      "INSERT INTO readout(run_id, prompt_id, side, step, pos_id, name_id, source_id, line,"
      " norm_error, logits_error) SELECT " +
      std::to_string(w.current_run()) + ", " + std::to_string(w.prompt_id("p0")) + ", " +
      std::to_string(side) + ", " + std::to_string(side) + ", " + std::to_string(pos) + ", id, " +
      std::to_string(w.trace_source()) + ", 1, " + errors +
      " FROM tensor_name WHERE name = 'logits'");
}

TEST(Refuted, AnErrorThatBothPhasesMakeAlikeFails) {
  Warehouse w;
  w.run({.dtype = "f32"});
  w.pairs("match final_norm -1; match logits -1");
  add_readout(w, 0, 37, "0.3, 1e-6");
  add_readout(w, 1, 37, "0.3, 1e-6");
  EXPECT_EQ(w.rows("SELECT verdict, numeric_verdict, pairs, pass, fail, first_fail, root_cause,"
                   " layer, tensor, pos_id FROM run_verdict"),
            "FAIL|FAIL|2|2|2|FINAL_NORM_REFUTED|NORMALIZATION_MISMATCH|-1|final_norm|37");
  EXPECT_EQ(w.rows("SELECT details FROM first_fail"),
            "REFUTED: prefill at step 0 is rel_l2=0.3 from double arithmetic");
  EXPECT_EQ(w.rows("SELECT cause, count FROM failure_breakdown"), "FINAL_NORM_REFUTED|2");
}

TEST(Refuted, LogitsBeyondTheToleranceOfTheRunsArithmeticFail) {
  for (const auto& [dtype, error, verdict] :
       {std::tuple("f32", "9e-5", "PASS"), std::tuple("f32", "2e-4", "FAIL"),
        std::tuple("f16", "2e-4", "PASS"), std::tuple("f16", "2e-2", "FAIL"),
        std::tuple("f16", "1e30", "FAIL"), std::tuple("f16", "NULL", "PASS")}) {
    Warehouse w;
    w.run({.dtype = dtype});
    w.match("logits", -1);
    add_readout(w, 1, 37, std::string("NULL, ") + error);
    EXPECT_EQ(w.rows("SELECT verdict FROM run_verdict"), verdict) << dtype << error;
  }
}

}  // namespace
}  // namespace greta
