#pragma once
#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "db/stored_sketch.h"
#include "db/trace_row.h"

namespace greta {

/// Values of this process as a table-valued function of one connection, so that one INSERT ...
/// SELECT takes all of a batch: a tenth faster than binding 16 rows at a time, which is itself a
/// third faster than one. What is shown is borrowed: it lives until the statement that reads it is
/// done.
class BatchTable {
 public:
  /// Throws SQLite::Exception. The name is this table's own, whatever else the connection has.
  BatchTable(SQLite::Database& db, const std::string& kind, std::string columns);
  /// Statements that read from the function must be gone.
  virtual ~BatchTable();
  BatchTable(const BatchTable&) = delete;
  BatchTable& operator=(const BatchTable&) = delete;

  const std::string& name() const { return name_; }
  const std::string& columns() const { return columns_; }

  virtual size_t size() const = 0;
  /// Sets `out` to a value; NULL when it does nothing.
  virtual void value(size_t row, int column, sqlite3_context* out) const = 0;

 private:
  SQLite::Database& db_;
  std::string name_, columns_;
};

/// Ids of what a row has beside its columns; 0: it has none.
struct RowIds {
  int64_t sample = 0, sketch = 0;
};

/// Rows of trace_row, columns as kTraceColumns, each as if it were alone at its place.
class TraceRowBatch : public BatchTable {
 public:
  explicit TraceRowBatch(SQLite::Database& db);
  size_t size() const override { return rows.size(); }
  void value(size_t row, int column, sqlite3_context* out) const override;

  std::span<TraceRow* const> rows;
  std::span<const RowIds> ids;  ///< of each row
};

/// Rows of sketch.
class SketchBatch : public BatchTable {
 public:
  explicit SketchBatch(SQLite::Database& db);
  size_t size() const override { return sketches.size(); }
  void value(size_t row, int column, sqlite3_context* out) const override;

  std::vector<std::pair<int64_t, const StoredSketch*>> sketches;  ///< by id
};

}  // namespace greta
