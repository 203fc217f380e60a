#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>

#include "db/lock_wait.h"

// Opens database files for reading, for writing and for repair.

namespace greta {

/// A file that is not a greta database, or one of a version this build cannot use.
struct DatabaseError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A file whose views, triggers, indexes or tables are not those that greta makes.
struct DefinitionError : DatabaseError {
  using DatabaseError::DatabaseError;
};

/// Sets SQLite and the allocator up for a program of many threads, each with connections of its
/// own: before its first connection. No connection may then be used by two threads at a time.
void set_up_sqlite();

/// Throws DatabaseError unless rows can be kept under this name: it is empty, in memory, a URI, or
/// something else than a file. For a name that somebody gave; the openings below take :memory: too.
void check_database_name(const std::filesystem::path& file);

/// A file's name as SQLite takes it with parameters behind it: "file:/a/b%20c.db".
std::string uri_of(const std::filesystem::path& file);

/// Opens an existing database for queries: nothing can write through it. Runs that have no verdict
/// are judged first, in the file, or in temporary tables where it cannot be written. Where nothing
/// may be written, a file is read alone, unless a log or a journal beside it has a part of what it
/// holds. Throws DatabaseError (no such file, not greta's, of another format or build, views,
/// triggers or tables that greta did not make, half of a file) or SQLite::Exception.
/// `prepare` writes what else is wanted of it, into the file or the temporary tables.
SQLite::Database open_for_reading(const std::filesystem::path& file,
                                  const std::function<void(SQLite::Database&)>& prepare = nullptr);

/// The same, but the file is left and believed as it is: its tables are those of its version, its
/// views may say anything.
SQLite::Database open_unchanged(const std::filesystem::path& file);

/// True if a connection that reads has the file to itself, as the disk has no room for the index of
/// the write-ahead log. Others wait for it, of this process, too.
bool is_alone(SQLite::Database& db);

/// A new greta database in a file of SQLite's own, which goes with the connection and has no name:
/// for writing, without triggers and foreign keys, which act on what is written.
SQLite::Database open_temporary();

/// Opens a database for writing: creates it, brings one of an older greta forward. WAL, foreign
/// keys on. Throws as open_for_reading does.
SQLite::Database open_for_writing(const std::filesystem::path& file,
                                  LockWait& wait = LockWait::usual());

/// Opens an existing database for writing and makes its views, triggers and indexes greta's,
/// whoever changed them. Throws DefinitionError when its tables are not as greta makes them.
SQLite::Database open_for_repair(const std::filesystem::path& file);

/// Syncs what was committed: it survives a power cut. Moves the write-ahead log into the file, if
/// readers do not keep that from being done soon.
void make_durable(SQLite::Database& db);

}  // namespace greta
