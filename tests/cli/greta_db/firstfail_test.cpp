#include <algorithm>
#include <sstream>

#include "cli/output/output.h"
#include "cli/warehouse/origin.h"
#include "tests/cli/program.h"

namespace greta {
namespace {

class Firstfail : public ProgramTest {};

TEST_F(Firstfail, FailExitsOneAndNamesThePlace) {
  Warehouse warehouse(database());
  warehouse.match("x_in", 0);
  warehouse.drift("attn_out", 3);
  EXPECT_TRUE(run({"firstfail", "--run", "r"})
                  .answers(1, {"FAIL: ATTN_OUT_DRIFT at layer 3, attn_out, prompt p0",
                               "root cause ATTENTION_COMPUTATION_MISMATCH", "50.00 %"}));
}

TEST_F(Firstfail, ZeroPairsIsNoEvidenceAndExitsThree) {
  Warehouse(database()).run();
  EXPECT_TRUE(run({"firstfail", "--run", "r"}).answers(3, {"NO_EVIDENCE", "nothing was compared"}));
}

TEST_F(Firstfail, EmptyDatabaseIsNoVerdict) {
  Warehouse warehouse(database());
  EXPECT_EQ(run({"firstfail"}).status, 3);
  Result json = run({"firstfail", "--format", "json"});
  EXPECT_EQ(json.status, 3);
  EXPECT_EQ(json.json(), nlohmann::json::array());
}

TEST_F(Firstfail, MissingRowsComeWithAHint) {
  Warehouse(database()).add(prefill("attn_out", 0, 1));
  EXPECT_TRUE(run({"firstfail", "--run", "r"}).answers(1, {"TRACE_OFFSET", "--status MISSING"}));
}

TEST_F(Firstfail, JsonHasTheKeysOfTheContract) {
  Warehouse warehouse(database());
  warehouse.run(
      {.name = "2026-02-07/e/r", .mode = "as_designed", .date = "2026-02-07", .commit = "abc"});
  warehouse.match("x_in", 0);
  warehouse.add(prefill("attn_out", 0, 1).token(116).sketched({2, 0, 0, 0}),
                decode("attn_out", 0, 2).token(116).sketched({1, 0, 0, 0}));
  Result result = run({"firstfail", "--run", "2026-02-07/e/r", "--format", "json"});
  EXPECT_EQ(result.status, 1);
  nlohmann::json all = result.json();
  ASSERT_EQ(all.size(), 1u);
  const nlohmann::json& v = all[0];
  EXPECT_EQ(v.size(), 37u);
  const nlohmann::json expected = nlohmann::json::parse(R"({
    "unjudged_texts": null, "run": "2026-02-07/e/r", "experiment": "e", "mode": "as_designed",
    "date": "2026-02-07", "commit_sha": "abc", "verdict": "FAIL", "headline": "FAIL",
    "strict_verdict": "FAIL", "numeric_verdict": "FAIL", "coverage": "undeclared",
    "evidence": "trace", "pairs": 2, "pass": 1, "fail": 1, "missing": 0, "decode_only": 0,
    "incomparable": 0, "nonfinite": 0, "root_cause": "ATTENTION_COMPUTATION_MISMATCH",
    "breakdown": [{"cause": "ATTN_OUT_DRIFT", "count": 1, "percent": 50.0, "numeric_count": 1,
                   "numeric_percent": 50.0}]})");
  for (const auto& [key, value] : expected.items()) EXPECT_EQ(v[key], value) << key;
  for (const char* place : {"first_fail", "strict_first_fail", "numeric_first_fail"}) {
    EXPECT_EQ(v[place]["cause"], "ATTN_OUT_DRIFT") << place;
    EXPECT_EQ(v[place]["prompt"], "p0") << place;
    EXPECT_EQ(v[place]["layer"], 0) << place;
    EXPECT_EQ(v[place]["tensor"], "attn_out") << place;
    EXPECT_EQ(v[place]["pos_id"], 37) << place;
    EXPECT_EQ(v[place]["root_cause"], "ATTENTION_COMPUTATION_MISMATCH") << place;
  }
  EXPECT_EQ(v["first_fail"]["token_id"], 116);
  EXPECT_EQ(v["strict_first_fail"]["token_id"], 116);
  EXPECT_EQ(v["first_fail"]["origin"], v["numeric_first_fail"]["origin"]);
  for (const char* key : {"details", "segment", "untraced_layers", "probe", "measure", "location"})
    EXPECT_TRUE(v["first_fail"].contains(key)) << key;
  ASSERT_EQ(v["by_prompt"].size(), 1u);
  for (const char* key : {"run",
                          "prompt",
                          "token_id",
                          "pos_id",
                          "layer",
                          "tensor",
                          "first_fail",
                          "root_cause",
                          "details",
                          "first_drift_layer",
                          "first_drift_tensor",
                          "first_drift_cause",
                          "strict_first_fail",
                          "strict_layer",
                          "strict_tensor",
                          "numeric_first_fail",
                          "numeric_layer",
                          "numeric_tensor",
                          "numeric_origin",
                          "origin"}) {
    EXPECT_TRUE(v["by_prompt"][0].contains(key)) << key;
  }
}

TEST_F(Firstfail, NothingFailedIsNullInJson) {
  Warehouse(database()).match("attn_out", 0);
  nlohmann::json v = run({"firstfail", "--format", "json"}).json()[0];
  EXPECT_TRUE(v["first_fail"].is_null());
  EXPECT_TRUE(v["numeric_first_fail"].is_null());
  EXPECT_EQ(v["breakdown"], nlohmann::json::array());
  EXPECT_EQ(v["by_prompt"], nlohmann::json::array());
}

TEST_F(Firstfail, ExperimentGivesEachRunItsVerdictAndTheWorstExit) {
  Warehouse warehouse(database());
  warehouse.run({.name = "d/e/1"});
  warehouse.match("attn_out", 0);
  warehouse.run({.name = "d/e/2"});
  Result result = run({"firstfail", "--run", "e", "--format", "json"});
  EXPECT_EQ(result.status, 3);  // PASS and NO_EVIDENCE
  EXPECT_EQ(result.json().size(), 2u);
  warehouse.run({.name = "d/e/3"});
  warehouse.drift("attn_out", 0);
  result = run({"firstfail", "--run", "e"});
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(result.says("3 runs: 1 FAIL, 1 NO_EVIDENCE, 1 PASS"));
}

TEST_F(Firstfail, TheExitStatusFollowsTheVerdictOrTheOneThatIsAskedFor) {
  Warehouse(database()).rounding("attn_out", 0);
  EXPECT_EQ(run({"firstfail", "--run", "r"}).status, 0);
  const Result strict = run({"firstfail", "--run", "r", "--gate", "strict"});
  EXPECT_EQ(strict.status, 1);
  EXPECT_TRUE(strict.says("strict    FAIL: ATTN_OUT_DRIFT at layer 0, attn_out"));
  EXPECT_TRUE(strict.says("numeric   PASS\n"));
  EXPECT_EQ(run({"firstfail", "--run", "r", "--gate", "numeric"}).status, 0);
}

TEST_F(Firstfail, RoundingIsNoAlarmUnlessTheModePromisesEqualBits) {
  Warehouse warehouse(database());
  warehouse.run({.name = "designed", .mode = "as_designed"});
  warehouse.rounding("attn_out", 0);
  warehouse.run({.name = "unknown"});
  warehouse.rounding("attn_out", 0);
  warehouse.run({.name = "invariant", .mode = "batch_invariant"});
  warehouse.rounding("attn_out", 0);
  Result designed = run({"firstfail", "--run", "designed"});
  const std::string healthy = "PASS (rounding only; bitwise equal: no, as expected in as_designed)";
  EXPECT_TRUE(designed.out.starts_with("designed  " + healthy + "\n")) << designed.out;
  EXPECT_EQ(designed.status, 0);
  EXPECT_TRUE(
      designed.says("strict    FAIL: ATTN_OUT_DRIFT at layer 0, attn_out, prompt p0, pos 37"
                    " (rounding, as expected in as_designed)"));
  EXPECT_FALSE(designed.says("root cause"));
  for (const char* command : {"firstfail", "runs"}) {
    for (const char* format : {"csv", "md"}) {
      EXPECT_TRUE(run({command, "--run", "designed", "--format", format}).answers(0, {healthy}))
          << command;
    }
  }
  const nlohmann::json json = run({"firstfail", "--run", "designed", "--format", "json"}).json()[0];
  EXPECT_EQ(json["verdict"], "PASS");
  EXPECT_EQ(json["headline"], healthy);
  EXPECT_EQ(json["strict_verdict"], "FAIL");
  EXPECT_TRUE(json["first_fail"].is_null());
  EXPECT_EQ(json["strict_first_fail"]["tensor"], "attn_out");
  EXPECT_EQ(json["breakdown"][0]["numeric_count"], 0);
  EXPECT_TRUE(run({"firstfail", "--run", "unknown"})
                  .says("unknown  PASS (rounding only; bitwise equal: no)\n"));
  Result invariant = run({"firstfail", "--run", "invariant"});
  EXPECT_EQ(invariant.status, 1);
  EXPECT_TRUE(invariant.out.starts_with("invariant  FAIL though within rounding\n"))
      << invariant.out;
  EXPECT_TRUE(invariant.says("root cause ATTENTION_COMPUTATION_MISMATCH"));
}

TEST_F(Firstfail, WhatIsBeyondRoundingComesBeforeRounding) {
  Warehouse warehouse(database());
  warehouse.run({.mode = "as_designed"});
  warehouse.rounding("x_in", 0);
  warehouse.divergent("mlp_out", 3);
  Result result = run({"firstfail", "--run", "r"});
  EXPECT_TRUE(result.out.starts_with("r  FAIL beyond rounding\n")) << result.out;
  const size_t numeric = result.out.find(
      "verdict   FAIL: MLP_OUT_DRIFT at layer 3, mlp_out,"
      " prompt p0, pos 37\n");
  const size_t strict = result.out.find("strict    FAIL: X_IN_DRIFT at layer 0");
  ASSERT_NE(strict, std::string::npos) << result.out;
  EXPECT_LT(numeric, strict) << result.out;
  EXPECT_TRUE(result.says("  X_IN_DRIFT         1   50.00 %                0\n"));
  EXPECT_TRUE(result.says("  MLP_OUT_DRIFT      1   50.00 %                1\n"));
}

TEST_F(Firstfail, WhatFailsForMoreThanItsValuesLeadsByBothVerdicts) {
  Warehouse warehouse(database());
  warehouse.run({.mode = "as_designed"});
  warehouse.rounding("x_in", 0);
  warehouse.add(prefill("attn_out", 0, 1));
  EXPECT_TRUE(run({"firstfail", "--run", "r"}).says("verdict   FAIL: TRACE_OFFSET at layer 0"));
  EXPECT_TRUE(run({"firstfail", "--run", "r", "--gate", "numeric"})
                  .says("numeric   FAIL: TRACE_OFFSET at layer 0"));
  warehouse.run({.name = "nan", .mode = "as_designed"});
  warehouse.rounding("x_in", 0);
  warehouse.add(prefill("attn_out", 0, 1), decode("attn_out", 0, 2).nans(1));
  Result nan = run({"firstfail", "--run", "nan"});
  EXPECT_TRUE(nan.says("verdict   FAIL: ATTN_OUT_DRIFT at layer 0, attn_out"));
  EXPECT_TRUE(nan.says("1 rounding, 0 divergent, 1 not finite, 0 not measurable"));
}

TEST_F(Firstfail, WhatFailsWithoutBeingAPairIsCountedByItself) {
  Warehouse warehouse(database());
  warehouse.match("x_in", 0);
  warehouse.add(decode("attn_out", 0, 1).at(38).nans(1));
  EXPECT_TRUE(run({"firstfail", "--run", "r"})
                  .says("pairs     1: 1 pass, 0 fail; 0 missing, 0 decode only, 1 row without"
                        " partner not finite\n"));
  warehouse.add(decode("mlp_out", 0, 1).at(38).nans(1));
  warehouse.add(prefill("attn_out", 0, 1), decode("attn_out", 0, 2).nans(1));
  warehouse.db.exec(
      "INSERT INTO readout(run_id, prompt_id, side, step, pos_id, name_id, source_id, "
      "line,"
      " norm_error) SELECT t.run_id, t.prompt_id, t.side, t.step, t.pos_id,"
      " (SELECT id FROM tensor_name WHERE name = 'logits'), t.source_id, 1, 0.5"
      " FROM trace_row t WHERE t.side = 0 LIMIT 1");
  EXPECT_TRUE(run({"firstfail", "--run", "r"})
                  .says("pairs     2: 1 pass, 1 fail (0 rounding, 0 divergent, 1 not finite, 0 not"
                        " measurable); 0 missing, 0 decode only, 2 rows without partner not"
                        " finite, 1 readout refuted\n"));
}

TEST_F(Firstfail, WhatNothingMeasuresIsNotExcusedAsRounding) {
  Warehouse warehouse(database());
  warehouse.run({.mode = "as_designed"});
  warehouse.drift("attn_out", 0);
  Result result = run({"firstfail", "--run", "r"});
  EXPECT_TRUE(result.out.starts_with("r  FAIL\n")) << result.out;
  EXPECT_TRUE(result.says("nothing measures these differences"));
  EXPECT_EQ(run({"firstfail", "--run", "r", "--gate", "numeric"}).status, 3);
}

TEST_F(Firstfail, AnOriginThatWasNotTracedComesWithTheProbeThatWouldTell) {
  Warehouse warehouse(database());
  warehouse.run({.mode = "as_designed"});
  warehouse.match("x_out", 4);
  warehouse.divergent("x_in", 8);
  Result result = run({"firstfail", "--run", "r"});
  EXPECT_TRUE(
      result.says("UNSAMPLED: between x_out of layer 4 and x_in of layer 8;"
                  " greta-infer probe … --layers 5,6,7 tells where"));
  EXPECT_TRUE(result.says("if it arises here"));
  const nlohmann::json fail = run({"firstfail", "--format", "json"}).json()[0]["first_fail"];
  EXPECT_EQ(fail["origin"], "UNSAMPLED");
  EXPECT_EQ(fail["untraced_layers"], "5-7");
  EXPECT_EQ(fail["probe"], "greta-infer probe … --layers 5,6,7");
}

TEST(Origin, LayersAreWrittenOutUpToEight) {
  EXPECT_EQ(listed_layers("5-12"), "5,6,7,8,9,10,11,12");
  EXPECT_EQ(listed_layers("5-13"), "5-13");
  EXPECT_EQ(listed_layers("5"), "5");
  EXPECT_EQ(telling_probe("between a and b", ""), "greta-infer probe … --tensors all");
  EXPECT_EQ(telling_probe("", ""), "greta-infer probe … --layers all --tensors all");
}

TEST_F(Firstfail, SaysWhatTheRowsLookLike) {
  Warehouse warehouse(database());
  warehouse.run({.name = "r", .mode = "batch_invariant", .dtype = "f32"});
  warehouse.match("x_in", 0);
  warehouse.add(prefill("q_pre_rope", 0, 11).sketched({2, 4, -1, 0.5f}),
                decode("q_pre_rope", 0, 12).sketched({4, 8, -2, 1}));
  const std::string text = "looks like SCALED: decode's row is 2 times prefill's";
  EXPECT_TRUE(run({"firstfail", "--run", "r"}).says(text));
  const nlohmann::json json = run({"firstfail", "--run", "r", "--format", "json"}).json()[0];
  EXPECT_EQ(json["diagnosis"][0]["finding"], "SCALED");
  EXPECT_EQ(json["diagnosis"][0]["tensor"], "q_pre_rope");
  EXPECT_TRUE(
      run({"report", "--full", "--run", "r"}).says("**Looks like**: SCALED - decode's row is 2"));
  warehouse.run({.name = "clean"});
  warehouse.match("x_in", 0);
  EXPECT_FALSE(run({"firstfail", "--run", "clean"}).says("looks like"));
  EXPECT_EQ(run({"firstfail", "--run", "clean", "--format", "json"}).json()[0]["diagnosis"],
            nlohmann::json::array());
}

TEST_F(Firstfail, CsvTsvAndMarkdownHaveOneRowPerRun) {
  Warehouse warehouse(database());
  warehouse.run({.name = "d/e/1"});
  warehouse.match("attn_out", 0);
  warehouse.run({.name = "d/e/2"});
  warehouse.drift("attn_out", 0);
  Result csv = run({"firstfail", "--format", "csv"});
  EXPECT_EQ(csv.out.substr(0, 15), "run,experiment,");
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 3);
  EXPECT_TRUE(csv.says("\r\nd/e/2,e,"));
  Result tsv = run({"firstfail", "--format", "tsv"});
  EXPECT_EQ(std::count(tsv.out.begin(), tsv.out.end(), '\n'), 3);
  Result md = run({"firstfail", "--format", "md"});
  EXPECT_EQ(md.out.substr(0, 8), "| run | ");
  EXPECT_TRUE(md.says("\n| --- | "));
}

