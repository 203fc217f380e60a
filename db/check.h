#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <string>
#include <vector>

namespace greta {

/// Problems found in a database; empty when it is sound: SQLite's integrity, foreign keys, ids of
/// trace rows that no dictionary has, rows and positions that the views would not see, fewer rows
/// than an engine wrote.
std::vector<std::string> check_database(SQLite::Database& db);

}  // namespace greta
