#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <chrono>
#include <type_traits>
#include <utility>

#include "db/lock_wait.h"

namespace greta {

/// Runs `body` in one transaction that takes the write lock at its begin: all of it is committed,
/// or, when body or the commit throws, nothing; the exception goes on. Then others have their turn.
/// Returns what body does.
/// Not for nesting.
template <class Body>
auto in_transaction(SQLite::Database& db, Body&& body) {
  SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
  const auto commit = [&transaction, begin = std::chrono::steady_clock::now()] {
    transaction.commit();
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

}  // namespace greta
