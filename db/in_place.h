#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

namespace greta {

/// Throws SQLite::Exception (SQLITE_READONLY_DBMOVED) when the file of `db` is no longer where it
/// was opened: deleted, moved or replaced. Whoever opens its name then sees nothing of what was
/// written, which commits all the same.
void check_in_place(SQLite::Database& db);

}  // namespace greta
