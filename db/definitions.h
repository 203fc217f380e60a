#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <string>
#include <string_view>
#include <vector>

namespace greta {

/// A table, index, trigger or view of this build, as `sqlite_schema` of a file that it made has it.
struct Definition {
  std::string type, name, sql;
};

/// All of them, in an order in which they can be created. Made once in a process, without a
/// database.
const std::vector<Definition>& definitions();

/// By its name in any case, as SQLite has it; null when there is none.
const Definition* find_definition(std::string_view name);

/// A SELECT, or VALUES, of the rows that db/dictionary.sql fills a table with.
std::string shipped_rows(const std::string& table);

/// A number that changes with any of the definitions.
std::string definitions_version();

/// What a file has otherwise than this build would make it.
struct DefinitionDifference {
  enum class Kind { kChanged, kMissing, kAdded };
  std::string type, name;  ///< "table" also where something else stands in place of a table
  Kind kind;
};

/// Compares texts, not versions: what a file says of itself is no evidence. Tables are the same
/// when they differ in blanks and comments only, as those that were altered by a migration do.
/// Tables, views and indexes of somebody else under other names are none of ours; every trigger and
/// every unique index on our tables would be: they act on what is written.
std::vector<DefinitionDifference> definition_differences(SQLite::Database& db);

/// Whether one of them cannot be restored.
bool any_table(const std::vector<DefinitionDifference>& differences);

/// "view run_verdict changed, view pair missing": names are safe to print, at most five are told.
std::string text_of(const std::vector<DefinitionDifference>& differences);

/// Creates tables that are missing and removes nothing: for a migration.
void create_missing_tables(SQLite::Database& db);

/// Makes views, triggers, indexes and those rows this build's, and forgets every kept verdict,
/// which others may have made. Inside the caller's transaction. Returns what differs still: where
/// tables do, nothing is changed.
std::vector<DefinitionDifference> restore_definitions(SQLite::Database& db);

}  // namespace greta
