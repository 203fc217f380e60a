// What a database answers, as text that a test compares.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <string>

namespace greta {

/// Result of a query: rows by line, columns by '|', NULL as '-'.
inline std::string text_of(SQLite::Database& db, const std::string& sql) {
  SQLite::Statement query(db, sql);
  std::string text;
  while (query.executeStep()) {
    if (!text.empty()) text += '\n';
    for (int i = 0; i < query.getColumnCount(); ++i) {
      if (i > 0) text += '|';
      text += query.getColumn(i).isNull() ? "-" : query.getColumn(i).getString();
    }
  }
  return text;
}

/// The first column of the first row.
inline int64_t number_of(SQLite::Database& db, const std::string& sql) {
  return db.execAndGet(sql).getInt64();
}

}  // namespace greta
