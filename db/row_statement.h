#pragma once
#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "db/stored_sketch.h"
#include "db/trace_row.h"

// Prepared statements on trace_row for the hot path.

namespace greta {

/// Parameters 1 to 6: where a row of trace_row stands.
inline constexpr const char* kPlaceMatch =
    "run_id = ?1 AND prompt_id = ?2 AND side = ?3 AND pos_id = ?4 AND layer = ?5 AND tensor_id = "
    "?6";

/// A prepared statement on the hot path: binds in order, no checks per value.
class RowStatement {
 public:
  RowStatement(SQLite::Database& db, const std::string& sql) : handle_(db.getHandle()) {
    if (sqlite3_prepare_v3(handle_, sql.c_str(), static_cast<int>(sql.size()),
                           SQLITE_PREPARE_PERSISTENT, &statement_, nullptr) != SQLITE_OK) {
      throw SQLite::Exception(handle_);
    }
  }
  ~RowStatement() { sqlite3_finalize(statement_); }
  RowStatement(const RowStatement&) = delete;
  RowStatement& operator=(const RowStatement&) = delete;

  void bind(int64_t value) { sqlite3_bind_int64(statement_, ++at_, value); }
  void bind(double value) { sqlite3_bind_double(statement_, ++at_, value); }
  void bind(std::string_view value) {
    sqlite3_bind_text64(statement_, ++at_, value.data(), value.size(), SQLITE_STATIC, SQLITE_UTF8);
  }
  void bind_null() { sqlite3_bind_null(statement_, ++at_); }
  template <class T>
  void bind(const std::optional<T>& value) {
    value ? bind(*value) : bind_null();
  }
  /// A number, or NULL, of the row that another statement stands on.
  void bind_column(RowStatement& from, int i) {
    if (from.is_null(i)) return bind_null();
    from.type(i) == SQLITE_FLOAT ? bind(from.real(i)) : bind(from.integer(i));
  }
  void bind_bytes(std::string_view value) {
    sqlite3_bind_blob64(statement_, ++at_, value.data(), value.size(), SQLITE_STATIC);
  }
  void bind_blob(std::span<const float> values) {
    sqlite3_bind_blob64(statement_, ++at_, values.data(), values.size_bytes(), SQLITE_STATIC);
  }
  void bind_place(const TraceRow& row) {
    for (int64_t value : {row.run_id, row.prompt_id, static_cast<int64_t>(row.side), row.pos_id,
                          row.layer, row.tensor_id}) {
      bind(value);
    }
  }

  /// True when there is a row to read.
  bool step() {
    at_ = 0;
    int result = sqlite3_step(statement_);
    if (result == SQLITE_ROW) return true;
    if (result == SQLITE_DONE) return false;
    SQLite::Exception error(handle_, result);
    sqlite3_reset(statement_);
    throw error;
  }
  void reset() { sqlite3_reset(statement_); }
  void run() {
    step();
    reset();
  }

  int columns() { return sqlite3_column_count(statement_); }
  int parameters() { return sqlite3_bind_parameter_count(statement_); }
  int type(int i) { return sqlite3_column_type(statement_, i); }
  double real(int i) { return sqlite3_column_double(statement_, i); }
  /// Of a text or blob, until the next step.
  std::string_view bytes(int i) {
    const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, i));
    const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_, i));
    return size == 0 ? std::string_view("") : std::string_view(data, size);
  }
  bool is_null(int i) { return sqlite3_column_type(statement_, i) == SQLITE_NULL; }
  int64_t integer(int i) { return sqlite3_column_int64(statement_, i); }
  /// Sets values from columns of which the first is `i`; an optional has none where it is NULL.
  template <class... Values>
  void read(int i, Values&... values) {
    (take(i++, values), ...);
  }
  std::vector<float> floats(int i) {
    std::vector<float> values(static_cast<size_t>(sqlite3_column_bytes(statement_, i)) /
                              sizeof(float));
    if (!values.empty()) {
      std::memcpy(values.data(), sqlite3_column_blob(statement_, i), values.size() * sizeof(float));
    }
    return values;
  }

 private:
  template <class T>
  void take(int i, T& value) {
    value = static_cast<T>(integer(i));
  }
  void take(int i, double& value) { value = real(i); }
  template <class T>
  void take(int i, std::optional<T>& value) {
    value.reset();
    if (!is_null(i)) take(i, value.emplace());
  }

  sqlite3* handle_;
  sqlite3_stmt* statement_ = nullptr;
  int at_ = 0;
};

/// Sets what a row says from the columns kValueColumns, of which the first is `at`.
inline void read_values(RowStatement& s, int at, TraceRow& row) {
  s.read(at, row.token_id, row.logical_tok_idx, row.n, row.hash, row.min, row.max, row.mean,
         row.abs_sum, row.nan, row.inf, row.nz_count, row.flags);
}

/// A row of `sketch` without its id, of which the first column is `at`.
inline StoredSketch read_sketch(RowStatement& s, int at) {
  StoredSketch sketch{s.integer(at), s.integer(at + 1) != 0, s.real(at + 2), s.real(at + 3), {}};
  at += 4;
  for (int32_t& bucket : sketch.bucket) bucket = static_cast<int32_t>(s.integer(at++));
  return sketch;
}

}  // namespace greta
