#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "db/row_statement.h"

namespace greta {

/// A value of a row as it travels: nothing for NULL, a number as the shortest text that reads back
/// as the same one, a text or blob as its bytes. The type is the column's: tables are STRICT.
using CellText = std::optional<std::string>;

/// A column of the row that a statement stands on.
CellText cell_text(RowStatement& row, int column);

/// The integer that a cell holds, 0 for NULL. Throws std::runtime_error for what is none.
int64_t integer_of(const CellText& cell);

/// A hash of a row of a table, numbered within it, as a record holds it.
uint64_t hash_of_cells(std::string_view table, uint64_t ord, const std::vector<CellText>& cells);

/// Type of every column of a table, in order: INTEGER, REAL, TEXT or BLOB.
std::vector<std::string> column_types(SQLite::Database& db, const std::string& table);

/// Binds a value that was of a column of that type. Throws std::runtime_error for a number that is
/// none.
void bind_cell(SQLite::Statement& statement, int parameter, const CellText& cell,
               std::string_view type);

}  // namespace greta
