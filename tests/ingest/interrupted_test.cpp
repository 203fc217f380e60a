#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <random>
#include <system_error>
#include <thread>

#include "db/check.h"
#include "ingest/importer.h"
#include "tests/ingest/importing.h"

namespace greta {
namespace {

struct Interrupted : Importing {
  void SetUp() override {
    write_tree(folder, 4);
    Folder own;
    SQLite::Database other = open_for_writing(own / "g.db");
    ingest_all(other, {folder / "artifacts_remote"});
    undisturbed = dump(other);
  }
  std::string undisturbed;
};

TEST_F(Interrupted, TheNextIngestFinishesWhereverTheFirstStopped) {
  int64_t steps = 0;
  {
    Folder own;
    SQLite::Database other = open_for_writing(own / "g.db");
    IngestOptions options;
    options.progress = [&](const IngestProgress&) { ++steps; };
    ingest(other, {folder / "artifacts_remote"}, options);
  }
  for (int64_t stop = 1; stop <= steps; stop += 7) {
    Folder own;
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

TEST_F(Interrupted, AnIngestOfSomethingElseSettlesWhatWasLeft) {
  IngestOptions options;
  options.progress = [](const IngestProgress& p) {
    if (p.files_done == p.files_total - 1) throw std::runtime_error("stop");
  };
  EXPECT_THROW(ingest(db, {folder / "artifacts_remote"}, options), std::runtime_error);
  folder.write("other/2026-02-07/b3_99/config.json", "{}");
  take("other");
  EXPECT_EQ(count("run", "date IS NULL"), 0) << rows("SELECT name FROM run WHERE date IS NULL");
  EXPECT_EQ(count("unjudged_run"), 0);
}

TEST_F(Interrupted, AKillAtAnyMomentLosesNothing) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 3; ++i) {
    Folder own;
    { SQLite::Database created = open_for_writing(own / "g.db"); }
    const pid_t child = fork();
    if (child == 0) {
      try {
        SQLite::Database other = open_for_writing(own / "g.db");
        ingest_all(other, {folder / "artifacts_remote"}, 2);
      } catch (...) {
        _exit(1);
      }
      _exit(0);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
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
    Folder own;
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
  Folder other;
  write_tree(other, 2);
  for (int i = 0; i < 2; ++i) {  // runs of their own
    fs::rename(other / ("artifacts_remote/2026-02-0" + std::to_string(1 + i)),
               other / ("artifacts_remote/2026-03-0" + std::to_string(1 + i)));
  }
  const pid_t child = fork();
  if (child == 0) {
    int status = 1;
    try {
      SQLite::Database own = open_for_writing(folder / "g.db");
      ingest_all(own, {other / "artifacts_remote"});
      status = 0;
    } catch (...) {
    }
    _exit(status);
  }
  EXPECT_NO_THROW(take());
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(check_database(db), std::vector<std::string>());
  EXPECT_EQ(count("trace_row"), 6 * (1600 + 2 + 6 + 4));
  EXPECT_EQ(count("sample"), 6 * 2);
}

}  // namespace
}  // namespace greta
