#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "db/clickhouse/row_binary.h"
#include "db/fleet/row_sum.h"
#include "db/row_statement.h"
#include "db/statements.h"

namespace greta {

/// Numbers of a row of `sketch`, and of one of `difference`.
inline constexpr int kSketchNumbers = 32, kDifferenceShares = 32;

/// Columns of the tables of a warehouse, as rows are sent, behind their shard and push, and
/// fetched, behind their push.
inline constexpr SentColumn kTraceColumnsThere[] = {
    {"prompt_id", SentType::kInt64},
    {"pos_id", SentType::kInt32},
    {"layer", SentType::kInt32},
    {"tensor_id", SentType::kInt64},
    {"side", SentType::kUInt8},
    {"nth", SentType::kInt64},
    {"crowded", SentType::kUInt8},
    {"phase_id", SentType::kInt64},
    {"step", SentType::kInt64},
    {"name_id", SentType::kInt64},
    {"token_id", SentType::kInt64OrNull},
    {"logical_tok_idx", SentType::kInt64OrNull},
    {"n", SentType::kInt64OrNull},
    {"hash", SentType::kInt64OrNull},
    {"min", SentType::kFloat64OrNull},
    {"max", SentType::kFloat64OrNull},
    {"mean", SentType::kFloat64OrNull},
    {"abs_sum", SentType::kFloat64OrNull},
    {"nan_count", SentType::kInt64OrNull},
    {"inf_count", SentType::kInt64OrNull},
    {"nz_count", SentType::kInt64OrNull},
    {"flags", SentType::kUInt8},
    {"sketch_n", SentType::kInt64OrNull},
    {"sketch_derived", SentType::kUInt8},
    {"sum_sq", SentType::kFloat64},
    {"sketch", SentType::kFloats},
    {"sample_n", SentType::kInt64OrNull},
    {"sample", SentType::kText},
    {"ptr", SentType::kInt64OrNull},
    {"offset_bytes", SentType::kInt64OrNull},
    {"context_id", SentType::kInt64OrNull},
    {"source_id", SentType::kInt64},
    {"line", SentType::kInt64},
    {"tolerance", SentType::kFloat64OrNull},
};

inline constexpr SentColumn kDifferenceColumnsThere[] = {
    {"prompt_id", SentType::kInt64},
    {"pos_id", SentType::kInt32},
    {"layer", SentType::kInt32},
    {"tensor_id", SentType::kInt64},
    {"prefill_hash", SentType::kInt64},
    {"decode_hash", SentType::kInt64},
    {"n", SentType::kInt64},
    {"differing", SentType::kInt64},
    {"first_at", SentType::kInt64},
    {"last_at", SentType::kInt64},
    {"rel_l2", SentType::kFloat64OrNull},
    {"max_abs", SentType::kFloat64},
    {"max_abs_at", SentType::kInt64OrNull},
    {"max_ulp", SentType::kInt64},
    {"heads", SentType::kInt64},
    {"segments", SentType::kInt64},
    {"shares", SentType::kFloatsOrNulls},
};

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
