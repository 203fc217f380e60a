#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "db/clickhouse/row_binary.h"
#include "db/row_statement.h"

// Tables that SQLite and a warehouse share, and their rows on the way between both.

namespace greta {

/// Type of a column, in SQLite and in ClickHouse.
enum class ColumnType : uint8_t { kInt8, kInt32, kInteger, kReal, kText, kBlob };

/// Row that an id in a column names. The name of the column says it, in every table alike.
enum class Reference : uint8_t {
  kNone,
  kOwn,  ///< a row that nothing but its run has: a prompt, a sketch, the row itself
  kRun,
  kSource,
  kTensor,
  kName,
  kPhase,
};

struct Column {
  std::string name;
  ColumnType type = ColumnType::kText;
  bool nullable = false;
  Reference reference = Reference::kNone;
};
using Columns = std::vector<Column>;

/// Columns of a table of SQLite, in its order.
Columns table_columns(SQLite::Database& db, const std::string& table);

/// "prompt_id, side", as SQLite takes them.
std::string names_of(const Columns& columns);

/// Number of rows, and what they say, in any order: the sum of a hash of each.
struct RowSum {
  uint64_t n = 0, sum = 0;

  void add(uint64_t hash) {
    ++n;
    sum += hash;
  }
  bool operator==(const RowSum&) const = default;
};

/// Value of a row on its way. A text is borrowed.
using FetchedValue = std::variant<std::monostate, int64_t, double, std::string_view>;

/// Binds a value of a column to the next parameter.
void bind_value(RowStatement& to, const FetchedValue& value, ColumnType type);

/// Appends the row that a statement of these columns stands on, in RowBinary. Returns its hash.
/// Throws std::runtime_error for a number that a column of few bits cannot hold.
uint64_t write_row(RowStatement& row, const Columns& columns, clickhouse::RowWriter& to);

/// Reads such a row, and returns the same hash.
uint64_t read_row(clickhouse::RowReader& from, const Columns& columns,
                  std::vector<FetchedValue>& row);

/// Row of a table of SQLite as text: a number is the shortest text that reads back as the same one.
struct Record {
  std::string kind;  ///< the table
  uint64_t ord = 0;  ///< number of the row within it
  std::vector<std::optional<std::string>> cells;

  Record() = default;
  Record(std::string table, uint64_t number, RowStatement& row);
  explicit Record(clickhouse::RowReader& row);

  bool operator==(const Record&) const = default;
  void write(clickhouse::RowWriter& to) const;
  uint64_t hash() const;
  /// A cell of a column of that type. Throws std::runtime_error for a text that is no number.
  FetchedValue value(size_t cell, ColumnType type) const;
  int64_t integer(size_t cell) const;          ///< 0 for NULL
  const std::string& text(size_t cell) const;  ///< "" for NULL
};

/// Table of a warehouse that has rows of runs. It is SQLite's table of that name, with `shard` and
/// `push` in the place of `run_id`.
struct FleetTable {
  std::string name;
  std::string what;         ///< "trace rows", for messages
  Columns columns;          ///< none of the table `record`, whose rows are Records
  std::string names;        ///< "`prompt_id`, `side`"
  std::string declaration;  ///< "`prompt_id` Int64, `side` Int64"
  std::string key;          ///< columns of its order, behind `push`
  std::string hash;         ///< of a row, as an expression of ClickHouse
  std::string select;       ///< from SQLite; ?1 is the run
};

/// Numbers of these tables: Published::sums is in this order.
enum TableNumber : size_t {
  kTraceRowTable,
  kSketchTable,
  kSampleTable,
  kDifferenceTable,
  kDifferencePartTable,
  kVerdictTable,
  kChangeTable,
  kRecordTable,
  kFleetTables
};

const std::vector<FleetTable>& fleet_tables();

/// Identity of the run whose id an SQL expression is: that of the engine, pipe or file of rows
/// which began it, where no other run of the file has the same, else its name. As in a merge.
std::string identity_sql(const std::string& run_id);

/// SQL of a text that changes when rows of a run are added or removed. `run_id`: an SQL expression.
std::string extent_sql(const std::string& run_id);

/// Table of SQLite whose rows of a run travel as records. Parameters of its condition: ?1 the run,
/// ?2 a JSON array of the run and of the directory levels above it, ?3 one of the sources of these.
struct RecordTable {
  const char* name;
  const char* condition;
  bool for_verdicts;  ///< false: only needed where rows are judged or shown
};

/// Tables with records, in the order in which they are put into a file.
const std::vector<RecordTable>& record_tables();

/// "?, ?, ?".
std::string parameter_marks(size_t n);

}  // namespace greta
