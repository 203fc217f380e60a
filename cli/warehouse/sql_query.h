#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cli/output/row_printer.h"

struct sqlite3_stmt;

namespace greta {

using Value = std::variant<std::nullptr_t, int64_t, double, std::string>;

/// A prepared statement whose rows are read as borrowed cells: results of ten million rows are
/// printed without a copy per value. Throws SQLite::Exception.
class Query {
 public:
  /// Prepares the first statement of `sql`; with `rest`, what follows it is put there, else
  /// ignored.
  Query(SQLite::Database& db, std::string_view sql, std::string_view* rest = nullptr);
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  bool empty() const { return statement_ == nullptr; }  ///< blanks and comments only
  bool read_only() const;
  Query& bind(int parameter, const Value& value);  ///< parameters count from 1
  int parameters() const;
  std::string parameter_name(int parameter) const;  ///< ":name"; "" for a plain ?

  bool step();   ///< false after the last row
  void reset();  ///< ready for other bindings and another run

  int columns() const;
  std::vector<std::string> column_names() const;
  Cell cell(int column) const;  ///< borrowed until the next step

  int64_t integer(int column) const { return cell(column).integer; }
  std::string text(int column) const { return std::string(cell(column).text); }  ///< "" for NULL
  bool is_null(int column) const { return cell(column).type == Cell::Type::kNull; }

 private:
  sqlite3_stmt* statement_ = nullptr;
};

/// The conditions of a WHERE clause, each with one ? and its value. Conditions are text of this
/// program; what the user wrote is only ever a value.
class Where {
 public:
  void add(std::string_view condition, Value value);
  void add_if(const std::string& value, std::string_view condition);  ///< unless value is ""
  std::string sql() const;  ///< " WHERE ... AND ...", "" when there is none
  void bind(Query& query, int first = 1) const;

 private:
  std::string sql_;
  std::vector<Value> values_;
};

/// Prints the rest of a query's rows into a printer of as many columns.
void print_rows(Query& query, RowPrinter& printer);

/// Prints a whole query.
void print_query(Query& query, Output& out, Format format);

/// Lets big sorts of this connection spill to temporary files instead of memory.
void sort_on_disk(SQLite::Database& db);

}  // namespace greta
