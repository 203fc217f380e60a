#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// The version of a file: creates its tables and views, and migrates older files.

namespace greta {

/// PRAGMA user_version of files that this build reads and writes.
inline constexpr int kSchemaVersion = 11;
/// PRAGMA application_id: "gret".
inline constexpr int kApplicationId = 0x67726574;

/// An integer that SQLite keeps of the file.
int64_t pragma(SQLite::Database& db, const char* name);

/// A .sql file of the project, embedded at build time.
struct SqlFile {
  std::string_view path;  ///< from the repository root: "queries/pair.sql"
  std::string_view text;
};

/// Files of db/, db/sql/, queries/, queries/internal/ and queries/canned/.
const std::vector<SqlFile>& sql_files();

/// The text of a .sql file of the project, by its path from the root. Throws std::logic_error.
std::string sql_of_file(std::string_view path);

/// Names of a table's columns, joined with ", "; "" when there is no such table.
std::string columns_of(SQLite::Database& db, const std::string& table);

/// Makes an empty file a greta database: tables, dictionary, views. Inside the caller's
/// transaction.
void create_schema(SQLite::Database& db);

/// Creates the views of this build in the schema `main` or `temp`, where none of them is.
void write_views_down(SQLite::Database& db, const std::string& schema);

/// Throws DatabaseError with the command that helps where a file is of an earlier version, or its
/// views, triggers and indexes are those of another build. Throws DefinitionError, with their
/// names, when they are nobody's, or when tables are not as this build makes them: then what the
/// views say of the file is no verdict.
void check_current(SQLite::Database& db, const std::filesystem::path& file);

/// Brings a file of an earlier version to this one, and its views, triggers and indexes to those of
/// this build, in one transaction: when anything fails, the file stays as it was. No-op when there
/// is nothing to do. Throws as check_current does.
void migrate(SQLite::Database& db);

/// As migrate(), whoever changed views, triggers and indexes: what is kept of verdicts is worked
/// out anew. Throws DefinitionError when tables are not as this build makes them.
void bring_to_this_build(SQLite::Database& db);

}  // namespace greta
