// Runs that were ingested, forgotten and ingested again.
#include "db/forget.h"

#include "db/check.h"
#include "tests/ingest/importing.h"

namespace greta {
namespace {

struct ForgetIngested : Importing {
  /// The run of that name and all below it.
  void forget(const std::string& name) {
    std::vector<RunToForget> runs;
    SQLite::Statement names(db, "SELECT id, name FROM run WHERE instr(name, ?) = 1");
    names.bind(1, name);
    while (names.executeStep()) runs.push_back({names.getColumn(0).getInt64(), names.getColumn(1)});
    forget_runs(db, runs);
    EXPECT_EQ(check_database(db), std::vector<std::string>());
  }
  /// What is said of runs, whatever the ids.
  std::string said() {
    return rows(
               "SELECT run, verdict, pairs, fail, rejected, commit_sha FROM run_verdict ORDER BY "
               "1") +
           "\n" +
           rows(
               "SELECT r.name, dim, value, rank FROM attribute a JOIN run r ON r.id = a.run_id"
               " ORDER BY 1, 2, 3") +
           "\n" +
           rows(
               "SELECT r.name, m.leg, m.name, m.text FROM run_metric m JOIN run r ON r.id ="
               " m.run_id ORDER BY 1, 2, 3, 4") +
           "\n" +
           rows(
               "SELECT r.name, c.kind, c.value FROM report_claim c JOIN run r ON r.id ="
               " c.run_id ORDER BY 1, 2, 3") +
           "\n" + rows("SELECT file, line, reason, about FROM ingest_error ORDER BY 1, 2, 3") +
           "\n" +
           rows(
               "SELECT run, prompt, phase, pos_id, tensor, hash, seen, source_file FROM trace"
               " ORDER BY 1, 2, 3, 4, 5, 6, 8");
  }
};

TEST_F(ForgetIngested, TheLastOneLeavesAFileAsIfItHadNeverCome) {
  write_tree(folder, 3);
  take("artifacts_remote/2026-02-01");
  take("artifacts_remote/2026-02-02");
  const std::string before = dump(db);
  take("artifacts_remote/2026-02-03");
  forget("2026-02-03/b3_62");
  EXPECT_TRUE(same_dump(dump(db), before));
}

TEST_F(ForgetIngested, ComesBackWithItsFiles) {
  write_tree(folder, 3);
  take();
  const std::string before = said();
  forget("2026-02-02/b3_61");
  EXPECT_EQ(count("run", "name GLOB '*b3_61*'"), 0);
  const IngestSummary again = take();
  EXPECT_GT(again.new_sources, 0);
  EXPECT_EQ(said(), before);
  EXPECT_EQ(check_database(db), std::vector<std::string>());
}

TEST_F(ForgetIngested, AndWithWhatASummaryOfItsExperimentSays) {
  const std::string root = "artifacts_remote/2026-02-07/b3_67/";
  folder.write(root + "summary.json", R"({"results":[{"seed":0,"wall":1.5,"verdict":"PASS_EQUIV"},)"
                                      R"({"seed":1,"wall":2.5,"verdict":"FAIL"}]})");
  for (const char* seed : {"seed_0", "seed_1"})
    folder.write(root + seed + "/traces/p0_trace.jsonl", small_trace());
  take();
  const std::string before = said();
  EXPECT_GT(count("run_metric"), 0);
  forget("2026-02-07/b3_67/seed_0");
  EXPECT_EQ(count("run_metric m JOIN run r ON r.id = m.run_id", "r.name GLOB '*seed_1'"), 1);
  take();
  EXPECT_EQ(said(), before);
  EXPECT_EQ(count("source", "instr(sha256, 'forgotten')"), 0);
}

}  // namespace
}  // namespace greta
