// What greta-db tells of a suite that an engine ran in both modes.
#include <gtest/gtest.h>

#include <cctype>

#include "engine/record/run_queue.h"
#include "tests/cli/program.h"
#include "tests/engine/record/run_fixture.h"

namespace greta {
namespace {

class RunReport : public ProgramTest {
 protected:
  /// Decode rounds otherwise than prefill, but for weights and what nothing has computed yet.
  void write_suite() const {
    for (const std::string mode : {"as_designed", "kv_aligned"}) {
      MadeUpRun run{.prompts = {{"p0_short", 2}, {"p6_len_16", 16}, {"p6_len_32", 32}},
                    .layers = {0, 1, 2, 4, 8},
                    .cpu_probe = true};
      run.alter = [&mode](MadeUpRow& row) {
        const TracePoint point = row.record.point;
        const bool exact = point <= TracePoint::kEmbedOut || point == TracePoint::kRmsWeight ||
                           (row.record.layer == 0 && point < TracePoint::kQPreRope);
        const bool cache = point >= TracePoint::kKCache && point <= TracePoint::kVCacheRows;
        if (!is_decode(row.record.phase) || exact || (cache && mode == "kv_aligned")) return true;
        for (float& x : row.values) x *= 1.0f + 0x1p-20f;
        return true;
      };
      RunRecord record = MadeUpRun::record(mode);
      record.attributes = {{"host", "node7"}, {"model", "tiny.gguf"}, {"inject", "none@decode"}};
      RunQueue writer(store_in_database(database(), record));
      run.feed(writer);
      writer.end(true);
    }
  }
  static int count(const std::string& text, const std::string& part) {
    int n = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
    return n;
  }
};

TEST_F(RunReport, FinalReportOfBothModesLeavesNothingOpen) {
  write_suite();
  const Result result = run({"--db", "greta.db", "report", "--run", "b3_66_v2", "--out", "out/"});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::string text = read(path("out/B3_66_V2_FINAL_REPORT.md"));
  for (const char* part :
       {"## Results by Mode", "| as_designed | 2026-02-07/b3_66_v2/as_designed | **PASS** | FAIL |",
        "| kv_aligned | 2026-02-07/b3_66_v2/kv_aligned | **PASS** | FAIL |",
        "| 15 KV_MISMATCH | 15 STRUCTURAL_DRIFT |", "| 15 PASS | 15 STRUCTURAL_DRIFT |",
        "**Host**: node7", "**Model**: tiny.gguf", "**Injected faults**: none@decode",
        "**Commit**: c0ffee1", "**Run Status**: complete", "was traced.",
        "| **Coverage** | complete |", "| Cache rows bitwise equal | 15 of 15 match |",
        "| Cache rows bitwise equal | 0 of 15 match |", "| **✔ 15 of 15 rows** |",
        "Nothing speaks against H₀: none of the 15 rows", "The CPU probe contradicts no route."}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  // of each mode: 5 layers, 3 prompts, before and after softmax, prefill and decode
  EXPECT_EQ(count(text, "| before softmax |"), 2 * 5 * 3 * 2);
  EXPECT_EQ(count(text, "| after softmax |"), 2 * 5 * 3 * 2);
  EXPECT_EQ(count(text, "| consistent | STRUCTURAL_DRIFT |"), 2 * 5);
  for (const char* open :
       {"TBD", "PREPARED", "**: not recorded", "| not recorded", "| not comparable"}) {
    EXPECT_EQ(text.find(open), std::string::npos) << open;
  }
}

TEST_F(RunReport, AnalysisTableListsEveryComparison) {
  write_suite();
  for (const char* mode : {"as_designed", "kv_aligned"}) {
    const std::string name = std::string("2026-02-07/b3_66_v2/") + mode;
    const Result result = run({"--db", "greta.db", "--format", "tsv", "report", "--run", name});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(
        result.out.starts_with("PROMPT\tTOKEN_ID\tPOS_ID\tLAYER\tTENSOR\tFIRST_FAIL\tROOT_CAUSE\n"
                               "p0_short\t101\t1\t0\tembd_w_hash\t\t\n"));
    EXPECT_EQ(count(result.out, "\n"), 1 + 3 * 113);
    const bool designed = std::string(mode) == "as_designed";
    EXPECT_EQ(count(result.out, "\tK_CACHE_DRIFT\tATTENTION_COMPUTATION_MISMATCH\n"),
              designed ? 15 : 0);
    EXPECT_EQ(count(result.out, "\tK_POST_ROPE_DRIFT\tATTENTION_COMPUTATION_MISMATCH\n"), 15);
  }
}

TEST_F(RunReport, CommandsReadAnEnginesRun) {
  write_suite();
  const Result check = run({"--db", "greta.db", "check"});
  EXPECT_EQ(check.status, 0) << check.out << check.err;
  const Result verdict = run({"--db", "greta.db", "--format", "json", "firstfail", "--run",
                              "2026-02-07/b3_66_v2/kv_aligned"});
  EXPECT_EQ(verdict.status, 0) << verdict.err;
  EXPECT_EQ(verdict.json()[0]["verdict"], "PASS");
  EXPECT_EQ(verdict.json()[0]["coverage"], "complete");
  EXPECT_EQ(verdict.json()[0]["strict_first_fail"]["tensor"], "q_pre_rope");
  const Result said = run({"--db", "greta.db", "--format", "csv", "runs", "--attributes", "--run",
                           "2026-02-07/b3_66_v2/kv_aligned"});
  EXPECT_NE(said.out.find("host,node7,1,0,engine"), std::string::npos) << said.out;
}

}  // namespace
}  // namespace greta
