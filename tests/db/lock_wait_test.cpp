#include "db/lock_wait.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>

#include "db/database.h"
#include "db/schema.h"
#include "db/transaction.h"
#include "tests/db/database_file.h"

namespace greta {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

std::string told;

struct Waiting : DatabaseFile {
  Waiting() {
    open_for_writing(file);
    told.clear();
    wait.is_long = milliseconds(10);
    wait.on_long_wait = [](const std::string& what) { told += what + "\n"; };
  }
  ~Waiting() override {
    if (holder > 0) release();
  }

  /// Another process takes the lock, until release().
  void hold(const char* lock = "BEGIN IMMEDIATE") {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    holder = fork();
    if (holder == 0) {
      SQLite::Database other = open_for_writing(file);
      other.exec(lock);
      if (write(ready[1], "x", 1) == 1) pause();
      _exit(0);
    }
    char x = 0;
    ASSERT_EQ(read(ready[0], &x, 1), 1);
  }
  void release() {
    kill(holder, SIGKILL);
    waitpid(holder, nullptr, 0);
    holder = -1;
  }

  LockWait wait{std::chrono::minutes(1)};
  pid_t holder = -1;
};

TEST_F(Waiting, EndsWithPatience) {
  SQLite::Database db = open_for_writing(file, wait);
  hold();
  wait.set_patience(milliseconds(30));
  try {
    in_transaction(db, [] { FAIL() << "the lock is another's"; });
    FAIL() << "no error";
  } catch (const SQLite::Exception& error) {
    EXPECT_EQ(error.getErrorCode(), SQLITE_BUSY);
  }
  release();
  EXPECT_NO_THROW(in_transaction(db, [] {}));
}

TEST_F(Waiting, SaysOnceForWhom) {
  SQLite::Database db = open_for_writing(file, wait);
  hold();
  wait.set_patience(milliseconds(100));
  EXPECT_THROW(in_transaction(db, [] {}), SQLite::Exception);
  EXPECT_NE(told.find("(process " + std::to_string(holder) + ")"), std::string::npos) << told;
  EXPECT_NE(told.find("db_tests"), std::string::npos) << told;
  EXPECT_EQ(told.find('\n'), told.size() - 1) << told;
}

TEST_F(Waiting, KnowsWhoHoldsAFileWithoutALog) {
  hold("PRAGMA journal_mode = DELETE; BEGIN IMMEDIATE");
  EXPECT_NE(lock_holder(file).find("process " + std::to_string(holder)), std::string::npos);
  release();
  EXPECT_EQ(lock_holder(file), "another program");
}

TEST_F(Waiting, AReaderWaitsForWhoKeepsReadersOut) {
  LockWait::usual().set_patience(std::chrono::minutes(1));
  hold("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE");
  std::thread soon([this] {
    std::this_thread::sleep_for(milliseconds(50));
    kill(holder, SIGKILL);
  });
  EXPECT_NO_THROW(open_for_reading(file));
  soon.join();
  LockWait::usual().set_patience(std::chrono::minutes(10));
}

TEST_F(Waiting, DurableDoesNotWaitForAReaderThatStays) {
  SQLite::Database db = open_for_writing(file, wait);
  hold("BEGIN; SELECT count(*) FROM run");  // reads on, from before what follows
  in_transaction(db, [&] { db.exec("INSERT INTO run(name, experiment) VALUES ('r', 'e')"); });
  make_durable(db);
  EXPECT_EQ(db.execAndGet("PRAGMA synchronous").getInt(), 1);
  EXPECT_EQ(db.execAndGet("PRAGMA user_version").getInt(), kSchemaVersion);
}

TEST_F(Waiting, AConnectionThatIsMovedWaitsOn) {
  SQLite::Database first = open_for_writing(file, wait);
  SQLite::Database db = std::move(first);
  { BulkJournal bulk(db); }  // changes for a while how it waits
  hold();
  std::thread soon([this] {
    std::this_thread::sleep_for(milliseconds(50));
    kill(holder, SIGKILL);
  });
  EXPECT_NO_THROW(in_transaction(db, [] {}));
  soon.join();
}

TEST(Duration, IsANumberAndAUnit) {
  EXPECT_EQ(parse_duration("500ms"), milliseconds(500));
  EXPECT_EQ(parse_duration("90"), milliseconds(90'000));
  EXPECT_EQ(parse_duration("0s"), milliseconds(0));
  EXPECT_EQ(parse_duration("10m"), milliseconds(600'000));
  EXPECT_EQ(parse_duration("2h"), milliseconds(7'200'000));
  for (const char* bad : {"", "m", "-1s", "1.5s", "1 s", "3d", "9999999999999999h"}) {
    EXPECT_EQ(parse_duration(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(duration_text(milliseconds(600'000)), "10 min");
  EXPECT_EQ(duration_text(milliseconds(90'000)), "90 s");
  EXPECT_EQ(duration_text(milliseconds(50)), "50 ms");
}

}  // namespace
}  // namespace greta
