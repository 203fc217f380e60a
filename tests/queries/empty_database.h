// Databases in memory without a row of a run, which the tests of one process hand on to each other.
#pragma once
#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <algorithm>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "db/database.h"
#include "tests/query_text.h"

namespace greta {

/// A connection and the questions that it is asked.
struct PreparedDatabase {
  template <class... Arguments>
  explicit PreparedDatabase(Arguments&&... arguments) : db(std::forward<Arguments>(arguments)...) {}

  SQLite::Database db;
  KeptQueries queries{db};
};

/// Lends databases and takes them back. SQLite works out the columns of all views anew for every
/// connection, which takes longer than most questions that a test asks: so a test gets the
/// connection of one that is done with it, its rows as in a new database.
class EmptyDatabases {
 public:
  struct TakeBack {
    int schema_version;  ///< as it was lent
    void operator()(PreparedDatabase* asked) const noexcept {
      databases().take_back(std::unique_ptr<PreparedDatabase>(asked), schema_version);
    }
  };
  using Lent = std::unique_ptr<PreparedDatabase, TakeBack>;

  static Lent lend() {
    std::unique_ptr<PreparedDatabase> asked = databases().next();
    const int version = schema_version(asked->db);
    return Lent(asked.release(), TakeBack{version});
  }

 private:
  EmptyDatabases() : empty_(open_for_writing(":memory:")) {
    std::set<std::string> left;
    std::set<std::pair<std::string, std::string>> references;
    SQLite::Statement query(empty_,
                            "SELECT s.name, f.\"table\" FROM sqlite_schema s"
                            " LEFT JOIN pragma_foreign_key_list(s.name) f"
                            " WHERE s.type = 'table' AND s.name NOT LIKE 'sqlite_%'");
    while (query.executeStep()) {
      const std::string name = query.getColumn(0);
      left.insert(name);
      if (!query.getColumn(1).isNull() && query.getColumn(1).getString() != name)
        references.emplace(name, query.getColumn(1).getString());
    }
    while (!left.empty()) {
      const auto next = std::find_if(left.begin(), left.end(), [&](const std::string& name) {
        return std::none_of(references.begin(), references.end(), [&](const auto& reference) {
          return reference.second == name && left.contains(reference.first);
        });
      });
      if (next == left.end()) throw std::logic_error("tables refer to each other in a circle");
      tables_.push_back(*next);
      left.erase(next);
    }
  }

  static EmptyDatabases& databases() {
    static EmptyDatabases all;
    return all;
  }

  static int schema_version(SQLite::Database& db) {
    return db.execAndGet("PRAGMA schema_version").getInt();
  }

  std::unique_ptr<PreparedDatabase> next() {
    std::unique_ptr<PreparedDatabase> asked;
    if (unused_.empty()) {
      asked = std::make_unique<PreparedDatabase>(":memory:",
                                                 SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
      SQLite::Backup(asked->db, empty_).executeStep();
      asked->db.exec("PRAGMA trusted_schema = OFF");
      // as db/database.cpp: nothing is planned anew for what is bound
      sqlite3_db_config(asked->db.getHandle(), SQLITE_DBCONFIG_ENABLE_QPSG, 1, nullptr);
    } else {
      asked = std::move(unused_.back());
      unused_.pop_back();
      // which a TraceWriter switched off
      sqlite3_db_config(asked->db.getHandle(), SQLITE_DBCONFIG_ENABLE_TRIGGER, 1, nullptr);
      empty_out(asked->db);
    }
    // not where it is on: whatever this pragma sets, all that is prepared is prepared anew
    if (asked->db.execAndGet("PRAGMA foreign_keys").getInt() == 0)
      asked->db.exec("PRAGMA foreign_keys = ON");
    return asked;
  }

  /// Nobody else gets what a test left in a transaction, with a statement at work, with another
  /// database beside it or with other tables, views or indexes.
  void take_back(std::unique_ptr<PreparedDatabase> asked, int lent_version) noexcept {
    try {
      SQLite::Database& db = asked->db;
      if (sqlite3_get_autocommit(db.getHandle()) != 0 && asked->queries.are_all() &&
          schema_version(db) == lent_version &&
          db.execAndGet("SELECT count(*) FROM pragma_database_list").getInt() == 1) {
        unused_.push_back(std::move(asked));
      }
    } catch (const std::exception&) {  // it goes
    }
  }

  void empty_out(SQLite::Database& db) {
    db.exec("BEGIN");
    for (const std::string& table : tables_) db.exec("DELETE FROM " + table);
    for (auto table = tables_.rbegin(); table != tables_.rend(); ++table) copy_rows(db, *table);
    db.exec("COMMIT");
  }

  /// The rows that every database has.
  void copy_rows(SQLite::Database& db, const std::string& table) {
    SQLite::Statement rows(empty_, "SELECT * FROM " + table);
    if (!rows.executeStep()) return;
    std::string marks = "?";
    for (int i = 1; i < rows.getColumnCount(); ++i) marks += ", ?";
    SQLite::Statement insert(db, "INSERT INTO " + table + " VALUES (" + marks + ")");
    do {
      for (int i = 0; i < rows.getColumnCount(); ++i) bind(insert, i + 1, rows.getColumn(i));
      insert.exec();
      insert.reset();
    } while (rows.executeStep());
  }

  static void bind(SQLite::Statement& insert, int index, const SQLite::Column& value) {
    if (value.isNull()) return insert.bind(index);
    if (value.isInteger()) return insert.bind(index, value.getInt64());
    if (value.isFloat()) return insert.bind(index, value.getDouble());
    insert.bind(index, value.getString());
  }

  SQLite::Database empty_;
  std::vector<std::string> tables_;  ///< each before those that it refers to
  std::vector<std::unique_ptr<PreparedDatabase>> unused_;
};

}  // namespace greta
