#include "db/trace_batch.h"

#include <atomic>
#include <optional>
#include <type_traits>

namespace greta {
namespace {

struct Cursor : sqlite3_vtab_cursor {
  size_t at = 0;
};

struct Vtab : sqlite3_vtab {
  const BatchTable* table = nullptr;
};

const BatchTable& table_of(sqlite3_vtab_cursor* cursor) {
  return *static_cast<Vtab*>(cursor->pVtab)->table;
}

/// The module's callbacks; xCreate stays null, which makes the table exist without CREATE.
const sqlite3_module& batch_module() {
  static const sqlite3_module module = [] {
    sqlite3_module m{};
    m.xConnect = [](sqlite3* db, void* table, int, const char* const*, sqlite3_vtab** out, char**) {
      auto* vtab = new Vtab();
      vtab->table = static_cast<const BatchTable*>(table);
      *out = vtab;
      return sqlite3_declare_vtab(db, ("CREATE TABLE x(" + vtab->table->columns() + ")").c_str());
    };
    m.xDisconnect = [](sqlite3_vtab* vtab) {
      delete static_cast<Vtab*>(vtab);
      return SQLITE_OK;
    };
    m.xBestIndex = [](sqlite3_vtab*, sqlite3_index_info*) { return SQLITE_OK; };
    m.xOpen = [](sqlite3_vtab*, sqlite3_vtab_cursor** out) {
      *out = new Cursor();
      return SQLITE_OK;
    };
    m.xClose = [](sqlite3_vtab_cursor* cursor) {
      delete static_cast<Cursor*>(cursor);
      return SQLITE_OK;
    };
    m.xFilter = [](sqlite3_vtab_cursor* cursor, int, const char*, int, sqlite3_value**) {
      static_cast<Cursor*>(cursor)->at = 0;
      return SQLITE_OK;
    };
    m.xNext = [](sqlite3_vtab_cursor* cursor) {
      ++static_cast<Cursor*>(cursor)->at;
      return SQLITE_OK;
    };
    m.xEof = [](sqlite3_vtab_cursor* cursor) -> int {
      return static_cast<Cursor*>(cursor)->at >= table_of(cursor).size();
    };
    m.xColumn = [](sqlite3_vtab_cursor* cursor, sqlite3_context* out, int column) {
      table_of(cursor).value(static_cast<Cursor*>(cursor)->at, column, out);
      return SQLITE_OK;
    };
    m.xRowid = [](sqlite3_vtab_cursor* cursor, sqlite3_int64* out) {
      *out = static_cast<sqlite3_int64>(static_cast<Cursor*>(cursor)->at);
      return SQLITE_OK;
    };
    return m;
  }();
  return module;
}

void result(sqlite3_context* out, int64_t value) { sqlite3_result_int64(out, value); }
void result(sqlite3_context* out, uint64_t value) { result(out, static_cast<int64_t>(value)); }
void result(sqlite3_context* out, int value) { result(out, int64_t{value}); }
void result(sqlite3_context* out, Side value) { result(out, static_cast<int64_t>(value)); }
void result(sqlite3_context* out, double value) { sqlite3_result_double(out, value); }
template <class T>
void result(sqlite3_context* out, const std::optional<T>& value) {
  if (value) result(out, *value);  // else NULL, the default
}

/// Sets `out` to a column of a row: a field of the row or of its ids, or a number that all have.
template <auto of>
void column(const TraceRow& row, const RowIds& ids, sqlite3_context* out) {
  if constexpr (std::is_same_v<decltype(of), int64_t RowIds::*>) {
    if (ids.*of != 0) result(out, ids.*of);
  } else if constexpr (std::is_integral_v<decltype(of)>) {
    result(out, of);
  } else {
    result(out, row.*of);
  }
}
using Column = void (*)(const TraceRow&, const RowIds&, sqlite3_context*);
template <auto... of>
constexpr Column kColumnsOf[] = {column<of>...};

/// In the order of kTraceColumns.
constexpr const auto& kColumns =
    kColumnsOf<&TraceRow::run_id, &TraceRow::prompt_id, &TraceRow::side, &TraceRow::pos_id,
               &TraceRow::layer, &TraceRow::tensor_id, &TraceRow::nth, &TraceRow::phase_id,
               &TraceRow::step, &TraceRow::name_id, 1, 1, 0, 0, &TraceRow::token_id,
               &TraceRow::logical_tok_idx, &TraceRow::n, &TraceRow::hash, &TraceRow::min,
               &TraceRow::max, &TraceRow::mean, &TraceRow::abs_sum, &TraceRow::nan, &TraceRow::inf,
               &TraceRow::nz_count, &TraceRow::flags, &RowIds::sample, &RowIds::sketch,
               &TraceRow::ptr, &TraceRow::offset_bytes, &TraceRow::context_id, &TraceRow::source_id,
               &TraceRow::line>;

std::string sketch_columns() {
  std::string columns = "id, n, derived, sum_sq, scale";
  for (int i = 0; i < 32; ++i) columns += ", b" + std::to_string(i);
  return columns;
}

}  // namespace

BatchTable::BatchTable(SQLite::Database& db, const std::string& kind, std::string columns)
    : db_(db), columns_(std::move(columns)) {
  static std::atomic<int64_t> next_number = 0;
  name_ = kind + "_batch_" + std::to_string(next_number++);
  if (sqlite3_create_module(db.getHandle(), name_.c_str(), &batch_module(), this) != SQLITE_OK) {
    throw SQLite::Exception(db.getHandle());
  }
}

BatchTable::~BatchTable() {
  sqlite3_create_module(db_.getHandle(), name_.c_str(), nullptr, nullptr);
}

TraceRowBatch::TraceRowBatch(SQLite::Database& db) : BatchTable(db, "trace_row", kTraceColumns) {}

void TraceRowBatch::value(size_t at, int column, sqlite3_context* out) const {
  kColumns[column](*rows[at], ids[at], out);
}

SketchBatch::SketchBatch(SQLite::Database& db) : BatchTable(db, "sketch", sketch_columns()) {}

void SketchBatch::value(size_t at, int column, sqlite3_context* out) const {
  const auto& [id, sketch] = sketches[at];
  switch (column) {
    case 0:
      return result(out, id);
    case 1:
      return result(out, sketch->n);
    case 2:
      return result(out, int64_t{sketch->derived});
    case 3:
      return result(out, sketch->sum_sq);
    case 4:
      return result(out, sketch->scale);
    default:
      return result(out, int64_t{sketch->bucket[static_cast<size_t>(column - 5)]});
  }
}

}  // namespace greta