TEST_F(Firstfail, ManyRunsFitATerminalThoseThatFailFirst) {
  Warehouse warehouse(database());
  const std::string folder = "2026-02-09/b3_70_71_72/span_128/dtype_bf16/kv_aligned_0/seed_";
  for (int i = 0; i < 13; ++i) {
    warehouse.run({.name = folder + std::to_string(i), .mode = "as_designed"});
    warehouse.use_prompt("a_prompt_of_a_long_name_" + std::to_string(i));
    if (i == 3) warehouse.divergent("attn_out", 2);
    if (i == 5) warehouse.rounding("attn_out", 0);
    if (i == 7) warehouse.match("attn_out", 0);
  }
  warehouse.run({.name = "running", .status = "running"});
  warehouse.match("attn_out", 0);
  const Result table = run({"firstfail"});
  std::vector<std::string> lines;
  std::istringstream in(table.out);
  for (std::string line; std::getline(in, line);) {
    EXPECT_LE(display_width(line), 80u) << line;
    lines.push_back(line);
  }
  ASSERT_GT(lines.size(), 17u) << table.out;
  EXPECT_TRUE(lines[2].starts_with("2026-02-09")) << lines[2];
  EXPECT_NE(lines[2].find("_0/seed_3  FAIL"), std::string::npos) << lines[2];
  EXPECT_TRUE(lines[3].starts_with("running  ")) << lines[3];
  EXPECT_NE(lines[4].find("NO_EVIDENCE"), std::string::npos) << lines[4];
  EXPECT_NE(lines[14].find("seed_5  PASS (rounding only)  -"), std::string::npos) << lines[14];
  EXPECT_NE(lines[15].find("seed_7  PASS                  -"), std::string::npos) << lines[15];
  EXPECT_TRUE(table.says("names with … are shortened"));
  EXPECT_TRUE(run({"firstfail", "--format", "csv"}).says(folder + "3,"));
  const Result wide = on_terminal(GRETA_DB_PROGRAM, {"firstfail"}, "", 200);
  EXPECT_TRUE(wide.says(folder + "3   FAIL"));
  EXPECT_FALSE(wide.says("shortened"));
}

