// What ends greta-db before its work is done: locks, signals, limits.
#include <algorithm>

#include "db/check.h"
#include "db/transaction.h"
#include "tests/cli/child.h"
#include "tests/cli/program.h"

namespace greta {
namespace {

class Trouble : public ProgramTest {
 protected:
  /// One trace file per run.
  void write_runs(int n) const {
    for (int i = 0; i < n; ++i) {
      const std::string run =
          "in/2026-02-0" + std::to_string(1 + i % 9) + "/b3_" + std::to_string(i) + "/traces/";
      std::filesystem::create_directories(folder_ / run);
      std::string lines;
      for (int at = 0; at < 400; ++at) {
        lines += R"({"event":"stage_trace","prompt_id":"p0","phase":")" +
                 std::string(at % 2 == 0 ? "prefill_last" : "decode0") +
                 R"(","point":"attn_out","layer":)" + std::to_string(at / 2 % 100) +
                 R"(,"step":0,"pos_id":)" + std::to_string(at / 200) +
                 R"(,"sample_n":256,"hash":)" + std::to_string(at / 2 + 1) + "}\n";
      }
      write(run + "p0_trace.jsonl", lines);
    }
  }
  std::vector<std::string> ingest(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{GRETA_DB_PROGRAM, "--db", database(), "ingest", path("in")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string err() const { return read(path("err")); }

  int64_t number(const std::string& sql) const {
    SQLite::Database db = open_for_reading(database());
    return db.execAndGet(sql).getInt64();
  }
  /// The file is sound, holds whole contents only, and the same ingest finishes the work.
  void expect_that_it_goes_on(int runs) const {
    {
      SQLite::Database db = open_for_writing(database());
      EXPECT_EQ(check_database(db), std::vector<std::string>());
    }
    EXPECT_EQ(number("SELECT count(*) FROM source WHERE rows <> 400"), 0);
    EXPECT_EQ(run({"ingest", "-q", path("in")}).status, 0);
    EXPECT_EQ(number("SELECT count(*) FROM trace_row"), runs * 400);
    EXPECT_EQ(number("SELECT count(*) FROM run_verdict WHERE verdict = 'PASS'"), runs);
  }
};

TEST_F(Trouble, AWaitThatIsOverSaysForWhomAndHowToWaitLonger) {
  write_runs(1);
  SQLite::Database db = open_for_writing(database());
  in_transaction(db, [&] {
    const Result result = run({"ingest", path("in"), "--wait", "50ms"});
    EXPECT_EQ(result.status, 2);
    EXPECT_TRUE(result.says("process " + std::to_string(getpid())));
    EXPECT_TRUE(result.says("waited 50 ms"));
    EXPECT_TRUE(result.says("--wait"));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(run({"history", "--wait", "0"}).status, 0) << "a reader waits for no writer";
  });
  EXPECT_EQ(run({"ingest", path("in"), "--wait", "soon"}).status, 2);
  EXPECT_EQ(run({"ingest", path("in"), "--wait", "0"}).status, 0);
}

TEST_F(Trouble, ASignalStopsAnIngestBetweenContents) {
  constexpr int kRuns = 100;
  write_runs(kRuns);
  for (const auto& [signal, status] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
    std::filesystem::remove(database());
    { SQLite::Database db = open_for_writing(database()); }
    Child child(ingest(), path("err"));
    SQLite::Database db = open_for_reading(database());
    ASSERT_TRUE(
        child.until([&] { return db.execAndGet("SELECT count(*) FROM source").getInt64() > 2; }));
    child.send(signal);
    EXPECT_EQ(child.wait(), status) << err();
    EXPECT_EQ(err(), "greta-db: stopped; what was committed stays\n");
    EXPECT_LT(number("SELECT count(*) FROM source"), kRuns);
    expect_that_it_goes_on(kRuns);
  }
}

TEST_F(Trouble, ASignalEndsAWait) {
  write_runs(1);
  SQLite::Database db = open_for_writing(database());
  db.exec("BEGIN IMMEDIATE");
  Child child(ingest(), path("err"));
  // It waits when it has the file open.
  ASSERT_TRUE(child.until([&] {
    return child.catches(SIGTERM) &&
           shell("ls -l /proc/" + std::to_string(child.pid()) + "/fd").says("greta.db-shm");
  }));
  child.send(SIGTERM);
  EXPECT_EQ(child.wait(), 143) << err();
  db.exec("ROLLBACK");
  expect_that_it_goes_on(1);
}

TEST_F(Trouble, AnIgnoredSignalStaysIgnored) {
  write_runs(30);
  Child child(ingest(), path("err"), [] { signal(SIGINT, SIG_IGN); });
  ASSERT_TRUE(child.until(
      [&] { return read("/proc/" + std::to_string(child.pid()) + "/comm") == "greta-db\n"; }));
  for (int i = 0; i < 20; ++i) {
    child.send(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(child.wait(), 0) << err();
}

TEST_F(Trouble, AFileThatMayNotGrowIsAnErrorAndNoDeath) {
  write_runs(40);
  { SQLite::Database db = open_for_writing(database()); }
  for (const rlim_t more : {rlim_t{20'000}, rlim_t{300'000}}) {
    const rlimit limit{std::filesystem::file_size(database()) + more, RLIM_INFINITY};
    Child child(ingest(), path("err"), [&] { setrlimit(RLIMIT_FSIZE, &limit); });
    EXPECT_EQ(child.wait(), 2) << err();
    EXPECT_NE(err().find("greta-db: "), std::string::npos);
  }
  expect_that_it_goes_on(40);
}

/// A file of a run that passes and of one that fails, and what asks it where nothing fits on the
/// disk: a limit of no byte stands for that.
class NoRoom : public ProgramTest {
 protected:
  void SetUp() override {
    Warehouse w{std::filesystem::path(database())};
    for (const char* name : {"good", "bad"}) {
      w.run({.name = name, .date = "2026-01-01", .status = "complete"});
      w.match("attn_out", 0);
    }
    w.add(prefill("mlp_out", 1, 5), decode("mlp_out", 1, 6));
  }
  /// Its output, its errors and its exit status, as one text.
  std::string answer(const std::string& command, const std::string& before) const {
    return shell("{ (" + before + "; $G " + command + "); echo status $?; } 2>&1 | cat").out;
  }
  void expect_answers() const {
    for (const std::string command :
         {"runs", "firstfail", "firstfail --run good", "history", "history --format html",
          "regressions", "gate --run good", "gate --run bad", "compare --rows good bad",
          "pairs --run bad", "query 'SELECT run, verdict FROM run_verdict ORDER BY run'",
          "query worst_pairs --param run=bad", "tolerance list", "check", "check --deep", "watch",
          "watch --once"}) {
      SCOPED_TRACE(command);
      const std::string file = read(database());
      const std::string without = answer(command, "ulimit -f 0");
      EXPECT_TRUE(read(database()) == file);
      ASSERT_EQ(shell("mkdir room; cp greta.db* room").status, 0);
      EXPECT_EQ(without, answer(command, "cd room"));
      ASSERT_EQ(shell("rm -r room").status, 0);
    }
    EXPECT_NE(answer("gate --run good", "ulimit -f 0").find("status 0"), std::string::npos);
    EXPECT_NE(answer("gate --run bad", "ulimit -f 0").find("status 1"), std::string::npos);
  }
};

TEST_F(NoRoom, WhoAsksIsAnswered) {
  ASSERT_EQ(run({"runs"}).status, 0);
  expect_answers();
}

TEST_F(NoRoom, RunsThatAreNotJudgedAreJudgedInMemory) {
  SQLite::Database(database(), SQLite::OPEN_READWRITE).exec("DELETE FROM verdict");
  expect_answers();
  EXPECT_EQ(SQLite::Database(database()).execAndGet("SELECT count(*) FROM verdict").getInt(), 0);
}

TEST_F(NoRoom, WhatAKilledWriterCommittedIsRead) {
  ASSERT_EQ(run({"runs"}).status, 0);
  {
    SQLite::Database writer = open_for_writing(database());
    writer.exec("UPDATE trace_row SET hash = 7 WHERE hash = 6; UPDATE run SET mode = 'late'");
    ASSERT_EQ(shell("mkdir left; cp greta.db greta.db-wal left").status, 0);
  }
  ASSERT_EQ(shell("rm greta.db*; mv left/* .").status, 0);
  ASSERT_GT(std::filesystem::file_size(path("greta.db-wal")), 0U);
  EXPECT_NE(answer("runs", "ulimit -f 0").find("late"), std::string::npos);
  expect_answers();
  EXPECT_GT(std::filesystem::file_size(path("greta.db-wal")), 0U);  // for whoever writes next
  EXPECT_EQ(run({"check"}).status, 0);
}

TEST_F(NoRoom, WhatIsWrittenIsRefused) {
  for (const char* command : {"tolerance set --dtype f32 0.5", "forget --run good --yes"}) {
    const std::string file = read(database());
    EXPECT_NE(answer(command, "ulimit -f 0").find("status 2"), std::string::npos) << command;
    EXPECT_TRUE(read(database()) == file) << command;
  }
  EXPECT_EQ(run({"check"}).status, 0);
}

}  // namespace
}  // namespace greta
