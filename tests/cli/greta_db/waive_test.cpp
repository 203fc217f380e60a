#include "tests/cli/program.h"

namespace greta {
namespace {

class WaiveCommand : public ProgramTest {
 protected:
  WaiveCommand() : w(database()) {}

  void run_of(const std::string& name, std::optional<std::string> date,
              const std::string& experiment = "e") {
    w.run({.name = name, .experiment = experiment, .mode = name, .date = std::move(date)});
  }
  Result waive(std::initializer_list<std::string> more = {}) {
    std::string words = "$G waive --tensor attn_out --until 2999-12-31 --reason because";
    for (const std::string& word : more) words += " " + quoted(word);
    return shell(words);
  }
  /// The answer's first word and the exit status: "PASS 0".
  std::string gate(const std::string& name) {
    const Result result = run({"gate", "--run", name});
    return result.out.substr(0, result.out.find(' ')) + " " + std::to_string(result.status);
  }

  Warehouse w;
};

TEST_F(WaiveCommand, AWaivedDifferencePassesTheGateAndNoVerdict) {
  run_of("r", "2026-01-01");
  w.match("x_in", 0);
  w.divergent("attn_out", 1);
  EXPECT_EQ(gate("r"), "FAIL 1");
  EXPECT_TRUE(waive({"--layer", "1"}).answers(0, {"waiver 1: differences in layer 1 of attn_out"}));
  EXPECT_TRUE(run({"gate", "--run", "r"})
                  .answers(0, {"PASS (1 pair waived until 2999-12-31: because)  r",
                               "without waivers FAIL"}));
  Result firstfail = run({"firstfail", "--run", "r"});
  EXPECT_EQ(firstfail.status, 1);
  EXPECT_TRUE(firstfail.says("waived    1 pair of attn_out of layer 1 until 2999-12-31: because"));
  const nlohmann::json json = run({"firstfail", "--run", "r", "--format", "json"}).json()[0];
  EXPECT_EQ(json["verdict"], "FAIL");
  ASSERT_EQ(json["waived"].size(), 1u);
  EXPECT_EQ(json["waived"][0]["reason"], "because");
  EXPECT_EQ(json["waived"][0]["pairs"], 1);
  EXPECT_TRUE(run({"report", "--run", "r"}).says("**Waived for the gate**: 1 pair of attn"));
  EXPECT_TRUE(
      run({"gate", "--run", "r", "--markdown", "-"}).says("**waived**: `1 pair of attn_out"));
  EXPECT_TRUE(run({"gate", "--run", "r", "--junit", "-"})
                  .says("<skipped message=\"all of it is waived: 1 pair waived; attn_out"));
  EXPECT_TRUE(
      run({"query", "waived", "--param", "run=r", "--format", "csv"}).says("1,attn_out,1,1,1,"));
  EXPECT_EQ(run({"waive", "--remove", "1"}).status, 0);
  EXPECT_EQ(gate("r"), "FAIL 1");
  EXPECT_EQ(run({"waive", "--remove", "1"}).status, 2);
}

TEST_F(WaiveCommand, TheNextFailThatIsNotWaivedIsFound) {
  run_of("r", "2026-01-01");
  w.divergent("attn_out", 1);
  w.divergent("mlp_out", 2);
  waive();
  Result result = run({"gate", "--run", "r"});
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(result.says("MLP_OUT_DRIFT at layer 2, mlp_out"));
  EXPECT_TRUE(result.says("FAIL (1 pair waived"));
  EXPECT_FALSE(result.says("ATTN_OUT_DRIFT"));
}

TEST_F(WaiveCommand, WhatIsNotFiniteMissingOrContradictoryStillFails) {
  run_of("nan", "2026-01-01");
  w.match("x_in", 0);
  w.add(prefill("attn_out", 1, 1).nans(1), decode("attn_out", 1, 1).nans(1));
  run_of("missing", "2026-01-01");
  w.match("x_in", 0);
  w.add(prefill("attn_out", 1, 1));
  run_of("elsewhere", "2026-01-01");
  w.match("x_in", 0);
  w.add(prefill("attn_out", 1, 1), decode("attn_out", 1, 1).at(38));
  run_of("conflict", "2026-01-01");
  w.match("x_in", 0);
  w.add(prefill("attn_out", 1, 1).length(2).sampled({1, 2}),
        decode("attn_out", 1, 2).length(2).sampled({1, 2}));
  run_of("ambiguous", "2026-01-01");
  w.match("x_in", 0);
  w.add(prefill("attn_out", 1, 1), prefill("attn_out", 1, 2), decode("attn_out", 1, 1));
  waive();
  for (const char* name : {"nan", "missing", "elsewhere", "conflict", "ambiguous"}) {
    EXPECT_EQ(gate(name), "FAIL 1") << name;
  }
}

TEST_F(WaiveCommand, NothingButWaivedPairsIsNoEvidence) {
  run_of("r", "2026-01-01");
  w.divergent("attn_out", 1);
  waive();
  EXPECT_TRUE(run({"gate", "--run", "r"}).answers(3, {"nothing was compared but what is waived"}));
}

TEST_F(WaiveCommand, CountsForRunsDatedUpToItsDayWhileItLasts) {
  for (const auto& [name, date] :
       std::vector<std::pair<std::string, std::optional<std::string>>>{{"early", "2000-01-01"},
                                                                       {"no date", std::nullopt},
                                                                       {"late", "3000-01-01"},
                                                                       {"part", "2026"}}) {
    run_of(name, date);
    w.match("x_in", 0);
    w.divergent("attn_out", 1);
  }
  waive();
  EXPECT_EQ(gate("early"), "PASS 0");
  EXPECT_EQ(gate("no date"), "FAIL 1");
  EXPECT_EQ(gate("late"), "FAIL 1");
  EXPECT_EQ(gate("part"), "FAIL 1");
  w.db.exec("UPDATE waiver SET until = '2001-01-01'");
  EXPECT_EQ(gate("early"), "FAIL 1");
  Result list = run({"waive", "--list", "--format", "json"});
  EXPECT_EQ(list.status, 0);
  EXPECT_EQ(list.json()[0]["state"], "expired");
  w.db.exec("UPDATE waiver SET until = 'zzzz'");  // no day at all
  EXPECT_EQ(gate("early"), "FAIL 1");
}

TEST_F(WaiveCommand, HoldsWhereItsScopeSays) {
  for (const char* experiment : {"one", "two"}) {
    run_of(experiment, "2026-01-01", experiment);
    w.match("x_in", 0);
    w.divergent("attn_out", 1);
  }
  EXPECT_EQ(waive({"--experiment", "one"}).status, 0);
  EXPECT_EQ(gate("one"), "PASS 0");
  EXPECT_EQ(gate("two"), "FAIL 1");
  EXPECT_EQ(run({"waive", "--remove", "1"}).status, 0);
  EXPECT_EQ(waive({"--run", "two"}).status, 0);
  EXPECT_EQ(gate("one"), "FAIL 1");
  EXPECT_EQ(gate("two"), "PASS 0");
  const std::string lineage = w.rows("SELECT lineage FROM lineage_member WHERE run_id = 1");
  EXPECT_EQ(waive({"--lineage", lineage}).status, 0);
  EXPECT_EQ(gate("one"), "PASS 0");
  EXPECT_EQ(waive({"--lineage", "none"}).status, 2);
  EXPECT_EQ(waive({"--experiment", "three"}).status, 2);
  EXPECT_EQ(waive({"--run", "three"}).status, 2);
}

TEST_F(WaiveCommand, HoldsForWhatChangedSinceTheBaselineToo) {
  const auto both = [this](const std::string& tensor, uint64_t hash, float value) {
    w.add(prefill(tensor, 0, hash).sketched({value, 0, 0, 0}),
          decode(tensor, 0, hash).sketched({value, 0, 0, 0}));
  };
  for (const auto& [name, date] : {std::pair{"a", "2026-01-01"}, {"b", "2026-01-02"}}) {
    w.run({.name = name, .experiment = "e", .mode = "m", .date = date});
    w.match("x_in", 0);
    both("attn_out", name[0] == 'a' ? 1 : 2, name[0] == 'a' ? 1 : 2);
  }
  EXPECT_EQ(gate("b"), "FAIL 1");
  EXPECT_EQ(waive().status, 0);
  EXPECT_TRUE(run({"gate", "--run", "b"}).answers(0, {"CHANGED since a: 2 rows waived"}));
  EXPECT_EQ(w.rows("SELECT change FROM change WHERE run = 'b'"), "CHANGED");  // as it is
  w.run({.name = "c", .experiment = "e", .mode = "m", .date = "2026-01-03"});
  w.match("x_in", 0);
  both("attn_out", 3, 3);
  both("mlp_out", 3, 3);  // which the baseline does not have
  EXPECT_EQ(gate("c"), "FAIL 1");
}

TEST_F(WaiveCommand, AnAliasIsItsTracePoint) {
  run_of("r", "2026-01-01");
  w.match("x_in", 0);
  w.divergent("x_after_attn", 1);
  EXPECT_EQ(run({"waive", "--tensor", "residual_post_attn", "--until", "2999-12-31", "--reason",
                 "because"})
                .status,
            0);
  EXPECT_EQ(gate("r"), "PASS 0");
}

TEST_F(WaiveCommand, RefusesWhatWouldWaiveNothingOrSayNothing) {
  run_of("r", "2026-01-01");
  const auto error = [this](const std::string& words) {
    const Result result = shell("$G waive " + words);
    EXPECT_EQ(result.status, 2) << words;
    return result.err;
  };
  EXPECT_NE(error("").find("--tensor"), std::string::npos);
  EXPECT_NE(error("--tensor attn_out --reason x").find("--until"), std::string::npos);
  EXPECT_NE(error("--tensor attn_out --until 2999-12-31").find("--reason"), std::string::npos);
  EXPECT_NE(error("--tensor attn_out --until 2999-12-31 --reason ' '").find("--reason"),
            std::string::npos);
  EXPECT_NE(error("--tensor attn_out --until 2999-12 --reason x").find("whole day"),
            std::string::npos);
  EXPECT_NE(error("--tensor attn_out --until 2001-01-01 --reason x").find("has passed"),
            std::string::npos);
  EXPECT_NE(error("--tensor attn_ut --until 2999-12-31 --reason x").find("attn_out"),
            std::string::npos);
  error("--tensor attn_out --until 2999-13-01 --reason x");
  error("--list --remove 1");
  error("--tensor attn_out --list");
  EXPECT_EQ(w.rows("SELECT count(*) FROM waiver"), "0");
}

TEST_F(WaiveCommand, WhatNoRunHasIsNotWaived) {
  run_of("r", "2026-01-01");
  w.match("attn_out", 0);
  const Result layer = waive({"--layer", "7"});
  EXPECT_EQ(layer.status, 2);
  EXPECT_TRUE(layer.says("has attn_out in layer 7: it would waive nothing"));
  EXPECT_EQ(w.rows("SELECT count(*) FROM waiver"), "0");
  EXPECT_EQ(waive({"--layer", "0"}).status, 0);
}

TEST_F(WaiveCommand, GoesWithTheRunThatItIsFor) {
  run_of("r", "2026-01-01");
  w.match("attn_out", 0);
  EXPECT_EQ(waive({"--run", "r"}).status, 0);
  EXPECT_EQ(waive().status, 0);
  EXPECT_EQ(run({"forget", "--run", "r", "--yes"}).status, 0);
  EXPECT_EQ(w.rows("SELECT id FROM waiver"), "2");
}

}  // namespace
}  // namespace greta
