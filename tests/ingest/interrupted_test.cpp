#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "db/check.h"
#include "ingest/importer.h"
#include "tests/ingest/importing.h"

namespace greta {
namespace {

/// Ends an ingest before its file number `at`, as a kill does.
IngestOptions stopping_at(int64_t at) {
  IngestOptions options;
  options.progress = [at](const IngestProgress& p) {
    if (p.files_done == at) throw std::runtime_error("stop");
  };
  return options;
}

struct Interrupted : Importing {
  void SetUp() override {
    write_tree(folder, 4);
    TemporaryFolder own;
    SQLite::Database other = open_for_writing(own / "g.db");
    ingest_all(other, {folder / "artifacts_remote"});
    undisturbed = dump(other);
  }
  std::string undisturbed;
};

TEST_F(Interrupted, TheNextIngestFinishesWhereverTheFirstStopped) {
  int64_t steps = 0;
  {
    TemporaryFolder own;
    SQLite::Database other = open_for_writing(own / "g.db");
    IngestOptions options;
    options.progress = [&](const IngestProgress&) { ++steps; };
    ingest(other, {folder / "artifacts_remote"}, options);
  }
  for (int64_t stop = 1; stop <= steps; stop += 7) {
    TemporaryFolder own;
    SQLite::Database other = open_for_writing(own / "g.db");
    IngestOptions options;
    options.progress = [&, at = int64_t{0}](const IngestProgress&) mutable {
      if (++at == stop) throw std::runtime_error("stop");
    };
    EXPECT_THROW(ingest(other, {folder / "artifacts_remote"}, options), std::runtime_error);
    EXPECT_EQ(check_database(other), std::vector<std::string>());
    ingest_all(other, {folder / "artifacts_remote"});
    EXPECT_TRUE(same_dump(undisturbed, dump(other))) << "stopped at step " << stop;
  }
}

std::string matching_row(const char* phase, const char* tensor) {
  return std::string(R"({"event":"stage_trace","phase":")") + phase +
         R"(","prompt_id":"p0","pos_id":3,"step":0,"layer":0,"point":")" + tensor +
         R"(","hash_algo":"greta-1","n":4,"hash":1})"
         "\n";
}

/// A run of two files, each with a pair that matches.
void write_two_files(const TemporaryFolder& folder) {
  for (const auto& [file, tensor] : {std::pair("a", "x_in"), std::pair("b", "attn_out")}) {
    folder.write("two/2026-02-07/b3_99/traces/" + std::string(file) + "_trace.jsonl",
                 matching_row("prefill_last", tensor) + matching_row("decode0", tensor));
  }
}

TEST_F(Interrupted, PassesNothingUntilItIsFinished) {
  write_two_files(folder);
  EXPECT_THROW(ingest(db, {folder / "two"}, stopping_at(1)), std::runtime_error);
  judge_rest(db);
  EXPECT_EQ(rows("SELECT verdict, pairs, ingest_open FROM run_verdict WHERE run GLOB '*b3_99'"),
            "INCOMPLETE|1|1");
  resume(db, {});
  EXPECT_EQ(rows("SELECT verdict, pairs, ingest_open FROM run_verdict WHERE run GLOB '*b3_99'"),
            "PASS|2|0");
  EXPECT_EQ(count("ingest"), 0);
}

TEST_F(Interrupted, StaysOpenWhenItsPathIsGone) {
  EXPECT_THROW(ingest(db, {folder / "artifacts_remote"}, stopping_at(1)), std::runtime_error);
  fs::rename(folder / "artifacts_remote", folder / "away");
  EXPECT_EQ(resume(db, {}).errors, 1);
  EXPECT_EQ(count("ingest"), 1);
  fs::rename(folder / "away", folder / "artifacts_remote");
  resume(db, {});
  EXPECT_EQ(count("ingest"), 0);
}

