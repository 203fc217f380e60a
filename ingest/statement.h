#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <optional>

/// Statements of one line. All throw SQLite::Exception.
namespace greta {

/// Binds NULL when there is no value.
template <class T>
void bind_optional(SQLite::Statement& s, int i, const std::optional<T>& value) {
  value ? s.bind(i, *value) : s.bind(i);
}

/// A statement with its values bound, in order.
template <class... Values>
SQLite::Statement prepared(SQLite::Database& db, const char* sql, const Values&... values) {
  SQLite::Statement s(db, sql);
  int i = 0;
  (s.bind(++i, values), ...);
  return s;
}

/// First column of the first row, nothing when there is no row.
template <class... Values>
std::optional<int64_t> find_id(SQLite::Database& db, const char* sql, const Values&... values) {
  SQLite::Statement s = prepared(db, sql, values...);
  if (!s.executeStep()) return std::nullopt;
  return s.getColumn(0).getInt64();
}

}  // namespace greta
