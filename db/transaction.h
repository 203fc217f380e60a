#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <utility>

namespace greta {

/// Runs `body` in one transaction that takes the write lock at its begin: all of it is committed,
/// or, when body or the commit throws, nothing; the exception goes on. Not for nesting.
template <class Body>
auto in_transaction(SQLite::Database& db, Body&& body) {
  SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
  if constexpr (std::is_void_v<decltype(body())>) {
    std::forward<Body>(body)();
    transaction.commit();
  } else {
    auto result = std::forward<Body>(body)();
    transaction.commit();
    return result;
  }
}

}  // namespace greta
