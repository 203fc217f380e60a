#include <set>

#include "tests/cli/greta_infer/infer_program.h"

namespace greta {
namespace {

class InferSweep : public InferProgram {
 protected:
  void SetUp() override { make_model("--type q8_0 --layers 2"); }
};

TEST_F(InferSweep, ProbesEveryCombinationAsARunOfItsOwn) {
  const Result sweep =
      sh("$I sweep $Q --model m.gguf --vary batch=1,7 --vary threads=1,2"
         " --vary route.lm_head=dot,gemm --format json");
  ASSERT_EQ(sweep.status, 0) << sweep.err;
  const auto rows = sweep.json();
  ASSERT_EQ(rows.size(), 8u);
  std::set<std::string> combinations, runs;
  for (const auto& row : rows) {
    combinations.insert(row.at("threads").get<std::string>() + row.at("batch").get<std::string>() +
                        row.at("route.lm_head").get<std::string>());
    runs.insert(row.at("run").get<std::string>());
    EXPECT_EQ(row.at("verdict"), "PASS");
    EXPECT_EQ(row.at("strict_verdict"), "FAIL");
    EXPECT_EQ(row.at("numeric_verdict"), "PASS");
  }
  EXPECT_EQ(combinations.size(), 8u);
  EXPECT_EQ(runs.size(), 8u);
  EXPECT_EQ(query("SELECT count(*), min(pairs) > 0 FROM run_verdict WHERE experiment = 'sweep'"),
            "8\t1\n");
}

TEST_F(InferSweep, TheRunsNameSaysTheCombinationAndItsAttributesDoToo) {
  ASSERT_EQ(sh("$I sweep $Q --model m.gguf --date 2026-02-07 --vary mode=batch_invariant"
               " --vary threads=2 --vary batch=3 --vary route.wo=dot --experiment e")
                .status,
            0);
  EXPECT_EQ(query("SELECT run FROM run_verdict"),
            "2026-02-07/e/batch_invariant.threads-2.batch-3.wo-dot\n");
  EXPECT_EQ(query("SELECT value FROM attribute WHERE dim IN ('threads', 'batch') ORDER BY dim"),
            "3\n2\n");
}

TEST_F(InferSweep, VariesHowManyPromptsAreComputedTogether) {
  ASSERT_EQ(sh("$I sweep --suite b3_66 --model m.gguf --layers 0 --tensors logits"
               " --vary sequences=1,2 --format json")
                .status,
            0);
  EXPECT_EQ(
      query("SELECT r.name LIKE '%.sequences-2' FROM run r JOIN attribute a ON a.run_id = r.id"
            " WHERE a.dim = 'prefilled_together'"),
      "1\n");
}

TEST_F(InferSweep, VerdictsAreThoseThatEachRunHasAlone) {
  const Result sweep =
      sh("$I sweep $Q --model m.gguf --vary mode=batch_invariant,as_designed"
         " --inject fp16_accumulate:layer=1 --format json --gate strict");
  EXPECT_EQ(sweep.status, 1) << sweep.err;
  for (const auto& row : sweep.json()) {
    EXPECT_EQ(row.at("first_fail"), "WO_OUT_DRIFT") << row;
    EXPECT_EQ(row.at("layer"), 1) << row;
    EXPECT_EQ(query("SELECT numeric_verdict FROM run_verdict WHERE run = '" +
                    row.at("run").get<std::string>() + "'"),
              row.at("numeric_verdict").get<std::string>() + "\n");
  }
}

TEST_F(InferSweep, ExitStatusIsOfTheWorstVerdict) {
  const std::string vary = "$I sweep $Q --model m.gguf --vary mode=as_designed,batch_invariant";
  EXPECT_TRUE(
      sh(vary).answers(0, {"PASS (rounding only; bitwise equal: no, as expected in as_designed)"}));
  EXPECT_EQ(sh(vary + " --inject rope_theta@decode:layer=1").status, 1);
  EXPECT_EQ(sh(vary + " --gate numeric").status, 0);
  EXPECT_EQ(sh(vary + " --gate strict").status, 1);
  EXPECT_EQ(sh(vary + " --phases decode0").status, 3);
}

TEST_F(InferSweep, WhatCannotBeRunIsRefusedBeforeTheFirstRun) {
  const std::pair<const char*, const char*> cases[] = {
      {"foo=1", "with a KEY of backend, threads"},
      {"batch", "give KEY=VALUE"},
      {"batch=", "a value is empty"},
      {"batch=1,,2", "a value is empty"},
      {"batch=1,1", "is there twice"},
      {"batch=1,x", "not in range"},
      {"threads=1,0", "not in range"},
      {"mode=as_designed,zz", "no mode 'zz'"},
      {"route.=dot", "with a KEY of"},
      {"route.nothing=dot", "no operation 'nothing'"},
      {"route.lm_head=dot,valu", "has no route VALU"},
      {"max-seq-len=4096,8", "there is room for 8"},
      {"batch=1,2,3,4", "more than 3 combinations"}};
  for (const auto& [vary, why] : cases) {
    const Result sweep = sh(std::string("$I sweep $Q --model m.gguf --max-runs 3 --vary ") + vary);
    EXPECT_EQ(sweep.status, 2) << vary;
    EXPECT_NE(sweep.err.find(why), std::string::npos) << vary << ": " << sweep.err;
  }
  EXPECT_EQ(sh("$I sweep $Q --model m.gguf --vary batch=1 --vary batch=2").status, 2);
  EXPECT_EQ(sh("$I sweep $Q --model m.gguf").status, 2);
  EXPECT_EQ(sh("test -e greta.db").status, 1);
}

TEST_F(InferSweep, RunsThatEndedStayAndAreToldWhenOneCannotBeRun) {
  // a fault that only one of the modes can show
  EXPECT_TRUE(sh("$I sweep $Q --model m.gguf --vary mode=as_designed,kv_aligned --layers 0"
                 " --tensors attn_scores --inject stale_kv_tail")
                  .answers(2, {"as_designed"}));
  EXPECT_EQ(query("SELECT count(*) FROM run_verdict WHERE status = 'complete'"), "1\n");
}

TEST_F(InferSweep, ExportedRunsComeBackUnderTheirNames) {
  ASSERT_EQ(sh("$I sweep $Q --model m.gguf --vary batch=1,7 --trace-jsonl out").status, 0);
  ASSERT_EQ(sh("$G --db back.db ingest out").status, 0);
  const std::string runs = "SELECT run, numeric_verdict, pairs FROM run_verdict ORDER BY run";
  EXPECT_EQ(query(runs, "back.db"), query(runs));
}

}  // namespace
}  // namespace greta
