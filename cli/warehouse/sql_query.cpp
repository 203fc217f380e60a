#include "cli/warehouse/sql_query.h"

#include <sqlite3.h>

namespace greta {

Query::Query(SQLite::Database& db, std::string_view sql, std::string_view* rest) {
  const char* end = nullptr;
  int rc = sqlite3_prepare_v2(db.getHandle(), sql.data(), static_cast<int>(sql.size()), &statement_,
                              &end);
  if (rc != SQLITE_OK) throw SQLite::Exception(db.getHandle(), rc);
  if (rest) *rest = sql.substr(static_cast<size_t>(end - sql.data()));
}

Query::~Query() { sqlite3_finalize(statement_); }

bool Query::read_only() const { return sqlite3_stmt_readonly(statement_) != 0; }

Query& Query::bind(int parameter, const Value& value) {
  int rc = SQLITE_OK;
  if (auto* integer = std::get_if<int64_t>(&value)) {
    rc = sqlite3_bind_int64(statement_, parameter, *integer);
  } else if (auto* real = std::get_if<double>(&value)) {
    rc = sqlite3_bind_double(statement_, parameter, *real);
  } else if (auto* text = std::get_if<std::string>(&value)) {
    rc = sqlite3_bind_text64(statement_, parameter, text->data(), text->size(), SQLITE_TRANSIENT,
                             SQLITE_UTF8);
  } else {
    rc = sqlite3_bind_null(statement_, parameter);
  }
  if (rc != SQLITE_OK) throw SQLite::Exception(sqlite3_db_handle(statement_), rc);
  return *this;
}

int Query::parameters() const { return sqlite3_bind_parameter_count(statement_); }

std::string Query::parameter_name(int parameter) const {
  const char* name = sqlite3_bind_parameter_name(statement_, parameter);
  return name ? name : "";
}

bool Query::step() {
  int rc = sqlite3_step(statement_);
  if (rc == SQLITE_ROW) return true;
  if (rc == SQLITE_DONE) return false;
  throw SQLite::Exception(sqlite3_db_handle(statement_), rc);
}

void Query::reset() { sqlite3_reset(statement_); }

int Query::columns() const { return sqlite3_column_count(statement_); }

std::vector<std::string> Query::column_names() const {
  std::vector<std::string> names;
  for (int i = 0; i < columns(); i++) names.emplace_back(sqlite3_column_name(statement_, i));
  return names;
}

Cell Query::cell(int column) const {
  auto bytes = [&](const void* data) {
    size_t size = static_cast<size_t>(sqlite3_column_bytes(statement_, column));
    return std::string_view(size ? static_cast<const char*>(data) : "", size);
  };
  switch (sqlite3_column_type(statement_, column)) {
    case SQLITE_INTEGER:
      return Cell(int64_t{sqlite3_column_int64(statement_, column)});
    case SQLITE_FLOAT:
      return Cell(sqlite3_column_double(statement_, column));
    case SQLITE_TEXT:
      return Cell(bytes(sqlite3_column_text(statement_, column)));
    case SQLITE_BLOB:
      return Cell::blob(bytes(sqlite3_column_blob(statement_, column)));
    default:
      return Cell();
  }
}

void Where::add(std::string_view condition, Value value) {
  sql_ += sql_.empty() ? " WHERE " : " AND ";
  sql_ += condition;
  values_.push_back(std::move(value));
}

void Where::add_if(const std::string& value, std::string_view condition) {
  if (!value.empty()) add(condition, value);
}

std::string Where::sql() const { return sql_; }

void Where::bind(Query& query, int first) const {
  for (const Value& value : values_) query.bind(first++, value);
}

void print_rows(Query& query, RowPrinter& printer) {
  std::vector<Cell> cells(static_cast<size_t>(query.columns()));
  while (query.step()) {
    for (int i = 0; i < query.columns(); i++) cells[static_cast<size_t>(i)] = query.cell(i);
    printer.row(cells);
  }
}

void print_query(Query& query, Output& out, Format format) {
  RowPrinter printer(out, format, query.column_names());
  print_rows(query, printer);
  printer.finish();
}

void sort_on_disk(SQLite::Database& db) { db.exec("PRAGMA temp_store = FILE"); }

}  // namespace greta
