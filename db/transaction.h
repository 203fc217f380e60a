#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <chrono>
#include <utility>

#include "db/lock_wait.h"

namespace greta {

/// Runs `body` in one transaction that takes the write lock at its begin: all of it is committed,
/// or, when body or the commit throws, nothing; the exception goes on. Then others have their turn.
/// Not for nesting.
template <class Body>
void in_transaction(SQLite::Database& db, Body&& body) {
  SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
  const auto begin = std::chrono::steady_clock::now();
  std::forward<Body>(body)();
  transaction.commit();
  give_way(std::chrono::steady_clock::now() - begin);
}

}  // namespace greta
