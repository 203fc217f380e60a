#include <iterator>
#include <string>

#include "tests/cli/program.h"
#include "tests/cli/show/report_rows.h"

namespace greta {
namespace {

class ReportProgram : public ProgramTest {};

TEST_F(ReportProgram, ExitStatusFollowsTheVerdictAndTheGate) {
  Warehouse warehouse(database());
  warehouse.run({.name = "bad"});
  warehouse.rounding("attn_out", 0);
  warehouse.run({.name = "good"});
  warehouse.match("attn_out", 0);
  warehouse.run({.name = "empty"});
  EXPECT_EQ(run({"report", "--run", "bad"}).status, 0);
  EXPECT_EQ(run({"report", "--run", "bad", "--gate", "strict"}).status, 1);
  EXPECT_EQ(run({"report", "--run", "good"}).status, 0);
  EXPECT_EQ(run({"report", "--run", "empty"}).status, 3);
  EXPECT_EQ(run({"report", "--run", "e"}).status, 3);
  EXPECT_EQ(run({"report", "--run", "e", "--gate", "strict"}).status, 1);
  EXPECT_EQ(run({"report", "--run", "nothing like it"}).status, 2);
  EXPECT_EQ(run({"report"}).status, 2);
  EXPECT_EQ(run({"report", "--run", "good", "--lang", "fr"}).status, 2);
  EXPECT_EQ(run({"report", "--run", "good", "--format", "json"}).status, 2);
}

TEST_F(ReportProgram, WritesBothFilesAndOverwritesNothing) {
  Warehouse warehouse(database());
  add_b3_66(warehouse);
  Result result = run({"report", "--run", "b3_66", "--out", "reports/"});
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_TRUE(result.says("reports/B3_66_FINAL_REPORT.md"));
  EXPECT_TRUE(has(read(path("reports/B3_66_FINAL_REPORT.md")), "31.25%"));
  EXPECT_TRUE(has(read(path("reports/B3_66_ANALYSIS.tsv")), "ATTN_OUT_DRIFT"));
  write("reports/B3_66_ANALYSIS.tsv", "mine");
  std::filesystem::remove(path("reports/B3_66_FINAL_REPORT.md"));
  result = run({"report", "--run", "b3_66", "--out", "reports"});
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(result.says("--force"));
  EXPECT_EQ(read(path("reports/B3_66_ANALYSIS.tsv")), "mine");
  EXPECT_FALSE(std::filesystem::exists(path("reports/B3_66_FINAL_REPORT.md"))) << "all or nothing";
  EXPECT_EQ(run({"report", "--run", "b3_66", "--out", "reports", "--force"}).status, 1);
  EXPECT_TRUE(has(read(path("reports/B3_66_ANALYSIS.tsv")), "ATTN_OUT_DRIFT"));
}

TEST_F(ReportProgram, OneFileGetsWhatItsNameOrFormatSays) {
  Warehouse warehouse(database());
  add_b3_66(warehouse);
  EXPECT_EQ(run({"report", "--run", "b3_66", "--out", "a.tsv"}).status, 1);
  EXPECT_TRUE(read(path("a.tsv")).starts_with("PROMPT\tTOKEN_ID"));
  EXPECT_EQ(run({"report", "--run", "b3_66", "--out", "a.md", "--lang", "es"}).status, 1);
  EXPECT_TRUE(has(read(path("a.md")), "Informe final"));
  EXPECT_EQ(run({"report", "--run", "b3_66", "--out", "a.md"}).status, 2);
  EXPECT_EQ(run({"report", "--run", "b3_66", "--out", "no/such/folder/a.md"}).status, 2);
  EXPECT_TRUE(
      run({"report", "--run", "b3_66", "--format", "tsv"}).out.starts_with("PROMPT\tTOKEN_ID"));
}

TEST_F(ReportProgram, RunsOfAnExperimentGetATableEach) {
  Warehouse warehouse(database());
  for (const char* name : {"2026-02-07/e/a", "2026-02-07/e/a#2", "2026-02-07/e/A"}) {
    warehouse.run({.name = name});
    warehouse.match("attn_out", 0);
  }
  EXPECT_EQ(run({"report", "--run", "e", "--format", "tsv"}).status, 2);
  Result result = run({"report", "--run", "e", "--out", "out/"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(has(read(path("out/E_FINAL_REPORT.md")), "## Runs\n"));
  for (const char* stem : {"E_2026-02-07_a", "E_2026-02-07_a_2", "E_2026-02-07_A_3"}) {
    EXPECT_TRUE(result.says(std::string("out/") + stem + "_ANALYSIS.tsv"));
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("out")), {}), 4);
}

}  // namespace
}  // namespace greta
