#include "db/transaction.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <stdexcept>
#include <thread>

#include "common/temporary_folder.h"
#include "db/statements.h"

namespace greta {
namespace {

struct Shared : testing::Test {
  SQLite::Database db{":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE};
  Shared() { db.exec("CREATE TABLE t (x INTEGER)"); }

  void add(int x) { db.exec("INSERT INTO t VALUES (" + std::to_string(x) + ")"); }
  int sum() { return db.execAndGet("SELECT ifnull(sum(x), 0) FROM t").getInt(); }
};

TEST_F(Shared, APieceThatThrowsIsUndoneAndThoseBeforeItAreNot) {
  SharedTransaction shared(db);
  shared.run([&] { add(1); });
  EXPECT_THROW(shared.run([&] {
    add(2);
    throw std::runtime_error("no");
  }),
               std::runtime_error);
  shared.run([&] { add(4); });
  shared.commit();
  EXPECT_EQ(sqlite3_get_autocommit(db.getHandle()), 1);
  EXPECT_EQ(sum(), 5);
}

TEST_F(Shared, WhatIsThereIsCommittedWhenItEnds) {
  {
    SharedTransaction shared(db);
    shared.run([&] { add(1); });
    EXPECT_EQ(sqlite3_get_autocommit(db.getHandle()), 0);
  }
  EXPECT_EQ(sqlite3_get_autocommit(db.getHandle()), 1);
  EXPECT_EQ(sum(), 1);
}

TEST_F(Shared, IsNotHeldForLongerThanATurn) {
  SharedTransaction shared(db);
  shared.run([&] {
    add(1);
    std::this_thread::sleep_for(2 * SharedTransaction::kTurn);
  });
  EXPECT_EQ(sqlite3_get_autocommit(db.getHandle()), 1) << "others can write";
}

TEST_F(Shared, APieceThatEndsTheTransactionItselfLeavesNoneOpen) {
  SharedTransaction shared(db);
  EXPECT_THROW(shared.run([&] {
    add(1);
    db.exec("ROLLBACK");  // as SQLite does where the disk is full
    throw std::runtime_error("full");
  }),
               std::runtime_error);
  shared.run([&] { add(2); });
  shared.commit();
  EXPECT_EQ(sum(), 2);
}

TEST(Transaction, OfAFileThatWasDeletedIsNoSuccess) {
  const TemporaryFolder folder;
  const std::string file = (folder / "t.db").string();
  SQLite::Database db(file, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  in_transaction(db, [&] { db.exec("CREATE TABLE t (x INTEGER)"); });
  SharedTransaction shared(db);
  shared.run([&] { db.exec("INSERT INTO t VALUES (1)"); });
  std::filesystem::remove(file);
  EXPECT_THROW(shared.commit(), SQLite::Exception);
  EXPECT_THROW(in_transaction(db, [&] { db.exec("INSERT INTO t VALUES (2)"); }), SQLite::Exception);
}

TEST(Statements, ArePreparedOnceAndComeWithNothingBound) {
  SQLite::Database db(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  Statements sql(db);
  constexpr const char* kEcho = "SELECT ?1";
  EXPECT_EQ(sql.find_id(kEcho, 7), 7);
  SQLite::Statement& again = sql(kEcho);
  ASSERT_TRUE(again.executeStep());
  EXPECT_TRUE(again.getColumn(0).isNull());
  EXPECT_EQ(&sql(kEcho), &again);
  EXPECT_EQ(sql.find_id("SELECT 1 WHERE ?1 = 2", 1), std::nullopt);
}

}  // namespace
}  // namespace greta
