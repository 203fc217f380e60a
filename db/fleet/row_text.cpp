#include "db/fleet/row_text.h"

#include <sqlite3.h>

#include <array>
#include <charconv>
#include <stdexcept>

#include "db/clickhouse/row_hash.h"

namespace greta {
namespace {

template <class Number>
std::string digits_of(Number value) {
  std::array<char, 64> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), end.ptr};
}

template <class Number>
Number number_in(std::string_view text) {
  Number value{};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size())
    throw std::runtime_error("a record has a text where a number belongs");
  return value;
}

}  // namespace

CellText cell_text(RowStatement& row, int column) {
  switch (row.type(column)) {
    case SQLITE_NULL:
      return std::nullopt;
    case SQLITE_INTEGER:
      return digits_of(row.integer(column));
    case SQLITE_FLOAT:
      return digits_of(row.real(column));
    default:
      return std::string(row.bytes(column));
  }
}

int64_t integer_of(const CellText& cell) { return cell ? number_in<int64_t>(*cell) : 0; }

uint64_t hash_of_cells(std::string_view table, uint64_t ord, const std::vector<CellText>& cells) {
  clickhouse::RowHash hash;
  hash.text(table).number(ord);
  for (const CellText& cell : cells) {
    hash.number(cell ? 1 : 0);
    if (cell) hash.text(*cell);
  }
  return hash.value();
}

std::vector<std::string> column_types(SQLite::Database& db, const std::string& table) {
  std::vector<std::string> types;
  SQLite::Statement columns(db, "SELECT type FROM pragma_table_info(?) ORDER BY cid");
  columns.bind(1, table);
  while (columns.executeStep()) types.push_back(columns.getColumn(0));
  return types;
}

void bind_cell(SQLite::Statement& statement, int parameter, const CellText& cell,
               std::string_view type) {
  if (!cell) {
    statement.bind(parameter);
  } else if (type == "INTEGER") {
    statement.bind(parameter, number_in<int64_t>(*cell));
  } else if (type == "REAL") {
    statement.bind(parameter, number_in<double>(*cell));
  } else if (type == "BLOB") {
    statement.bind(parameter, cell->data(), static_cast<int>(cell->size()));
  } else {
    statement.bind(parameter, *cell);
  }
}

}  // namespace greta
