#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <string>
#include <string_view>
#include <vector>

// Definitions of tables, views, triggers and indexes, and how those of a file differ from them.

namespace greta {

/// A table, index, trigger or view of this build, as `sqlite_schema` of a file that it made has it.
struct Definition {
  std::string type, name, sql;
};

/// All of them, in an order in which they can be created.
const std::vector<Definition>& definitions();

/// By its name in any case; null when there is none.
const Definition* find_definition(std::string_view name);

/// A SELECT, or VALUES, of the rows that db/dictionary.sql fills a table with.
std::string shipped_rows(const std::string& table);

/// A number that changes with any of the definitions.
std::string definitions_version();

/// What a file has otherwise than this build would make it.
struct DefinitionDifference {
  std::string type, name;  ///< type "table" also where something else stands in place of a table
  std::string how;         ///< "changed", "missing" or "added"
};

/// Compares texts of definitions, and rows of the dictionaries by which a run is judged. Tables may
/// differ in blanks and comments. Objects of somebody else under other names are left alone, but
/// for triggers and for unique indexes on our tables, which act on what is written.
std::vector<DefinitionDifference> definition_differences(SQLite::Database& db);

/// True if one of them is of a table, which cannot be restored.
bool any_table(const std::vector<DefinitionDifference>& differences);

/// "view run_verdict changed, view pair missing": at most five, safe to print.
std::string text_of(const std::vector<DefinitionDifference>& differences);

/// Makes views, triggers, indexes and dictionaries of these differences, of which none is of a
/// table, this build's, and forgets every kept verdict. Inside the caller's transaction.
void restore_definitions(SQLite::Database& db,
                         const std::vector<DefinitionDifference>& differences);

}  // namespace greta
