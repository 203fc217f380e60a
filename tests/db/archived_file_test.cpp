// Files that may not be written, nor anything beside them: of this version, and of earlier ones.
// Asked by a process that is not root, whom nothing is forbidden.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <iterator>
#include <string>

#include "common/temporary_folder.h"
#include "db/database.h"
#include "db/judge.h"
#include "db/merge.h"
#include "db/schema.h"
#include "tests/db/earlier_version.h"

namespace greta {
namespace {

namespace fs = std::filesystem;

constexpr int kNobody = 65534, kCannotChange = 77;

/// What body says in a process that nothing is allowed; "" when it throws nothing.
std::string said_by_nobody(const std::function<void()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(kCannotChange);
    std::string said;
    try {
      body();
    } catch (const std::exception& error) {
      said = error.what();
    }
    const bool written =
        write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size());
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return said;
  return WIFEXITED(status) && WEXITSTATUS(status) == kCannotChange ? "cannot change the user"
                                                                   : "it broke";
}

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

struct ArchivedFile : testing::Test {
  void SetUp() override {
    if (said_by_nobody([] {}) != "") GTEST_SKIP() << "may not become another user";
    fs::permissions(folder.path(), fs::perms::all);
    fs::create_directory(folder / "archive");
  }
  void TearDown() override { fs::permissions(folder / "archive", fs::perms::all); }

  void lock() {
    for (const auto& entry : fs::directory_iterator(folder / "archive"))
      fs::permissions(entry.path(), fs::perms::owner_read | fs::perms::others_read);
    fs::permissions(folder / "archive", fs::perms::owner_read | fs::perms::owner_exec |
                                            fs::perms::others_read | fs::perms::others_exec);
  }

  TemporaryFolder folder;
  fs::path file = folder / "archive/a b?#%.db";
};

void add_run(SQLite::Database& db) {
  db.exec("INSERT INTO run(name, experiment) VALUES ('r', 'e')");
}

TEST_F(ArchivedFile, OfThisVersionIsRead) {
  {
    SQLite::Database db = open_for_writing(file);
    add_run(db);
  }
  lock();
  EXPECT_EQ(said_by_nobody([this] {
              SQLite::Database db = open_for_reading(file);
              require(db.execAndGet("SELECT run FROM run_verdict").getString() == "r", "no run");
            }),
            "");
}

TEST_F(ArchivedFile, IsJudgedInTemporaryTables) {
  {
    SQLite::Database db = open_for_writing(file);
    add_run(db);
    db.exec("INSERT INTO run(name, experiment) VALUES ('s', 'e')");
  }
  lock();
  const auto bytes = fs::file_size(file);
  EXPECT_EQ(said_by_nobody([this] {
              SQLite::Database db = open_for_reading(
                  file, [](SQLite::Database& judged) { judge_change(judged, 1, 2); });
              const auto count = [&db](const char* sql) { return db.execAndGet(sql).getInt(); };
              require(count("SELECT count(*) FROM run_verdict WHERE verdict = 'NO_EVIDENCE'") == 2,
                      "not judged");
              require(count("SELECT count(*) FROM gate WHERE baseline = 's'") == 1, "not compared");
              require(db.tryExec("DELETE FROM run") != 0, "it can be written");
              require(db.tryExec("DELETE FROM verdict") != 0, "its verdicts can be written");
            }),
            "");
  EXPECT_EQ(fs::file_size(file), bytes);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "archive"), {}), 1);
}

TEST_F(ArchivedFile, WhoseLogCannotBeReadIsRefusedWithItsName) {
  {
    SQLite::Database db = open_for_writing(folder / "written.db");
    add_run(db);
    fs::copy_file(folder / "written.db", file);
    fs::copy_file(folder / "written.db-wal", file.string() + "-wal");
  }
  lock();
  const std::string said = said_by_nobody([this] { open_for_reading(file); });
  EXPECT_EQ(said.find(file.string() + "-wal holds what was written"), 0u) << said;
  EXPECT_NE(said.find("copy all three files"), std::string::npos) << said;
}

TEST_F(ArchivedFile, WhoseLogHasItsIndexBesideItIsRead) {
  {
    SQLite::Database db = open_for_writing(folder / "written.db");
    add_run(db);
    for (const char* end : {"", "-wal", "-shm"}) {
      fs::copy_file((folder / "written.db").string() + end, file.string() + end);
    }
  }
  lock();
  EXPECT_EQ(said_by_nobody([this] {
              SQLite::Database db = open_for_reading(file);
              require(db.execAndGet("SELECT name FROM run").getString() == "r", "no run");
            }),
            "");
}

TEST_F(ArchivedFile, ThatAWriteLeftHalfDoneIsRefusedWithItsJournal) {
  {
    SQLite::Database db = open_for_writing(folder / "written.db");
    add_run(db);
    db.exec("PRAGMA journal_mode = DELETE; PRAGMA cache_size = 5; BEGIN");
    db.exec(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
        " INSERT INTO attribute(run_id, dim, value, rank) SELECT 1, 'x', i, 0 FROM n");
    for (const char* end : {"", "-journal"}) {
      fs::copy_file((folder / "written.db").string() + end, file.string() + end);
    }
    db.exec("ROLLBACK");
  }
  lock();
  const std::string said = said_by_nobody([this] { open_for_reading(file); });
  EXPECT_EQ(said.find(file.string() + "-journal undoes"), 0u) << said;
  fs::permissions(folder / "archive", fs::perms::all);
  for (const auto& entry : fs::directory_iterator(folder / "archive"))
    fs::permissions(entry.path(), fs::perms::all);
  EXPECT_EQ(said_by_nobody([this] {
              SQLite::Database db = open_for_reading(file);
              require(db.execAndGet("SELECT count(*) FROM attribute").getInt() == 0, "not undone");
            }),
            "");
}

TEST_F(ArchivedFile, ThatMayNotBeReadSaysSo) {
  open_for_writing(file);
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(said_by_nobody([this] { open_for_reading(file); }),
            file.string() + " cannot be read: Permission denied");
}

TEST_F(ArchivedFile, IsMergedFrom) {
  {
    SQLite::Database db = open_for_writing(file);
    add_run(db);
  }
  lock();
  EXPECT_EQ(said_by_nobody([this] {
              SQLite::Database into = open_for_writing(folder / "into.db");
              merge(into, file);
              require(into.execAndGet("SELECT name FROM run").getString() == "r", "no run");
            }),
            "");
}

}  // namespace
}  // namespace greta
