// A run that is watched while it is written.
#include <thread>

#include "tests/cli/child.h"
#include "tests/cli/program.h"

namespace greta {
namespace {

class WatchCommand : public ProgramTest {
 protected:
  void SetUp() override {
    warehouse_.run({.name = "a",
                    .experiment = "e",
                    .mode = "kv_aligned",
                    .dtype = "f32",
                    .date = "2026-01-01",
                    .status = "running"});
  }
  void end(const std::string& status) {
    warehouse_.db.exec("UPDATE run SET status = '" + status + "'");
  }
  /// Until the file has the text; false after a minute.
  bool appears(const std::string& text) const {
    for (int i = 0; i < 6000; ++i) {
      if (read(path("out")).find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  Warehouse warehouse_{database()};
};

TEST_F(WatchCommand, SaysWhatChangesUntilTheRunEndsAndExitsAsFirstfail) {
  warehouse_.match("x_in", 0);
  Result result;
  std::thread watching([&] { result = shell("$G watch --interval 1ms >out"); });
  EXPECT_TRUE(appears("a running, 2 rows: INCOMPLETE\n"));
  warehouse_.match("x_in", 1);
  warehouse_.drift("attn_out", 1);
  EXPECT_TRUE(appears("a running, 6 rows: FAIL"));
  end("complete");
  watching.join();
  EXPECT_EQ(result.status, 1);
  const std::string out = read(path("out"));
  EXPECT_NE(out.find("ATTN_OUT_DRIFT at layer 1, attn_out"), std::string::npos) << out;
  EXPECT_NE(out.find("a complete, 6 rows: FAIL"), std::string::npos) << out;
}

TEST_F(WatchCommand, OnceSaysWhatIsKnownNow) {
  warehouse_.match("x_in", 0);
  const Result now = run({"watch", "--once"});
  EXPECT_EQ(now.status, 3);
  EXPECT_EQ(now.out, "a running, 2 rows: INCOMPLETE\n");
  end("complete");
  warehouse_.plan_what_is_there();
  const Result ended = run({"watch", "--run", "a"});
  EXPECT_EQ(ended.status, 0) << ended.out;
  EXPECT_EQ(ended.out, "a complete, 2 rows: PASS\n");
  const nlohmann::json json = run({"watch", "--format", "json"}).json();
  EXPECT_EQ(json["verdict"], "PASS");
  EXPECT_EQ(json["rows"], 2);
  EXPECT_EQ(json["status"], "complete");
}

TEST_F(WatchCommand, PrefersTheRunThatIsBeingWritten) {
  warehouse_.run({.name = "b", .experiment = "e", .date = "2026-02-01", .status = "complete"});
  EXPECT_TRUE(run({"watch", "--once"}).says("a running"));
  warehouse_.db.exec("UPDATE run SET status = 'complete'");
  EXPECT_TRUE(run({"watch", "--once"}).says("b complete"));
}

TEST_F(WatchCommand, WhatIsNotThereYetIsNoChange) {
  warehouse_.match("x_in", 0);
  warehouse_.match("x_in", 1);
  warehouse_.plan_what_is_there();
  end("complete");
  warehouse_.run({.name = "b",
                  .experiment = "e",
                  .mode = "kv_aligned",
                  .dtype = "f32",
                  .date = "2026-01-02",
                  .status = "running"});
  warehouse_.match("x_in", 0);
  EXPECT_EQ(run({"watch", "--once", "--run", "b"}).out, "b running, 2 rows: INCOMPLETE\n");
  warehouse_.drift("attn_out", 0);
  EXPECT_TRUE(run({"watch", "--once", "--run", "b"}).says("BROKEN since a"));
}

TEST_F(WatchCommand, ATerminalIsDrawnOnAndOtherOutputIsNot) {
  warehouse_.drift("attn_out", 0);
  end("complete");
  EXPECT_TRUE(on_terminal(GRETA_DB_PROGRAM, {"--db", database(), "watch"}, "", 40)
                  .answers(1, {"a  complete\r\n  rows     2, 1 pairs: ", "\r\n  verdict  FAIL"}));
}

TEST_F(WatchCommand, AStopEndsItAndLeavesTheWriterAlone) {
  Child child({GRETA_DB_PROGRAM, "--db", database(), "watch", "--interval", "1ms"}, path(".err"));
  for (int layer = 0; layer < 20; ++layer) warehouse_.match("x_in", layer);
  ASSERT_TRUE(child.until([&] { return child.catches(SIGINT); }));
  child.send(SIGINT);
  EXPECT_EQ(child.wait(), 128 + SIGINT);
}

TEST_F(WatchCommand, ARunWhoseWriterWasKilledIsNotWaitedFor) {
  write(
      "rows",
      R"({"event":"run_start","format":"greta-rows-1","experiment":"killed","date":"2026-02-01"})"
      "\n"
      R"({"event":"row","phase":"prefill_last","layer":0,"tensor":"x_in","pos_id":0,"values":[1]})"
      "\n"
      R"({"event":"row","phase":"decode0","layer":0,"tensor":"x_in","pos_id":0,"values":[1]})"
      "\n");
  const Result result = shell(
      "mkfifo pipe; $G ingest - <pipe >/dev/null 2>&1 & writer=$!; exec 3>pipe; cat rows >&3;"
      " until $G watch --once --run killed 2>&1 | grep -q '2 rows'; do sleep 0.05; done;"
      " $G watch --once --run killed; kill -9 $writer; wait $writer 2>/dev/null;"
      " $G watch --run killed");
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(
      result.out,
      "2026-02-01/killed running, 2 rows: INCOMPLETE\n"
      "2026-02-01/killed running, 2 rows: INCOMPLETE; its writer is gone and did not end it\n");
  const nlohmann::json json = run({"watch", "--run", "killed", "--format", "json"}).json();
  EXPECT_EQ(json["stalled"], "its writer is gone and did not end it");
  EXPECT_EQ(run({"forget", "--run", "2026-02-01/killed", "--running", "--yes"}).status, 0);
  EXPECT_EQ(warehouse_.rows("SELECT count(*) FROM meta WHERE key GLOB 'writer/*'"), "0");
}

TEST_F(WatchCommand, ThatNothingComesIsSaidWhereTheWriterIsNotKnown) {
  warehouse_.match("x_in", 0);
  Result result;
  std::thread watching([&] { result = shell("$G watch --interval 10ms >out"); });
  EXPECT_TRUE(
      appears("a running, 2 rows: INCOMPLETE; nothing was written for 600 ms, and whether"));
  {
    SQLite::Transaction both(warehouse_.db);  // that it says no "3 rows: INCOMPLETE", and no more
    warehouse_.match("x_in", 1);
    both.commit();
  }
  EXPECT_TRUE(appears("a running, 4 rows: INCOMPLETE\n"));
  end("failed");
  watching.join();
  EXPECT_EQ(result.status, 3);
}

TEST_F(WatchCommand, RefusesWhatIsNoTimeAndNoRun) {
  EXPECT_EQ(run({"watch", "--interval", "soon"}).status, 2);
  EXPECT_EQ(run({"watch", "--interval", "0"}).status, 2);
  EXPECT_EQ(run({"watch", "--run", "nosuch"}).status, 2);
  EXPECT_EQ(run({"watch", "--format", "csv"}).status, 2);
  warehouse_.db.exec("DELETE FROM lineage_member; DELETE FROM run");
  EXPECT_TRUE(run({"watch", "--once"}).answers(3, {"no runs in"}));
}

}  // namespace
}  // namespace greta