TEST_F(Interrupted, IsResumedWithTheOptionsThatItWasBegunWith) {
  folder.write("outside/p_trace.jsonl", small_trace());
  folder.write("in/2026-02-07/b3_99/a_trace.jsonl", small_trace());
  fs::create_directory_symlink(folder / "outside", folder / "in/2026-02-07/b3_99/z");
  IngestOptions options = stopping_at(1);
  options.follow = true;
  options.run = "2026-02-07/b3_50";
  EXPECT_THROW(ingest(db, {folder / "in"}, options), std::runtime_error);
  resume(db, {});
  EXPECT_EQ(count("ingest"), 0);
  EXPECT_EQ(count("ingest_error", "reason GLOB '*not followed*'"), 0);
  EXPECT_EQ(count("source_location", "path GLOB '*/z/p_trace.jsonl'"), 1);
  EXPECT_EQ(rows("SELECT name FROM run"), "2026-02-07/b3_50");
}

TEST_F(Interrupted, IsResumedByPathsThatAreNotUtf8) {
  int64_t pos = 0;
  for (const std::string name : {"\xff\xfe", "caf\xc3\xa9 \"'{}", "\xed\xa0\x80"}) {
    const std::string root = "in " + name;
    folder.write(root + "/2026-02-07/b3_99/a_trace.jsonl", small_trace("p0", ++pos));
    EXPECT_THROW(ingest(db, {folder / root}, stopping_at(0)), std::runtime_error);
    EXPECT_EQ(count("ingest"), 1);
    EXPECT_EQ(count("ingest", "json_valid(paths)"), 1);
    EXPECT_EQ(resume(db, {}).errors, 0);
    EXPECT_EQ(count("ingest"), 0);
  }
  EXPECT_EQ(count("source_location"), 3);
}

TEST_F(Interrupted, GivenUpItEndsAndItsRunsNeverPass) {
  write_two_files(folder);
  EXPECT_THROW(ingest(db, {folder / "two"}, stopping_at(1)), std::runtime_error);
  fs::rename(folder / "two", folder / "away");
  IngestOptions options;
  options.give_up = true;
  const IngestSummary summary = resume(db, options);
  EXPECT_EQ(summary.errors, 1);
  ASSERT_EQ(summary.findings.size(), 1u);
  EXPECT_EQ(summary.findings[0].file, folder / "two");
  EXPECT_EQ(count("ingest") + count("ingest_run"), 0);
  const std::string verdict = "SELECT verdict, ingest_open, rejected FROM run_verdict";
  judge_rest(db);
  EXPECT_EQ(rows(verdict), "INCOMPLETE|0|1");
  EXPECT_EQ(resume(db, options).errors, 0);
  EXPECT_EQ(rows(verdict), "INCOMPLETE|0|1");
  take("away");
  EXPECT_EQ(rows(verdict), "INCOMPLETE|0|1") << "nobody knows that this is all there was";
}

TEST_F(Interrupted, GivenUpWhatIsLeftOfItIsRead) {
  folder.write("gone/2026-02-07/b3_98/a_trace.jsonl", small_trace());
  folder.write("left/2026-02-07/b3_99/a_trace.jsonl", small_trace());
  EXPECT_THROW(ingest(db, {folder / "gone", folder / "left"}, stopping_at(0)), std::runtime_error);
  fs::remove_all(folder / "gone");
  EXPECT_EQ(resume(db, {}).rows, 0);
  IngestOptions options;
  options.give_up = true;
  const IngestSummary summary = resume(db, options);
  EXPECT_EQ(summary.rows, 4);
  EXPECT_EQ(summary.errors, 1);
  EXPECT_EQ(count("ingest"), 0);
  EXPECT_EQ(rows("SELECT name FROM run"), "2026-02-07/b3_99");
}

TEST_F(Interrupted, WhatIsThereIsNotGivenUp) {
  EXPECT_THROW(ingest(db, {folder / "artifacts_remote"}, stopping_at(1)), std::runtime_error);
  IngestOptions options;
  options.give_up = true;
  resume(db, options);
  EXPECT_TRUE(same_dump(undisturbed, dump(db)));
}

TEST_F(Interrupted, AnIngestOfSomethingElseSettlesWhatWasLeft) {
  IngestOptions options;
  options.progress = [](const IngestProgress& p) {
    if (p.files_done == p.files_total - 1) throw std::runtime_error("stop");
  };
  EXPECT_THROW(ingest(db, {folder / "artifacts_remote"}, options), std::runtime_error);
  folder.write("other/2026-02-07/b3_99/config.json", "{}");
  take("other");
  EXPECT_EQ(count("run", "date IS NULL"), 0) << rows("SELECT name FROM run WHERE date IS NULL");
  EXPECT_EQ(count("run", "id NOT IN (SELECT run_id FROM verdict)"), 0);
}

