#include "ingest/runs.h"

#include <string>

#include "tests/ingest/importing.h"

namespace greta {
namespace {

using StatedOfARun = Importing;

TEST_F(StatedOfARun, ALogNamesTheSegmentOfItsLengthWhicheverComesFirst) {
  const std::string run = "artifacts_remote/2026-02-03/b3_11/";
  const fs::path lines =
      folder.write(run + "b3_11_readout.jsonl", readout(204, 1) + readout(44, 2));
  const fs::path p4 = folder.write(run + "b3_11_p4_sys.log", log_of(205));
  const fs::path p5 = folder.write(run + "b3_11_p5_ba.log", log_of(45));
  for (const auto& order : {std::vector{lines, p4, p5}, {p4, p5, lines}, {p5, lines, p4}}) {
    TemporaryFolder own;
    SQLite::Database other = open_for_writing(own / "g.db");
    for (const fs::path& path : order) ingest_all(other, {path});
    EXPECT_EQ(text_of(other, "SELECT DISTINCT pos_id, prompt FROM trace ORDER BY pos_id"),
              "44|p5_ba\n204|p4_sys");
    EXPECT_EQ(text_of(other, "SELECT name, n_tokens FROM prompt ORDER BY name"),
              "p4_sys|205\np5_ba|45");
  }
}

TEST_F(StatedOfARun, PathBeatsPerfBeatsMetadataBeatsConfigAbove) {
  const std::string run =
      "artifacts_remote/2026-02-09/b3_70/runs/span_32/dtype_fp16/kv_aligned_0/seed_0/decode/";
  folder.write(
      "artifacts_remote/2026-02-09/b3_70/runs/config.json",
      R"({"git_commit":"a6f7107","host":"above","gen_len":1,"prompt_len":1,"timestamp":"2026-02-09T00:00:00Z"})");
  folder.write(run + "metadata.json", R"({"dtype":"bf16","seed":7,"host":"leaf","gen_len":2})");
  folder.write(run + "perf.json", R"({"dtype":"f32","host":"perf","wall_time_sec":41.5})");
  take();
  EXPECT_EQ(rows("SELECT dtype, seed, commit_sha, date, mode FROM run WHERE name LIKE '%seed_0'"),
            "fp16|0|a6f7107|2026-02-09|as_designed");
  EXPECT_EQ(rows("SELECT value, rank FROM attribute WHERE dim = 'dtype' ORDER BY rank"),
            "fp16|0\nf32|1\nbf16|2");
  EXPECT_EQ(rows("SELECT value, rank FROM attribute WHERE dim = 'seed' ORDER BY rank"), "0|0\n7|2");
  EXPECT_EQ(rows("SELECT value FROM attribute WHERE dim = 'host' ORDER BY rank, id"),
            "perf\nabove\nleaf");
  EXPECT_EQ(rows("SELECT name, value, leg FROM run_metric"), "wall_time_sec|41.5|decode");
}

TEST_F(StatedOfARun, TheNearestConfigGivesTheCommit) {
  folder.write("artifacts_remote/2026-02-08/b3_67/config.json",
               R"({"git_commit":"4a57383","seed":0})");
  folder.write("artifacts_remote/2026-02-08/b3_67/runs/seed_1/config.json",
               R"({"git_commit":"d47c8f3"})");
  folder.write("artifacts_remote/2026-02-08/b3_67/runs/seed_2/p0_trace.jsonl", small_trace());
  take();
  EXPECT_EQ(
      rows("SELECT name, commit_sha FROM run ORDER BY name"),
      "2026-02-08/b3_67|4a57383\n2026-02-08/b3_67/seed_1|d47c8f3\n2026-02-08/b3_67/seed_2|4a57383");
}

TEST_F(StatedOfARun, ADocumentThatComesLaterGivesTheCommit) {
  folder.write(kRun + "traces/p0_short_trace.jsonl", small_trace());
  take();
  EXPECT_EQ(rows("SELECT commit_sha FROM run"), "-");
  folder.write(kRun + "b3_66_analysis.txt", "B3.66 AUDIT\n\nCommit: e09989c\n");
  take();
  EXPECT_EQ(rows("SELECT commit_sha FROM run"), "e09989c");
}

TEST_F(StatedOfARun, ASyntheticCommitIsNoCommit) {
  folder.write(kRun + "config.json", R"({"git_commit":"synthetic"})");
  take();
  EXPECT_EQ(rows("SELECT commit_sha, synthetic FROM run"), "-|1");
}

}  // namespace
}  // namespace greta
