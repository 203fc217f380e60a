#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <deque>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "cli/output/row_printer.h"

// Prepared statements of the programs, kept for the next run that is asked about.

struct sqlite3_stmt;

namespace greta {

using Value = std::variant<std::nullptr_t, int64_t, double, std::string>;

/// Statements that stay prepared for who asks the same of another run: one that reads the views of
/// verdicts takes longer to prepare than to answer. Borrows the database, and is gone before it.
class QueryPool {
 public:
  explicit QueryPool(SQLite::Database& db) : db_(db) {}
  ~QueryPool();
  QueryPool(const QueryPool&) = delete;
  QueryPool& operator=(const QueryPool&) = delete;

  SQLite::Database& db() { return db_; }
  size_t size() const;  ///< how many are prepared

 private:
  friend class Query;
  struct Kept {
    sqlite3_stmt* statement = nullptr;
    bool is_taken = false;
  };
  /// One of that text that nobody has; prepared where there is none.
  Kept& take(std::string_view sql);

  SQLite::Database& db_;
  std::unordered_map<std::string, std::deque<Kept>> by_text_;  // a deque: they stay where they are
};

/// A prepared statement whose rows are read as borrowed cells: results of ten million rows are
/// printed without a copy per value. Throws SQLite::Exception.
class Query {
 public:
  /// Prepares the first statement of `sql`; with `rest`, what follows it is put there.
  Query(SQLite::Database& db, std::string_view sql, std::string_view* rest = nullptr);
  /// Takes one that is prepared, or prepares it, and gives it back when this ends, without rows and
  /// bindings. To end before `statements` does.
  Query(QueryPool& statements, std::string_view sql);
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
  QueryPool::Kept* kept_ = nullptr;  ///< null: the statement is this one's alone
};

/// A statement whose first parameter is a run; `more` are those after it. Throws SQLite::Exception.
class RunQuery : public Query {
 public:
  RunQuery(QueryPool& statements, int64_t run_id, std::string_view sql,
           std::initializer_list<Value> more = {})
      : Query(statements, sql) {
    bind(1, run_id);
    int parameter = 1;
    for (const Value& value : more) bind(++parameter, value);
  }
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

/// Prints the rest of a query's rows into a printer of as many columns; `see` gets each, too.
void print_rows(Query& query, RowPrinter& printer,
                const std::function<void(const Query&)>& see = {});

/// Prints a whole query.
void print_query(Query& query, Output& out, Format format);

/// Lets big sorts of this connection spill to temporary files instead of memory, where the disk has
/// room for what the database has.
void sort_on_disk(SQLite::Database& db);

}  // namespace greta
