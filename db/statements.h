#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <optional>
#include <unordered_map>

namespace greta {

/// Binds a value; NULL when an optional has none.
template <class T>
void bind_value(SQLite::Statement& s, int i, const T& value) {
  s.bind(i, value);
}
template <class T>
void bind_value(SQLite::Statement& s, int i, const std::optional<T>& value) {
  value ? s.bind(i, *value) : s.bind(i);
}

/// Statements of a connection, each prepared once: preparing costs more than what most of them do.
/// Give it literals only, by whose address it knows them. All throw SQLite::Exception.
class Statements {
 public:
  explicit Statements(SQLite::Database& db) : db_(db) {}

  /// Ready to run, with nothing bound; until the next call for the same.
  SQLite::Statement& operator()(const char* sql) {
    auto found = prepared_.find(sql);
    if (found == prepared_.end()) found = prepared_.try_emplace(sql, db_, sql).first;
    found->second.reset();
    found->second.clearBindings();
    return found->second;
  }

  /// The same with values bound, in order.
  template <class... Values>
  SQLite::Statement& operator()(const char* sql, const Values&... values) {
    SQLite::Statement& s = (*this)(sql);
    [[maybe_unused]] int i = 0;
    (bind_value(s, ++i, values), ...);
    return s;
  }

  /// First column of the first row, nothing when there is no row.
  template <class... Values>
  std::optional<int64_t> find_id(const char* sql, const Values&... values) {
    SQLite::Statement& s = (*this)(sql, values...);
    std::optional<int64_t> id;
    if (s.executeStep()) id = s.getColumn(0).getInt64();
    s.reset();  // one that stands on a row keeps a read transaction open
    return id;
  }

 private:
  SQLite::Database& db_;
  std::unordered_map<const char*, SQLite::Statement> prepared_;
};

}  // namespace greta