TEST_F(Interrupted, AKillAtAnyMomentLosesNothing) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 3; ++i) {
    TemporaryFolder own;
    { SQLite::Database created = open_for_writing(own / "g.db"); }
    const pid_t child = start_child([&] {
      SQLite::Database other = open_for_writing(own / "g.db");
      ingest_all(other, {folder / "artifacts_remote"}, 2);
      return 0;
    });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
    kill(child, SIGKILL);
    end_of(child);
    SQLite::Database other = open_for_writing(own / "g.db");
    EXPECT_EQ(check_database(other), std::vector<std::string>());
    ingest_all(other, {folder / "artifacts_remote"}, 2);
    EXPECT_TRUE(same_dump(undisturbed, dump(other)));
  }
}

TEST_F(Interrupted, AFullDiskIsAnErrorAndSpaceLetsItFinish) {
  const int64_t pages = number_of(db, "PRAGMA page_count");
  for (const int64_t more : {5, 20, 40}) {
    db.execAndGet("PRAGMA max_page_count = " + std::to_string(pages + more));
    EXPECT_THROW(take(), SQLite::Exception) << more;
    EXPECT_EQ(check_database(db), std::vector<std::string>());
  }
  db.execAndGet("PRAGMA max_page_count = 1000000");
  take();
  EXPECT_TRUE(same_dump(undisturbed, dump(db)));
}

TEST_F(Interrupted, AFileThatMayNotGrowIsAnError) {
  for (const rlim_t more : {rlim_t{50'000}, rlim_t{400'000}}) {
    TemporaryFolder own;
    { SQLite::Database created = open_for_writing(own / "g.db"); }
    const int status = in_child([&] {
      signal(SIGXFSZ, SIG_IGN);
      const rlimit limit = {fs::file_size(own / "g.db") + more, RLIM_INFINITY};
      setrlimit(RLIMIT_FSIZE, &limit);
      try {
        SQLite::Database other = open_for_writing(own / "g.db");
        ingest_all(other, {folder / "artifacts_remote"}, 2);
      } catch (const SQLite::Exception&) {
        return 3;
      }
      return 0;
    });
    EXPECT_EQ(status, 3);
    SQLite::Database other = open_for_writing(own / "g.db");
    EXPECT_EQ(check_database(other), std::vector<std::string>());
    ingest_all(other, {folder / "artifacts_remote"});
    EXPECT_TRUE(same_dump(undisturbed, dump(other)));
  }
}

TEST_F(Interrupted, AnotherWriterIsWaitedFor) {
  SQLite::Database other = open_for_writing(folder / "g.db");
  other.exec("BEGIN IMMEDIATE");
  std::thread release([&other] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    other.exec("COMMIT");
  });
  const auto start = std::chrono::steady_clock::now();
  take();
  release.join();
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(150));
  EXPECT_TRUE(same_dump(undisturbed, dump(db)));
}

TEST_F(Interrupted, TwoIngestsAtOnceLoseNothing) {
  TemporaryFolder other;
  write_tree(other, 2);
  for (int i = 0; i < 2; ++i) {  // runs of their own
    fs::rename(other / ("artifacts_remote/2026-02-0" + std::to_string(1 + i)),
               other / ("artifacts_remote/2026-03-0" + std::to_string(1 + i)));
  }
  const pid_t child = start_child([&] {
    SQLite::Database own = open_for_writing(folder / "g.db");
    ingest_all(own, {other / "artifacts_remote"});
    return 0;
  });
  EXPECT_NO_THROW(take());
  EXPECT_EQ(end_of(child), 0);
  EXPECT_EQ(check_database(db), std::vector<std::string>());
  EXPECT_EQ(count("trace_row"), 6 * (1600 + 2 + 6 + 4));
  EXPECT_EQ(count("sample"), 6 * 2);
}

}  // namespace
}  // namespace greta
