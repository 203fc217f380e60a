#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <chrono>
#include <string>
#include <type_traits>
#include <utility>

#include "db/lock_wait.h"

// Transactions: one for one body, or one that small pieces of work share.

namespace greta {

/// Throws SQLite::Exception (SQLITE_READONLY_DBMOVED) when the file of `db` is no longer where it
/// was opened: deleted, moved or replaced. Commits then still succeed, in a file that is lost.
void check_in_place(SQLite::Database& db);

/// While it lives, the database has a rollback journal in place of its write-ahead log, unless
/// others have the file open. A large transaction then writes its new pages once and not twice,
/// a sixth faster, but readers have to wait for its end. Create and destroy outside transactions.
class BulkJournal {
 public:
  explicit BulkJournal(SQLite::Database& db) : db_(db) { set("DELETE"); }
  ~BulkJournal() { set("WAL"); }  // where others read by now, the next writer does it
  BulkJournal(const BulkJournal&) = delete;
  BulkJournal& operator=(const BulkJournal&) = delete;

 private:
  void set(const std::string& mode) {
    const ShortPatience none(std::chrono::milliseconds(0));
    db_.tryExec("PRAGMA journal_mode = " + mode);
  }

  SQLite::Database& db_;
};

/// Runs `body` in one transaction that takes the write lock at its begin: all of it is committed,
/// or, when body or the commit throws, nothing; the exception goes on. Then others have their turn.
/// Returns what body does, and only where the file is still in its place (check_in_place).
/// Not for nesting.
template <class Body>
auto in_transaction(SQLite::Database& db, Body&& body) {
  SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
  const auto commit = [&transaction, &db, begin = std::chrono::steady_clock::now()] {
    transaction.commit();
    check_in_place(db);
    give_way(std::chrono::steady_clock::now() - begin);
  };
  if constexpr (std::is_void_v<decltype(body())>) {
    std::forward<Body>(body)();
    commit();
  } else {
    auto result = std::forward<Body>(body)();
    commit();
    return result;
  }
}

/// A transaction that small pieces of work share one after the other, so that not each costs a
/// commit. It holds the write lock for a turn at most: kTurn, and then the piece at hand. A piece
/// that throws is undone, and those before it are not. What is there at the end of its life is
/// committed, or undone when that fails.
class SharedTransaction {
 public:
  static constexpr std::chrono::milliseconds kTurn{50};

  explicit SharedTransaction(SQLite::Database& db) : db_(db) {}
  ~SharedTransaction() {
    if (is_open_ && db_.tryExec("COMMIT") != SQLite::OK) db_.tryExec("ROLLBACK");
  }
  SharedTransaction(const SharedTransaction&) = delete;
  SharedTransaction& operator=(const SharedTransaction&) = delete;

  template <class Body>
  void run(Body&& body) {
    if (!is_open_) {
      db_.exec("BEGIN IMMEDIATE");
      is_open_ = true;
      begin_ = std::chrono::steady_clock::now();
    }
    try {
      db_.exec("SAVEPOINT piece");
      std::forward<Body>(body)();
      db_.exec("RELEASE piece");
    } catch (...) {
      // A full disk may have undone all of it already.
      if (db_.tryExec("ROLLBACK TO piece; RELEASE piece") != SQLite::OK) {
        db_.tryExec("ROLLBACK");
        is_open_ = false;
      }
      throw;
    }
    if (std::chrono::steady_clock::now() - begin_ >= kTurn) commit();
  }

  /// To be called before anything that takes time, or a transaction of its own.
  void commit() {
    if (!is_open_) return;
    is_open_ = false;
    try {
      db_.exec("COMMIT");
    } catch (...) {
      db_.tryExec("ROLLBACK");
      throw;
    }
    check_in_place(db_);
    give_way(std::chrono::steady_clock::now() - begin_);
  }

 private:
  SQLite::Database& db_;
  bool is_open_ = false;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace greta
