#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <string>

namespace greta {

/// PRAGMA user_version of files that this build reads and writes.
inline constexpr int kSchemaVersion = 3;
/// PRAGMA application_id: "gret".
inline constexpr int kApplicationId = 0x67726574;

/// An integer that SQLite keeps of the file.
int64_t pragma(SQLite::Database& db, const char* name);

/// Names of a table's columns, joined with ", "; "" when there is no such table.
std::string columns_of(SQLite::Database& db, const std::string& table);

/// Makes an empty file a greta database: tables, dictionary, views. Inside the caller's
/// transaction.
void create_schema(SQLite::Database& db);

/// Brings a file of an earlier version to this one, and its views to those of this build, in one
/// transaction: when anything fails, the file stays as it was. No-op when there is nothing to do.
void migrate(SQLite::Database& db);

}  // namespace greta
