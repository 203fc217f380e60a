// The answer of the gate, of any run and baseline, and what is said of it.
#include "tests/cli/greta_db/gate_fixture.h"
#include "tests/cli/junit_schema.h"

namespace greta {
namespace {

TEST_F(GateCommand, AGoodCommitPassesAndABadOneIsNamed) {
  fill();
  EXPECT_EQ(run({"baseline", "set", "base"}).status, 0);
  Result good = run({"gate", "--run", "good"});
  EXPECT_EQ(good.status, 0) << good.out << good.err;
  const std::string healthy = "PASS (rounding only; bitwise equal: no, as expected in as_designed)";
  EXPECT_TRUE(good.out.starts_with(healthy + "  good\n")) << good.out;
  EXPECT_TRUE(good.says("SAME since base (commit aaaaaaa)"));
  EXPECT_TRUE(good.says("own       " + healthy + "; strict FAIL"));
  Result bad = run({"gate", "--run", "bad"});
  EXPECT_EQ(bad.status, 1) << bad.out << bad.err;
  EXPECT_EQ(bad.out.substr(0, 9), "FAIL  bad") << bad.out;
  EXPECT_TRUE(bad.says("ATTN_OUT_DRIFT at layer 1, attn_out"));
  EXPECT_TRUE(bad.says("BROKEN since base"));
  EXPECT_TRUE(bad.says("firstfail --run 'bad'"));
  EXPECT_TRUE(run({"gate", "--experiment", "ci"}).answers(1, {"FAIL of 3 runs"}));
}

TEST_F(GateCommand, WithoutABaselineItsOwnVerdictCountsAndThatIsSaid) {
  fill();
  EXPECT_TRUE(
      run({"gate", "--run", "base"}).answers(0, {"no baseline: its own verdict alone counts"}));
}

TEST_F(GateCommand, TellsHowManyPairsItCompared) {
  fill();
  EXPECT_TRUE(run({"gate", "--run", "base"}).says("pairs     4 compared\n"));
  const std::string with_baseline = "4 compared; 8 rows with the baseline's";
  EXPECT_TRUE(run({"gate", "--run", "bad"}).says("pairs     " + with_baseline + "\n"));
  EXPECT_TRUE(
      run({"gate", "--run", "bad", "--markdown", "-"}).says("**pairs**: `" + with_baseline + "`"));
  const auto json = [this] {
    return run({"gate", "--run", "bad", "--json", "-"}).json()["runs"][0]["gate"];
  };
  EXPECT_EQ(json()["pairs"], 4);
  EXPECT_EQ(json()["since_baseline"]["compared_rows"], 8);
  ASSERT_EQ(waive("attn_out").status, 0);  // a pair, whose decode row is not the baseline's
  EXPECT_EQ(json()["pairs"], 3);
  EXPECT_EQ(json()["since_baseline"]["compared_rows"], 7);
  w.run({.name = "empty", .experiment = "ci"});
  EXPECT_TRUE(run({"gate", "--run", "empty"}).says("pairs     0 compared"));
}

TEST_F(GateCommand, TheVerdictIsThatOfFirstfail) {
  fill();
  w.run({.name = "equal bits", .experiment = "e", .mode = "batch_invariant", .date = "2026-01-01"});
  w.rounding("attn_out", 0);
  w.run({.name = "unmeasured", .experiment = "e", .date = "2026-01-01"});
  w.drift("attn_out", 0);
  w.run({.name = "unmeasured and worse", .experiment = "e", .date = "2026-01-01"});
  w.drift("attn_out", 0);
  w.divergent("mlp_out", 0);
  const nlohmann::json gated = run({"gate", "--experiment", "e", "--format", "json"}).json();
  ASSERT_EQ(gated["runs"].size(), 3u) << gated;
  for (const nlohmann::json& one : gated["runs"]) {
    const std::string gate = one["gate"]["gate"];
    EXPECT_EQ(one["verdict"], one[gate + "_verdict"]) << one["run"];
    EXPECT_EQ(gate == "strict", one["run"] == "equal bits" || one["run"] == "unmeasured");
  }
  EXPECT_EQ(run({"gate", "--run", "equal bits"}).status, 1);
  // others of the experiment do not say their mode, so that it may be theirs
  EXPECT_EQ(run({"gate", "--run", "equal bits", "--numeric"}).status, 3);
  EXPECT_EQ(run({"gate", "--run", "good"}).status, 0);
  EXPECT_EQ(run({"gate", "--run", "good", "--strict"}).status, 1);
  EXPECT_EQ(run({"gate", "--run", "good", "--strict", "--numeric"}).status, 2);
}

TEST_F(GateCommand, WhatBothPhasesComputeOtherwiseFailsAndRoundingOnlyStrictly) {
  of_commit("first", "aaaaaaa", "2026-01-01");
  const auto both = [this](std::vector<float> values, uint64_t hash) {
    w.add(prefill("attn_out", 0, hash).sketched(values),
          decode("attn_out", 0, hash).sketched(values));
  };
  both({2, 0, 0, 0}, 1);
  of_commit("changed", "bbbbbbb", "2026-01-02");
  both({1, 0, 0, 0}, 2);
  of_commit("rounded", "ccccccc", "2026-01-03");
  both({1.001F, 0, 0, 0}, 3);
  Result changed = run({"gate", "--run", "changed"});
  EXPECT_EQ(changed.status, 1) << changed.out;
  EXPECT_TRUE(changed.says("own       PASS; strict PASS"));
  EXPECT_TRUE(
      changed.says("CHANGED since first (commit aaaaaaa): 2 rows beyond rounding, first"
                   " at layer 0, attn_out"));
  EXPECT_EQ(run({"gate", "--run", "rounded"}).status, 0);
  EXPECT_EQ(run({"gate", "--run", "rounded", "--strict"}).status, 1);
  EXPECT_EQ(run({"gate", "--run", "rounded", "--baseline", "first"}).status, 1);
  EXPECT_EQ(waive("attn_out", "0").status, 0);
  EXPECT_EQ(run({"gate", "--run", "changed"}).status, 3);  // nothing is left to be compared
  w.run({.name = "other", .experiment = "ci", .mode = "as_designed", .date = "2026-01-04"});
  w.match("x_in", 0);
}

TEST_F(GateCommand, AFixPassesAndWhatStaysBrokenFailsByItself) {
  fill();
  of_commit("fixed", "ddddddd", "2026-01-04");
  healthy();
  EXPECT_TRUE(run({"gate", "--run", "fixed"}).answers(0, {"FIXED since bad"}));
}

TEST_F(GateCommand, AnotherModelIsNoVerdictUnlessTheRunFailsByItself) {
  fill();
  const auto model = [this](const std::string& run, const std::string& sha) {
    w.db.exec("INSERT INTO attribute(run_id, dim, value, rank) SELECT id, 'model_sha256', '" + sha +
              "', 0 FROM run WHERE name = '" + run + "'");
  };
  model("base", "1");
  model("good", "2");
  model("bad", "2");
  EXPECT_TRUE(run({"gate", "--run", "good", "--baseline", "base"})
                  .answers(3, {"INCOMPARABLE since base (commit aaaaaaa): another model",
                               "it cannot be held against its baseline"}));
  EXPECT_EQ(run({"gate", "--run", "bad", "--baseline", "base"}).status, 1);
}

TEST_F(GateCommand, NoVerdictExitsThreeAndAFailBeforeIt) {
  w.run({.name = "empty", .experiment = "e", .date = "2026-01-01"});
  EXPECT_TRUE(run({"gate", "--run", "empty"}).answers(3, {"NO_EVIDENCE"}));
  w.run({.name = "running", .experiment = "e", .date = "2026-01-01", .status = "running"});
  w.match("x_in", 0);
  EXPECT_EQ(run({"gate", "--run", "running"}).status, 3);
  w.run({.name = "fails", .experiment = "e", .mode = "m", .date = "2026-01-01"});
  w.divergent("x_in", 0);
  EXPECT_EQ(run({"gate", "--experiment", "e"}).status, 1);
}

TEST_F(GateCommand, PlainSqlGivesTheSameAnswers) {
  fill();
  w.run({.name = "empty", .experiment = "ci", .mode = "kv_aligned", .date = "2026-01-01"});
  for (const int stage : {0, 1}) {
    if (stage == 1) {
      EXPECT_EQ(waive("attn_out").status, 0);
    }
    const nlohmann::json all = run({"gate", "--experiment", "ci", "--format", "json"}).json();
    for (const nlohmann::json& one : all["runs"]) {
      const std::string name = one["run"];
      const nlohmann::json& gate = one["gate"];
      EXPECT_EQ(
          w.rows("SELECT answer, strict_answer, gate, waived FROM gate WHERE own_baseline AND run ="
                 " '" +
                 name + "'"),
          std::string(gate["answer"]) + "|" + std::string(gate["strict_answer"]) + "|" +
              std::string(gate["gate"]) + "|" + std::to_string(int(gate["waived"])))
          << name << " at stage " << stage;
    }
    Result from = run({"gate", "--run", "bad", "--baseline", "base", "--format", "json"});
    EXPECT_EQ(w.rows("SELECT answer, change FROM gate WHERE run_id = 3 AND baseline_id = 1"),
              std::string(from.json()["runs"][0]["gate"]["answer"]) + "|" +
                  std::string(from.json()["runs"][0]["gate"]["since_baseline"]["change"]));
  }
  EXPECT_EQ(w.rows("SELECT prompt, layer, status, waived FROM gate_case"
                   " WHERE run = 'bad' AND gate = 'numeric' ORDER BY layer"),
            "p0|0|PASS|0\np0|1|PASS|1");
}

TEST_F(GateCommand, ALaterRunOfTheNameIsNotPassedOverSilently) {
  fill();
  of_commit("good#2", "bbbbbbb", "2026-01-02");
  w.divergent("attn_out", 1);
  EXPECT_TRUE(
      run({"gate", "--run", "good"}).answers(0, {"later     good#2; --latest takes the newest"}));
  EXPECT_EQ(
      run({"gate", "--run", "good", "--format", "json"}).json()["runs"][0]["gate"]["later_runs"][0],
      "good#2");
  const Result latest = run({"gate", "--run", "good", "--latest"});
  EXPECT_EQ(latest.status, 1);
  EXPECT_TRUE(latest.says("FAIL  good#2"));
  EXPECT_FALSE(latest.says("later"));
}

TEST_F(GateCommand, WithoutARequiredBaselineThereIsNoPass) {
  fill();
  const Result base = run(
      {"gate", "--run", "base", "--require-baseline", "--junit", "j.xml", "--markdown", "m.md"});
  EXPECT_EQ(base.status, 3) << base.out;
  EXPECT_TRUE(base.says("INCOMPARABLE  base"));
  EXPECT_TRUE(base.says("--require-baseline: no run of its lineage"));
  const XmlElement suite = XmlReader(read(path("j.xml"))).document().children.at(0);
  EXPECT_EQ(suite.number("errors"), 1);
  EXPECT_EQ(run({"gate", "--run", "good", "--require-baseline"}).status, 0);
  EXPECT_EQ(run({"gate", "--run", "bad", "--require-baseline"}).status, 1);
}

TEST_F(GateCommand, TolerancesThatAreNotAsShippedAreNotKeptQuiet) {
  fill();
  EXPECT_FALSE(run({"gate", "--run", "bad"}).says("tolerance"));
  EXPECT_EQ(run({"tolerance", "set", "--tensor", "logits", "0.9"}).status, 0);
  EXPECT_FALSE(run({"gate", "--run", "bad"}).says("tolerance")) << "it has no logits";
  EXPECT_EQ(run({"tolerance", "set", "--tensor", "attn_out", "0.9"}).status, 0);
  for (const std::string option : {"--junit", "--markdown", "--json", "--html"}) {
    const Result result = run({"gate", "--run", "bad", option, "-"});
    EXPECT_NE(result.status, 2) << result.err;
    EXPECT_TRUE(result.says("attn_out 0.9, shipped 0.01")) << option << result.out;
  }
  EXPECT_TRUE(run({"gate", "--run", "bad"}).says("tolerance attn_out 0.9, shipped 0.01"));
}

TEST_F(GateCommand, AWaivedChangeIsNotCalledTheSame) {
  of_commit("first", "aaaaaaa", "2026-01-01");
  const auto both = [this](const std::string& tensor, std::vector<float> values, uint64_t hash) {
    w.add(prefill(tensor, 0, hash).sketched(values), decode(tensor, 0, hash).sketched(values));
  };
  both("attn_out", {2, 0, 0, 0}, 1);
  both("mlp_out", {1, 0, 0, 0}, 7);
  of_commit("changed", "bbbbbbb", "2026-01-02");
  both("attn_out", {1, 0, 0, 0}, 2);
  both("mlp_out", {1, 0, 0, 0}, 7);
  EXPECT_EQ(run({"gate", "--run", "changed"}).status, 1);
  EXPECT_EQ(waive("attn_out", "0").status, 0);
  const Result waived = run({"gate", "--run", "changed", "--junit", "j.xml"});
  EXPECT_EQ(waived.status, 0) << waived.out;
  EXPECT_TRUE(waived.says("PASS (2 rows waived until 2999-12-31"));
  EXPECT_TRUE(waived.says("CHANGED since first (commit aaaaaaa): 2 rows waived"));
  EXPECT_TRUE(waived.says("2 changed rows of attn_out of layer 0"));
  EXPECT_NE(read(path("j.xml")).find("(waiver 1, by"), std::string::npos);
  for (const std::string option : {"--markdown", "--json", "--html"}) {
    const Result file = run({"gate", "--run", "changed", option, "-"});
    EXPECT_TRUE(file.says("CHANGED")) << option << file.out;
    EXPECT_FALSE(file.says("SAME since")) << option << file.out;
  }
  EXPECT_EQ(w.rows("SELECT change, unwaived_change, waived, waived_rows, waived_changed_rows"
                   " FROM gate WHERE run = 'changed'"),
            "CHANGED|SAME|0|2|2");
  EXPECT_TRUE(run({"gate", "--run", "changed", "--baseline", "first"})
                  .says("CHANGED since first (commit aaaaaaa): 2 rows waived"));
}

TEST_F(GateCommand, OnlyWhatWouldHaveFailedIsCountedAsWaived) {
  fill();
  EXPECT_EQ(run({"waive", "--tensor", "attn_out", "--until", "2999-12-31", "--reason", "r"}).status,
            0);
  const Result good = run({"gate", "--run", "good"});
  EXPECT_FALSE(good.out.substr(0, good.out.find('\n')).find("waived") != std::string::npos);
  EXPECT_TRUE(run({"gate", "--run", "good", "--strict"}).says("(1 pair waived"));
  EXPECT_TRUE(run({"gate", "--run", "bad"}).says("PASS (1 pair waived until"));
}

TEST_F(GateCommand, WhyARunIsIncompleteIsSaid) {
  fill();
  of_commit("cut", "ddddddd", "2026-01-04");
  healthy();
  w.plan_what_is_there();
  w.plan("p0", 1, 1, "logits");
  for (const std::string option : {"--junit", "--markdown", "--html", "--json"}) {
    EXPECT_TRUE(
        run({"gate", "--run", "cut", option, "-"})
            .answers(3, {"1 row that it declares is not there, first logits of layer 1, prompt p0, "
                         "decode"}))
        << option;
  }
  w.db.exec("UPDATE run SET status = 'failed' WHERE name = 'cut'");
  EXPECT_TRUE(run({"gate", "--run", "cut"}).says("it did not end (status failed)"));
}

TEST_F(GateCommand, AChangeAloneIsNotSentToFirstfailWhichShowsNone) {
  of_commit("first", "aaaaaaa", "2026-01-01");
  w.match("x_in", 0);
  of_commit("changed", "bbbbbbb", "2026-01-02");
  w.add(prefill("x_in", 0, 5), decode("x_in", 0, 5));
  const Result changed = run({"gate", "--run", "changed", "--strict"});
  EXPECT_NE(changed.status, 0);
  EXPECT_TRUE(changed.says("compare 'first' 'changed'"));
}

TEST_F(GateCommand, AnInjectedFaultIsNamedWhereThereIsNoBaseline) {
  fill();
  w.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (3, 'inject', 'x@decode', 0)");
  EXPECT_TRUE(run({"gate", "--run", "bad"}).says("a fault was injected"));
}

}  // namespace
}  // namespace greta
