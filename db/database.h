#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace greta {

/// PRAGMA user_version of files that this build reads and writes.
inline constexpr int kSchemaVersion = 1;
/// PRAGMA application_id: "gret".
inline constexpr int kApplicationId = 0x67726574;

/// A file that is not a greta database, or one of a version this build cannot use.
struct DatabaseError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Opens an existing database for queries. The file is not changed, nothing can write through it.
/// Throws DatabaseError (no such file, not greta's, older or newer schema) or SQLite::Exception.
SQLite::Database open_for_reading(const std::filesystem::path& file);

/// Opens a database for writing: creates it, migrates an older schema forward, refreshes its views
/// to those of this build. WAL, foreign keys on, waits up to a minute for another writer.
/// Throws DatabaseError or SQLite::Exception.
SQLite::Database open_for_writing(const std::filesystem::path& file);

/// Moves the write-ahead log into the file and syncs it: what was committed survives a power cut.
void make_durable(SQLite::Database& db);

/// While it lives, the database has a rollback journal in place of its write-ahead log, if nobody else
/// has the file open: a large transaction then writes its new pages once and not twice, which saves a
/// sixth of the time, but readers have to wait for its end. Create and destroy outside transactions.
class BulkJournal {
 public:
  explicit BulkJournal(SQLite::Database& db);
  ~BulkJournal();
  BulkJournal(const BulkJournal&) = delete;
  BulkJournal& operator=(const BulkJournal&) = delete;

 private:
  SQLite::Database& db_;
};

/// `name`, or NAME#2, NAME#3, ... when a run has it. For use in the transaction that adds the run.
std::string free_run_name(SQLite::Database& db, const std::string& name);

/// Computes and keeps the tally of a run, so that its verdict is read and not computed. No-op when it
/// is kept already. The kept rows are those of the view `tally`.
void keep_tally(SQLite::Database& db, int64_t run_id);

/// Ids of runs whose tally is not kept, with at most max_rows trace rows.
std::vector<int64_t> runs_without_tally(SQLite::Database& db, int64_t max_rows);

/// Problems found in a database; empty when it is sound: SQLite's integrity, foreign keys, ids of
/// trace rows that no dictionary has, fewer rows than an engine wrote.
std::vector<std::string> check_database(SQLite::Database& db);

}  // namespace greta
