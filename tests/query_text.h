// What a database answers, as text that a test compares.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <string>

namespace greta {

/// Rows of a statement by line, columns by '|', NULL as '-'; it can be asked again then.
inline std::string text_of(SQLite::Statement& query) {
  std::string text;
  while (query.executeStep()) {
    if (!text.empty()) text += '\n';
    for (int i = 0; i < query.getColumnCount(); ++i) {
      if (i > 0) text += '|';
      text += query.getColumn(i).isNull() ? "-" : query.getColumn(i).getString();
    }
  }
  query.reset();
  return text;
}

/// Result of a query, as text_of(statement).
inline std::string text_of(SQLite::Database& db, const std::string& sql) {
  SQLite::Statement query(db, sql);
  return text_of(query);
}

/// The same of a connection that is asked the same again and again: what reads a view takes longer
/// to prepare than to answer, so questions stay prepared. Borrows the database, and ends before it.
class KeptQueries {
 public:
  explicit KeptQueries(SQLite::Database& db) : db_(db) {}

  /// Its parameters ?1, ?2 and so on are these texts.
  template <class... Texts>
  std::string text_of(const std::string& sql, const Texts&... texts) {
    if (!sql.starts_with("SELECT") && !sql.starts_with("WITH")) return greta::text_of(db_, sql);
    auto found = kept_.find(sql);
    if (found == kept_.end()) {
      if (kept_.size() == kMost) kept_.clear();
      found = kept_.try_emplace(sql, db_, sql).first;
    }
    try {
      int index = 0;
      (found->second.bind(++index, std::string(texts)), ...);
      return greta::text_of(found->second);
    } catch (...) {
      kept_.erase(found);
      throw;
    }
  }

  /// Runs a statement, which stays prepared, with these as ?1 and, unless 0, ?2. Returns its rows.
  std::string run(const std::string& sql, int64_t first, int64_t second = 0) {
    auto found = kept_.find(sql);
    if (found == kept_.end()) found = kept_.try_emplace(sql, db_, sql).first;
    SQLite::Statement& statement = found->second;
    statement.reset();
    statement.bind(1, first);
    if (second != 0) statement.bind(2, second);
    return greta::text_of(statement);
  }

  /// Whether nobody else has a statement of the connection.
  bool are_all() const {
    size_t n = 0;
    for (sqlite3_stmt* one = nullptr; (one = sqlite3_next_stmt(db_.getHandle(), one)) != nullptr;)
      ++n;
    return n == kept_.size();
  }

 private:
  static constexpr size_t kMost = 64;  // of a quarter of a megabyte each
  SQLite::Database& db_;
  std::map<std::string, SQLite::Statement> kept_;
};

/// The first column of the first row.
inline int64_t number_of(SQLite::Database& db, const std::string& sql) {
  return db.execAndGet(sql).getInt64();
}

}  // namespace greta
