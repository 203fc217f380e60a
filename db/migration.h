#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

namespace greta {

/// Throws DatabaseError if a file is of a format version that no build still brings forward.
void check_migratable(SQLite::Database& db);

/// Brings the tables of a file of format version 8 or 9 to version 10, inside the caller's
/// transaction.
void migrate_to_10(SQLite::Database& db);

}  // namespace greta
