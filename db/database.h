#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "db/lock_wait.h"

namespace greta {

/// A file that is not a greta database, or one of a version this build cannot use.
struct DatabaseError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Opens an existing database for queries: nothing can write through it. A file with an older
/// schema is brought forward first; no other is changed. Throws DatabaseError (no such file, not
/// greta's, a newer schema, an older one that cannot be written) or SQLite::Exception.
SQLite::Database open_for_reading(const std::filesystem::path& file);

/// The same, but a file with an older schema is left so: its tables are those of its version.
SQLite::Database open_unchanged(const std::filesystem::path& file);

/// Opens a database for writing: creates it, migrates an older schema forward, refreshes its views
/// to those of this build. WAL, foreign keys on. Throws DatabaseError or SQLite::Exception.
SQLite::Database open_for_writing(const std::filesystem::path& file,
                                  LockWait& wait = LockWait::usual());

/// Syncs what was committed: it survives a power cut. Moves the write-ahead log into the file, if
/// readers do not keep that from being done soon.
void make_durable(SQLite::Database& db);

}  // namespace greta