TEST_F(Firstfail, JsonAndCsvCallThingsAlikeInEveryCommand) {
  Warehouse warehouse(database());
  warehouse.run({.commit = "abc"});
  warehouse.divergent("attn_out", 0);
  const auto header = [&](const char* command) {
    const std::string csv = run({command, "--format", "csv"}).out;
    return "," + csv.substr(0, csv.find_first_of("\r\n")) + ",";
  };
  for (const char* command : {"runs", "firstfail", "history", "pairs", "trace"}) {
    const std::string columns = header(command);
    EXPECT_EQ(columns.find(",commit,"), std::string::npos) << command;
    const nlohmann::json row = run({command, "--format", "json"}).json()[0];
    EXPECT_FALSE(row.contains("commit")) << command;
    if (command == std::string("firstfail")) continue;  // whose JSON has objects of its own
    for (const auto& [key, value] : row.items())
      EXPECT_NE(columns.find("," + key + ","), std::string::npos) << command << " " << key;
  }
  for (const char* command : {"runs", "firstfail"}) {
    const std::string columns = header(command);
    const nlohmann::json row = run({command, "--format", "json"}).json()[0];
    for (const char* key : {"commit_sha", "pairs", "pass", "fail", "missing", "incomparable",
                            "rounding", "divergent", "nonfinite", "unmeasured", "status"}) {
      EXPECT_TRUE(row.contains(key)) << command << " " << key;
      EXPECT_NE(columns.find("," + std::string(key) + ","), std::string::npos)
          << command << " " << key;
    }
  }
}

}  // namespace
}  // namespace greta
