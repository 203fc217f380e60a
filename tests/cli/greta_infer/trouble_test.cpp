// What ends greta-infer before its work is done: locks, signals, limits, a model that goes away.
#include "db/database.h"
#include "tests/cli/child.h"
#include "tests/cli/greta_infer/infer_program.h"

namespace greta {
namespace {

class InferTrouble : public InferProgram {
 protected:
  /// A probe of several seconds that writes all the while, unless it is ended.
  std::vector<std::string> probe(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{GRETA_INFER_PROGRAM, "probe", "--model",  path("m.gguf"),
                                   "--tokens",          "1 2 3", "--layers", "all",
                                   "--phases",          "all",   "--db",     database(),
                                   "--decode-steps",    "1500",  "--mode",   "batch_invariant"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string err() const { return read(path("err")); }

  /// Rows of the run are in the database.
  bool writes() const {
    if (!std::filesystem::exists(database())) return false;
    SQLite::Database db(database(), SQLite::OPEN_READONLY, 1000);
    try {
      return db.execAndGet("SELECT count(*) FROM trace_row").getInt() > 1000;
    } catch (const SQLite::Exception&) {
      return false;  // no table yet
    }
  }
  void expect_a_failed_run() const {
    EXPECT_EQ(query("SELECT r.status, v.verdict FROM run r JOIN run_verdict v ON v.run = r.name"),
              "failed\tINCOMPLETE\n");
    EXPECT_GT(std::stoi(query("SELECT count(*) FROM trace_row")), 1000);
    EXPECT_EQ(sh("$G --db greta.db check").status, 0);
  }
};

TEST_F(InferTrouble, ASignalKeepsWhatWasComputedAsAFailedRun) {
  make_model();
  for (const auto& [signal, status] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
    for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(database() + end);
    Child child(probe(), path("err"));
    ASSERT_TRUE(child.until([this] { return writes(); })) << err();
    child.send(signal);
    EXPECT_EQ(child.wait(), status) << err();
    EXPECT_EQ(err(), "greta-infer: stopped; what was written stays, as an incomplete run\n");
    expect_a_failed_run();
  }
}

TEST_F(InferTrouble, ASecondSignalEndsItAtOnce) {
  make_model();
  Child child(probe(), path("err"));
  ASSERT_TRUE(child.until([this] { return writes(); })) << err();
  {
    SQLite::Database db = open_for_writing(database());
    db.exec("BEGIN IMMEDIATE");  // it cannot mark its run, and waits a moment
    child.send(SIGTERM);
    child.send(SIGINT);
    const int status = child.wait();
    EXPECT_TRUE(status == 130 || status == 143) << status;
  }
  EXPECT_EQ(sh("$G --db greta.db check").status, 0);
}

TEST_F(InferTrouble, AModelCutShortWhileItIsUsedIsAnErrorAndAFailedRun) {
  for (const char* type : {"--type q8_0", "--type f32 --tied"}) {
    for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(database() + end);
    std::filesystem::remove(path("m.gguf"));
    make_model(type);
    Child child(probe(), path("err"));
    ASSERT_TRUE(child.until([this] { return writes(); })) << err();
    std::filesystem::resize_file(path("m.gguf"), std::filesystem::file_size(path("m.gguf")) / 2);
    EXPECT_EQ(child.wait(), 2) << err();
    EXPECT_EQ(err(), "greta-infer: " + path("m.gguf") +
                         ": was cut short while it was in use; what it held is lost\n");
    expect_a_failed_run();
  }
}

TEST_F(InferTrouble, AFileThatMayNotGrowIsAnErrorAndNoDeath) {
  make_model();
  { SQLite::Database db = open_for_writing(database()); }
  const rlimit limit{std::filesystem::file_size(database()) + 1'000'000, RLIM_INFINITY};
  Child child(probe(), path("err"), [&] { setrlimit(RLIMIT_FSIZE, &limit); });
  EXPECT_EQ(child.wait(), 2) << err();
  EXPECT_NE(err().find("make room on its disk"), std::string::npos) << err();
  EXPECT_EQ(query("SELECT verdict FROM run_verdict"), "INCOMPLETE\n");
}

TEST_F(InferTrouble, ThreadsThatCannotBeStartedAreAnErrorAndNoAbort) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a limit of the address space leaves no room for the sanitizer's own";
#endif
  make_model();
  // The kernel's own limit does not hold for root: no room for a stack does.
  const auto no_stack = [] {
    const rlimit memory{rlim_t{4} << 30, rlim_t{4} << 30}, stack{rlim_t{64} << 30, RLIM_INFINITY};
    setrlimit(RLIMIT_STACK, &stack);
    setrlimit(RLIMIT_AS, &memory);
  };
  std::filesystem::create_directories(path("in/2026-02-01/b3_1/traces"));
  write("in/2026-02-01/b3_1/traces/p0_trace.jsonl", std::string(100'000, '\n'));
  write("in/2026-02-01/b3_1/traces/p1_trace.jsonl", std::string(100'000, '\n'));
  for (const std::vector<std::string>& words :
       {probe(),
        probe({"--batch", "4"}),
        {GRETA_DB_PROGRAM, "--db", path("other.db"), "ingest", path("in")}}) {
    Child child(words, path("err"), no_stack);
    EXPECT_EQ(child.wait(), 2) << words[0];
    EXPECT_NE(err().find("cannot start a thread: "), std::string::npos) << err();
  }
}

}  // namespace
}  // namespace greta
