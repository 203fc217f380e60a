#include "db/trace_batch.h"

#include <atomic>
#include <optional>

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
void result(sqlite3_context* out, double value) { sqlite3_result_double(out, value); }
template <class T>
void result(sqlite3_context* out, const std::optional<T>& value) {
  if (value) result(out, *value);  // else NULL, the default
}

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
  const TraceRow& row = *rows[at];
  switch (column) {
    case 0:
      return result(out, row.run_id);
    case 1:
      return result(out, row.prompt_id);
    case 2:
      return result(out, static_cast<int64_t>(row.side));
    case 3:
      return result(out, row.pos_id);
    case 4:
      return result(out, row.layer);
    case 5:
      return result(out, row.tensor_id);
    case 6:
      return result(out, row.nth);
    case 7:
      return result(out, row.phase_id);
    case 8:
      return result(out, row.step);
    case 9:
      return result(out, row.name_id);
    case 10:
    case 11:
      return result(out, int64_t{1});  // stands, stands_in_phase
    case 12:
    case 13:
      return result(out, int64_t{0});  // ambiguous, ambiguous_in_phase
    case 14:
      return result(out, row.token_id);
    case 15:
      return result(out, row.logical_tok_idx);
    case 16:
      return result(out, row.n);
    case 17:
      if (row.hash) result(out, static_cast<int64_t>(*row.hash));
      return;
    case 18:
      return result(out, row.min);
    case 19:
      return result(out, row.max);
    case 20:
      return result(out, row.mean);
    case 21:
      return result(out, row.abs_sum);
    case 22:
      return result(out, row.nan);
    case 23:
      return result(out, row.inf);
    case 24:
      return result(out, row.nz_count);
    case 25:
      return result(out, int64_t{row.flags});
    case 26:
      if (ids[at].sample) result(out, ids[at].sample);
      return;
    case 27:
      if (ids[at].sketch) result(out, ids[at].sketch);
      return;
    case 28:
      return result(out, row.ptr);
    case 29:
      return result(out, row.offset_bytes);
    case 30:
      return result(out, row.context_id);
    case 31:
      return result(out, row.source_id);
    default:
      return result(out, row.line);
  }
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
