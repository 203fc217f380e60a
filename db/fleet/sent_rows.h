#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "db/clickhouse/row_binary.h"
#include "db/row_statement.h"
#include "db/statements.h"

namespace greta {

/// Numbers of a row of `sketch`, and of one of `difference`.
inline constexpr int kSketchNumbers = 32, kDifferenceShares = 32;

/// Columns of the tables of a warehouse, as rows are sent, behind their shard, and fetched.
extern const char* const kTraceColumnsThere;
extern const char* const kDifferenceColumnsThere;

/// Trace rows of a run as they travel: with sketch, sample, and the tolerance that a difference of
/// the row is judged by.
class TraceRows {
 public:
  explicit TraceRows(SQLite::Database& db) : rows_(db, kSelect), statements_(db) {}

  void begin(int64_t run_id, uint64_t shard, uint64_t push);
  /// False after the last.
  bool add_next(clickhouse::RowWriter& to);

 private:
  static const char* const kSelect;

  void add_statistics(clickhouse::RowWriter& to);
  void add_sketch(clickhouse::RowWriter& to);
  void add_integer(clickhouse::RowWriter& to, int column);
  std::optional<double> tolerance(int64_t name_id, int64_t layer, bool steady);

  RowStatement rows_;
  Statements statements_;
  int64_t run_id_ = 0;
  uint64_t shard_ = 0, push_ = 0;
  std::map<std::tuple<int64_t, int64_t, bool>, std::optional<double>> tolerances_;
};

/// Exact differences of a run as they travel.
class DifferenceRows {
 public:
  explicit DifferenceRows(SQLite::Database& db);

  void begin(int64_t run_id, uint64_t shard, uint64_t push);
  /// False after the last.
  bool add_next(clickhouse::RowWriter& to);

 private:
  RowStatement rows_;
  uint64_t shard_ = 0, push_ = 0;
};

}  // namespace greta
