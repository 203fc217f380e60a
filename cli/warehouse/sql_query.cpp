#include "cli/warehouse/sql_query.h"

#include <sqlite3.h>

#include <algorithm>
#include <filesystem>

#include "db/schema.h"

namespace greta {
namespace {

/// The first statement of `sql`; with `rest`, what follows it is put there.
sqlite3_stmt* prepared(SQLite::Database& db, std::string_view sql, std::string_view* rest) {
  sqlite3_stmt* statement = nullptr;
  const char* end = nullptr;
  int rc = sqlite3_prepare_v2(db.getHandle(), sql.data(), static_cast<int>(sql.size()), &statement,
                              &end);
  if (rc != SQLITE_OK) throw SQLite::Exception(db.getHandle(), rc);
  if (rest) *rest = sql.substr(static_cast<size_t>(end - sql.data()));
  return statement;
}

}  // namespace

QueryPool::~QueryPool() {
  for (const auto& [text, all] : by_text_) {
    for (const Kept& kept : all) sqlite3_finalize(kept.statement);
  }
}

size_t QueryPool::size() const {
  size_t n = 0;
  for (const auto& [text, all] : by_text_) {
    for (const Kept& kept : all) n += kept.statement != nullptr;
  }
  return n;
}

QueryPool::Kept& QueryPool::take(std::string_view sql) {
  std::deque<Kept>& all = by_text_[std::string(sql)];
  const auto free = std::find_if(all.begin(), all.end(), [](const Kept& k) { return !k.is_taken; });
  Kept& kept = free == all.end() ? all.emplace_back() : *free;
  if (!kept.statement) kept.statement = prepared(db_, sql, nullptr);
  kept.is_taken = true;
  return kept;
}

Query::Query(SQLite::Database& db, std::string_view sql, std::string_view* rest)
    : statement_(prepared(db, sql, rest)) {}

Query::Query(QueryPool& statements, std::string_view sql) : kept_(&statements.take(sql)) {
  statement_ = kept_->statement;
}

Query::~Query() {
  if (!kept_) {
    sqlite3_finalize(statement_);
    return;
  }
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  kept_->is_taken = false;
}

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

void print_rows(Query& query, RowPrinter& printer, const std::function<void(const Query&)>& see) {
  std::vector<Cell> cells(static_cast<size_t>(query.columns()));
  while (query.step()) {
    for (int i = 0; i < query.columns(); i++) cells[static_cast<size_t>(i)] = query.cell(i);
    printer.row(cells);
    if (see) see(query);
  }
}

void print_query(Query& query, Output& out, Format format) {
  RowPrinter printer(out, format, query.column_names());
  print_rows(query, printer);
  printer.finish();
}

void sort_on_disk(SQLite::Database& db) {
  // another store would drop what is temporary: verdicts of a file that cannot be written
  if (db.execAndGet("SELECT count(*) FROM temp.sqlite_schema").getInt() > 0) return;
  std::error_code ignored;
  const auto room = std::filesystem::space(std::filesystem::temp_directory_path(ignored), ignored);
  const int64_t size = pragma(db, "page_count") * pragma(db, "page_size");
  if (room.available >= static_cast<uint64_t>(size)) db.exec("PRAGMA temp_store = FILE");
}

}  // namespace greta
