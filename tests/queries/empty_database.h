// Databases in memory without a row of a run, which the tests of one process hand on to each other.
#pragma once
#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/database.h"

namespace greta {

/// Lends databases and takes them back. SQLite works out the columns of all views anew for every
/// connection, which takes longer than most questions that a test asks: so a test gets the
/// connection of one that is done with it, its rows as in a new database.
class EmptyDatabases {
 public:
  struct TakeBack {
    int schema_version;  ///< as it was lent
    void operator()(SQLite::Database* db) const noexcept {
      databases().take_back(std::unique_ptr<SQLite::Database>(db), schema_version);
    }
  };
  using Lent = std::unique_ptr<SQLite::Database, TakeBack>;

  static Lent lend() {
    std::unique_ptr<SQLite::Database> db = databases().next();
    const int version = schema_version(*db);
    return Lent(db.release(), TakeBack{version});
  }

 private:
  EmptyDatabases() : empty_(open_for_writing(":memory:")) {
    SQLite::Statement query(empty_,
                            "SELECT name FROM sqlite_schema"
                            " WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
    while (query.executeStep()) tables_.push_back(query.getColumn(0).getString());
  }

  static EmptyDatabases& databases() {
    static EmptyDatabases all;
    return all;
  }

  static int schema_version(SQLite::Database& db) {
    return db.execAndGet("PRAGMA schema_version").getInt();
  }

  std::unique_ptr<SQLite::Database> next() {
    std::unique_ptr<SQLite::Database> db;
    if (unused_.empty()) {
      db = std::make_unique<SQLite::Database>(":memory:",
                                              SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
      SQLite::Backup(*db, empty_).executeStep();
      db->exec("PRAGMA trusted_schema = OFF");
      // as db/database.cpp: nothing is planned anew for what is bound
      sqlite3_db_config(db->getHandle(), SQLITE_DBCONFIG_ENABLE_QPSG, 1, nullptr);
    } else {
      db = std::move(unused_.back());
      unused_.pop_back();
      empty_out(*db);
    }
    db->exec("PRAGMA foreign_keys = ON");
    return db;
  }

  /// Nobody else gets what a test left in a transaction, with a statement at work, with another
  /// database beside it or with other tables, views or indexes.
  void take_back(std::unique_ptr<SQLite::Database> db, int lent_version) noexcept {
    try {
      sqlite3* const handle = db->getHandle();
      if (sqlite3_get_autocommit(handle) != 0 && sqlite3_next_stmt(handle, nullptr) == nullptr &&
          schema_version(*db) == lent_version &&
          db->execAndGet("SELECT count(*) FROM pragma_database_list").getInt() == 1) {
        unused_.push_back(std::move(db));
      }
    } catch (const std::exception&) {  // it goes
    }
  }

  void empty_out(SQLite::Database& db) {
    db.exec("PRAGMA foreign_keys = OFF; BEGIN");
    for (const std::string& table : tables_) db.exec("DELETE FROM " + table);
    for (const std::string& table : tables_) copy_rows(db, table);
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
  std::vector<std::string> tables_;
  std::vector<std::unique_ptr<SQLite::Database>> unused_;
};

}  // namespace greta
