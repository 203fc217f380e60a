// Databases that engines wrote, merged.
#include <gtest/gtest.h>

#include "db/merge.h"
#include "engine/record/run_queue.h"
#include "tests/engine/record/run_fixture.h"

namespace greta {
namespace {

constexpr const char* kRuns = "SELECT run, verdict, pairs, pass FROM run_verdict ORDER BY run";

class RunMerge : public testing::Test {
 protected:
  MadeUpRun small_run() const {
    return {.prompts = {{"p0_short", 6}}, .layers = {0}, .points = {TracePoint::kAttnOut}};
  }
  MadeUpRun drifting_run() const {
    MadeUpRun run = small_run();
    run.alter = [](MadeUpRow& row) {
      if (row.record.phase == Phase::kDecode0) row.values[0] += 1;
      return true;
    };
    return run;
  }
  void write(const std::string& file, const MadeUpRun& run) const {
    RunQueue writer(store_in_database(folder_ / file, MadeUpRun::record("kv_aligned")));
    run.feed(writer);
    writer.end(true);
  }
  SQLite::Database open(const std::string& file) const { return open_for_writing(folder_ / file); }

  TemporaryFolder folder_;
};

TEST_F(RunMerge, ExecutionsOfOneNameStayTwoRuns) {
  write("a.db", small_run());
  write("b.db", drifting_run());
  SQLite::Database db = open("a.db");
  const MergeSummary summary = merge(db, folder_ / "b.db");
  EXPECT_EQ(summary.new_runs, 1);
  EXPECT_EQ(summary.rows, 2);
  EXPECT_EQ(summary.conflicts, 0);
  const std::vector<std::pair<std::string, std::string>> renamed = {
      {"2026-02-07/b3_66_v2/kv_aligned", "2026-02-07/b3_66_v2/kv_aligned#2"}};
  EXPECT_EQ(summary.renamed, renamed);
  EXPECT_EQ(text_of(db, kRuns),
            "2026-02-07/b3_66_v2/kv_aligned|PASS|1|1\n"
            "2026-02-07/b3_66_v2/kv_aligned#2|FAIL|1|0");
  EXPECT_EQ(problems_of(db), "");
}

TEST_F(RunMerge, MergingAgainChangesNothing) {
  write("a.db", small_run());
  write("b.db", drifting_run());
  SQLite::Database db = open("a.db");
  merge(db, folder_ / "b.db");
  const std::string once = dump(db, {"meta"});
  const MergeSummary again = merge(db, folder_ / "b.db");
  EXPECT_EQ(again.new_runs, 0);
  EXPECT_EQ(again.known_sources, 1);
  EXPECT_TRUE(again.renamed.empty());
  EXPECT_TRUE(same_dump(dump(db, {"meta"}), once));
  // and back: the other file gets the run that it lacks, under another name there
  SQLite::Database back = open("b.db");
  merge(back, folder_ / "a.db");
  EXPECT_EQ(text_of(back, kRuns),
            "2026-02-07/b3_66_v2/kv_aligned|FAIL|1|0\n"
            "2026-02-07/b3_66_v2/kv_aligned#2|PASS|1|1");
}

TEST_F(RunMerge, NumberedNamesThatAreTakenMoveOn) {
  for (int i = 0; i < 2; ++i) {
    write("a.db", small_run());
    write("b.db", drifting_run());
  }
  SQLite::Database db = open("a.db");
  merge(db, folder_ / "b.db");
  EXPECT_EQ(text_of(db, "SELECT run, verdict FROM run_verdict ORDER BY run"),
            "2026-02-07/b3_66_v2/kv_aligned|PASS\n2026-02-07/b3_66_v2/kv_aligned#2|PASS\n"
            "2026-02-07/b3_66_v2/kv_aligned#3|FAIL\n2026-02-07/b3_66_v2/kv_aligned#4|FAIL");
}

TEST_F(RunMerge, RunThatWentOnIsCompleted) {
  MadeUpRun run = small_run();
  run.decode_steps = 3;
  RunQueue writer(store_in_database(folder_ / "b.db", MadeUpRun::record("kv_aligned")));
  run.feed(writer);
  SQLite::Database db = open("a.db");
  const auto rows_there = [this] {
    SQLite::Database there = open_for_reading(folder_ / "b.db");
    return number_of(there, "SELECT count(*) FROM trace_row");
  };
  for (int i = 0; rows_there() == 0 && i < 60'000; ++i) usleep(1000);
  merge(db, folder_ / "b.db");
  EXPECT_EQ(text_of(db, "SELECT verdict, status FROM run_verdict"), "INCOMPLETE|running");
  writer.rows(0, [] {
    TraceRecord late;
    late.point = TracePoint::kAttnOut;  // has a pair elsewhere
    late.phase = Phase::kDecode;
    late.pos_id = 20;
    return std::vector{late};
  }());
  writer.end(true);
  const MergeSummary rest = merge(db, folder_ / "b.db");
  EXPECT_GE(rest.rows, 1);
  EXPECT_EQ(rest.duplicates, 0);
  EXPECT_EQ(text_of(db, "SELECT verdict, status, unmet FROM run_verdict"), "PASS|complete|0");
  EXPECT_EQ(text_of(db, "SELECT rows, duplicates FROM source"), "6|0");
  EXPECT_EQ(text_of(db, "SELECT count(*) FROM readout"), "5");
  EXPECT_EQ(problems_of(db), "");
}

TEST_F(RunMerge, LostRowsStayLost) {
  MadeUpRun run = small_run();
  run.decode_steps = 2;
  write("b.db", run);
  open("b.db").exec("DELETE FROM trace_row WHERE pos_id = 7");
  SQLite::Database db = open("a.db");
  EXPECT_THROW(merge(db, folder_ / "b.db"), DatabaseError);
  EXPECT_EQ(text_of(db, "SELECT count(*) FROM run"), "0");
  open("b.db").exec(
      "UPDATE source SET rows = rows - 1");  // as if they had never come to the writer
  merge(db, folder_ / "b.db");
  EXPECT_EQ(text_of(db, "SELECT verdict, unmet FROM run_verdict"), "INCOMPLETE|1");
}

TEST_F(RunMerge, ExportThatWasIngestedIsTheRunItself) {
  write("a.db", small_run());
  RunQueue writer(store_in_folder(folder_ / "out", MadeUpRun::record("kv_aligned")));
  small_run().feed(writer);
  writer.end(true);
  {
    SQLite::Database exported = open("b.db");
    ingest_all(exported, {folder_ / "out"});
  }
  SQLite::Database db = open("a.db");
  EXPECT_EQ(merge(db, folder_ / "b.db").duplicates, 2);
  EXPECT_EQ(text_of(db, kRuns), "2026-02-07/b3_66_v2/kv_aligned|PASS|1|1");
}

}  // namespace
}  // namespace greta
