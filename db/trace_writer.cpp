#include "db/trace_writer.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstring>
#include <stdexcept>
#include <tuple>

namespace greta {
namespace {

constexpr const char* kColumns =
    "run_id, prompt_id, side, pos_id, layer, tensor_id, phase_id, step, name_id, occurrence,"
    " token_id, logical_tok_idx, n, hash, min, max, mean, abs_sum, nan, inf, nz_count, flags,"
    " vector_id, ptr, offset_bytes, context_id, source_id, line";
constexpr const char* kKeyMatch =
    "run_id = ?1 AND prompt_id = ?2 AND side = ?3 AND pos_id = ?4 AND layer = ?5"
    " AND tensor_id = ?6 AND phase_id = ?7 AND step = ?8 AND name_id = ?9 AND occurrence = ?10";
/// Ids of names that greta does not know start here, far above the built-in trace points.
constexpr int64_t kFirstUnknownTensor = 1000;
constexpr int64_t kMaxTensor = 65'534;

/// What a batch inserts, as a table-valued function, so that one INSERT ... SELECT takes all of it: a
/// tenth faster than binding 16 rows at a time, which is itself a third faster than one.
struct BatchTable {
  std::string columns;
  size_t size = 0;
  void (*column_of)(const BatchTable&, size_t at, sqlite3_context* out, int column) = nullptr;
};

/// Rows of trace_row, columns as kColumns.
struct RowTable : BatchTable {
  std::span<TraceRow* const> rows;
  std::span<const int64_t> vectors;  ///< sketch and sample id of each row, 0 none
};

/// Rows of sketch.
struct SketchTable : BatchTable {
  std::vector<std::pair<int64_t, const RowSketch*>> sketches;  ///< by id
};

struct BatchCursor : sqlite3_vtab_cursor {
  size_t at = 0;
};

struct BatchVtab : sqlite3_vtab {
  const BatchTable* table = nullptr;
};

void result(sqlite3_context* out, int64_t value) { sqlite3_result_int64(out, value); }
void result(sqlite3_context* out, double value) { sqlite3_result_double(out, value); }
template <class T>
void result(sqlite3_context* out, const std::optional<T>& value) {
  if (value) result(out, *value);  // else NULL, the default
}

void row_column(const BatchTable& table, size_t at, sqlite3_context* out, int column) {
  const auto& batch = static_cast<const RowTable&>(table);
  const TraceRow& row = *batch.rows[at];
  switch (column) {
    case 0: return result(out, row.run_id);
    case 1: return result(out, row.prompt_id);
    case 2: return result(out, static_cast<int64_t>(row.side));
    case 3: return result(out, row.pos_id);
    case 4: return result(out, row.layer);
    case 5: return result(out, row.tensor_id);
    case 6: return result(out, row.phase_id);
    case 7: return result(out, row.step);
    case 8: return result(out, row.name_id);
    case 9: return result(out, row.occurrence);
    case 10: return result(out, row.token_id);
    case 11: return result(out, row.logical_tok_idx);
    case 12: return result(out, row.n);
    case 13: if (row.hash) result(out, static_cast<int64_t>(*row.hash)); return;
    case 14: return result(out, row.min);
    case 15: return result(out, row.max);
    case 16: return result(out, row.mean);
    case 17: return result(out, row.abs_sum);
    case 18: return result(out, row.nan);
    case 19: return result(out, row.inf);
    case 20: return result(out, row.nz_count);
    case 21: return result(out, int64_t{row.flags});
    case 22: if (batch.vectors[at]) result(out, batch.vectors[at]); return;
    case 23: return result(out, row.ptr);
    case 24: return result(out, row.offset_bytes);
    case 25: return result(out, row.context_id);
    case 26: return result(out, row.source_id);
    default: return result(out, row.line);
  }
}

void sketch_column(const BatchTable& table, size_t at, sqlite3_context* out, int column) {
  const auto& [id, sketch] = static_cast<const SketchTable&>(table).sketches[at];
  switch (column) {
    case 0: return result(out, id);
    case 1: return result(out, sketch->n);
    case 2: return result(out, int64_t{sketch->derived});
    case 3: return result(out, sketch->sum_sq);
    default: return result(out, sketch->bucket[static_cast<size_t>(column - 4)]);
  }
}

const BatchTable& table_of(sqlite3_vtab_cursor* cursor) {
  return *static_cast<BatchVtab*>(cursor->pVtab)->table;
}

/// The module's callbacks; xCreate stays null, which makes the table exist without CREATE.
const sqlite3_module& batch_module() {
  static const sqlite3_module module = [] {
    sqlite3_module m{};
    m.xConnect = [](sqlite3* db, void* table, int, const char* const*, sqlite3_vtab** out, char**) {
      auto* vtab = new BatchVtab();
      vtab->table = static_cast<const BatchTable*>(table);
      *out = vtab;
      return sqlite3_declare_vtab(db, ("CREATE TABLE x(" + vtab->table->columns + ")").c_str());
    };
    m.xDisconnect = [](sqlite3_vtab* vtab) {
      delete static_cast<BatchVtab*>(vtab);
      return SQLITE_OK;
    };
    m.xBestIndex = [](sqlite3_vtab*, sqlite3_index_info*) { return SQLITE_OK; };
    m.xOpen = [](sqlite3_vtab*, sqlite3_vtab_cursor** out) {
      *out = new BatchCursor();
      return SQLITE_OK;
    };
    m.xClose = [](sqlite3_vtab_cursor* cursor) {
      delete static_cast<BatchCursor*>(cursor);
      return SQLITE_OK;
    };
    m.xFilter = [](sqlite3_vtab_cursor* cursor, int, const char*, int, sqlite3_value**) {
      static_cast<BatchCursor*>(cursor)->at = 0;
      return SQLITE_OK;
    };
    m.xNext = [](sqlite3_vtab_cursor* cursor) {
      ++static_cast<BatchCursor*>(cursor)->at;
      return SQLITE_OK;
    };
    m.xEof = [](sqlite3_vtab_cursor* cursor) -> int {
      return static_cast<BatchCursor*>(cursor)->at >= table_of(cursor).size;
    };
    m.xColumn = [](sqlite3_vtab_cursor* cursor, sqlite3_context* out, int column) {
      const BatchTable& table = table_of(cursor);
      table.column_of(table, static_cast<BatchCursor*>(cursor)->at, out, column);
      return SQLITE_OK;
    };
    m.xRowid = [](sqlite3_vtab_cursor* cursor, sqlite3_int64* out) {
      *out = static_cast<sqlite3_int64>(static_cast<BatchCursor*>(cursor)->at);
      return SQLITE_OK;
    };
    return m;
  }();
  return module;
}

bool same_bytes(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

/// Content: what makes two rows under one key the same observation. Doubles here are never NaN.
bool same_content(const TraceRow& a, const TraceRow& b) {
  return std::tie(a.n, a.hash, a.min, a.max, a.mean, a.abs_sum, a.nan, a.inf, a.nz_count) ==
             std::tie(b.n, b.hash, b.min, b.max, b.mean, b.abs_sum, b.nan, b.inf, b.nz_count) &&
         (a.flags & kFlagNonfiniteStatistic) == (b.flags & kFlagNonfiniteStatistic) &&
         same_bytes(a.sample, b.sample);
}

/// By key, then line: compared field by field, for almost every batch arrives in order.
bool before(const TraceRow* a, const TraceRow* b) {
  if (a->run_id != b->run_id) return a->run_id < b->run_id;
  if (a->prompt_id != b->prompt_id) return a->prompt_id < b->prompt_id;
  if (a->side != b->side) return a->side < b->side;
  if (a->pos_id != b->pos_id) return a->pos_id < b->pos_id;
  if (a->layer != b->layer) return a->layer < b->layer;
  if (a->tensor_id != b->tensor_id) return a->tensor_id < b->tensor_id;
  return std::tie(a->phase_id, a->step, a->name_id, a->line) <
         std::tie(b->phase_id, b->step, b->name_id, b->line);
}

std::string beyond_limit(const char* what, int64_t value) {
  return std::string(what) + " " + std::to_string(value) + " is beyond what a trace row can hold";
}

}  // namespace

/// A prepared statement on the hot path: binds in order, no checks per value.
struct TraceWriter::Statement {
  Statement(SQLite::Database& db, const std::string& sql) : handle_(db.getHandle()) {
    if (sqlite3_prepare_v3(handle_, sql.c_str(), static_cast<int>(sql.size()),
                           SQLITE_PREPARE_PERSISTENT, &statement_, nullptr) != SQLITE_OK) {
      throw SQLite::Exception(handle_);
    }
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void bind(int64_t value) { sqlite3_bind_int64(statement_, ++at_, value); }
  void bind(double value) { sqlite3_bind_double(statement_, ++at_, value); }
  void bind_null() { sqlite3_bind_null(statement_, ++at_); }
  void bind(const std::optional<int64_t>& value) { value ? bind(*value) : bind_null(); }
  void bind(const std::optional<double>& value) { value ? bind(*value) : bind_null(); }
  void bind(const std::optional<std::string>& value) {
    if (!value) return bind_null();
    sqlite3_bind_text64(statement_, ++at_, value->data(), value->size(), SQLITE_STATIC, SQLITE_UTF8);
  }
  void bind_blob(std::span<const float> values) {
    sqlite3_bind_blob64(statement_, ++at_, values.data(), values.size_bytes(), SQLITE_STATIC);
  }
  void bind_key(const TraceRow& row) {
    for (int64_t value : {row.run_id, row.prompt_id, static_cast<int64_t>(row.side), row.pos_id,
                          row.layer, row.tensor_id, row.phase_id, row.step, row.name_id,
                          row.occurrence}) {
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
  sqlite3_stmt* get() { return statement_; }

 private:
  sqlite3* handle_;
  sqlite3_stmt* statement_ = nullptr;
  int at_ = 0;
};

/// What the table-valued functions read: lives as long as the connection may look at it.
struct TraceWriter::Batch {
  Batch() {
    rows.columns = kColumns;
    rows.column_of = row_column;
    sketches.columns = "id, n, derived, sum_sq";
    for (int i = 0; i < 32; ++i) sketches.columns += ", s" + std::to_string(i);
    sketches.column_of = sketch_column;
  }
  RowTable rows;
  SketchTable sketches;
  /// Of the functions: each writer of a connection has its own.
  const std::string number = std::to_string(next_number++);
  const std::string row_function = "trace_row_batch_" + number;
  const std::string sketch_function = "sketch_batch_" + number;
  static inline std::atomic<int64_t> next_number = 0;
};

TraceWriter::TraceWriter(SQLite::Database& db) : db_(db), batch_(std::make_unique<Batch>()) {
  add_function(batch_->row_function, &batch_->rows);
  add_function(batch_->sketch_function, &batch_->sketches);
  auto prepare = [&db](const std::string& sql) { return std::make_unique<Statement>(db, sql); };
  insert_ = prepare(std::string("INSERT OR IGNORE INTO trace_row(") + kColumns +
                    ") SELECT * FROM " + batch_->row_function);
  find_ = prepare(std::string("SELECT n, hash, min, max, mean, abs_sum, nan, inf, nz_count, flags,"
                              " vector_id, source_id, line,"
                              " (SELECT data FROM sample WHERE id = vector_id)"
                              " FROM trace_row WHERE ") + kKeyMatch);
  repeat_ = prepare(
      "INSERT INTO trace_repeat VALUES (?,?,?,?,?,?,?,?,?,?,1)"
      " ON CONFLICT DO UPDATE SET count = count + 1");
  sketch_ = prepare("INSERT INTO sketch SELECT * FROM " + batch_->sketch_function);
  sample_ = prepare("INSERT INTO sample VALUES (?,?,?)");
  context_ = prepare("INSERT INTO row_context VALUES (NULL,?,?,?,?,?,?,?,?,?,?,?,?)");
}

TraceWriter::~TraceWriter() {
  insert_.reset();  // before the functions that they read from
  sketch_.reset();
  for (const std::string& name : {batch_->row_function, batch_->sketch_function}) {
    sqlite3_create_module(db_.getHandle(), name.c_str(), nullptr, nullptr);
  }
}

void TraceWriter::add_function(const std::string& name, const void* table) {
  if (sqlite3_create_module(db_.getHandle(), name.c_str(), &batch_module(),
                            const_cast<void*>(table)) != SQLITE_OK) {
    throw SQLite::Exception(db_.getHandle());
  }
}

void TraceWriter::forget() {
  prompts_.clear();
  phases_.clear();
  tensors_.clear();
  last_vector_id_ = -1;
}

int64_t TraceWriter::prompt_id(int64_t run_id, std::string_view name) {
  std::pair<int64_t, std::string> wanted{run_id, std::string(name)};
  if (auto it = prompts_.find(wanted); it != prompts_.end()) return it->second;
  SQLite::Statement insert(db_, "INSERT OR IGNORE INTO prompt(run_id, name) VALUES (?, ?)");
  insert.bind(1, run_id);
  insert.bind(2, wanted.second);
  insert.exec();
  SQLite::Statement query(db_, "SELECT id FROM prompt WHERE run_id = ? AND name = ?");
  query.bind(1, run_id);
  query.bind(2, wanted.second);
  query.executeStep();
  return prompts_[std::move(wanted)] = query.getColumn(0).getInt64();
}

PhaseId TraceWriter::phase_id(std::string_view name) {
  std::string text(name);
  if (auto it = phases_.find(text); it != phases_.end()) return it->second;
  SQLite::Statement insert(
      db_,
      "INSERT OR IGNORE INTO phase(name, side) VALUES (?1, CASE WHEN ?1 GLOB 'prefill*' THEN 0"
      " WHEN ?1 GLOB 'decode*' THEN 1 ELSE 2 END)");
  insert.bind(1, text);
  insert.exec();
  SQLite::Statement query(db_, "SELECT id, side FROM phase WHERE name = ?");
  query.bind(1, text);
  query.executeStep();
  return phases_[std::move(text)] = {query.getColumn(0).getInt64(),
                                     static_cast<Side>(query.getColumn(1).getInt())};
}

TensorId TraceWriter::tensor_id(std::string_view name) {
  std::string text(name);
  if (auto it = tensors_.find(text); it != tensors_.end()) return it->second;
  SQLite::Statement query(db_, "SELECT id, tensor_id FROM tensor_name WHERE name = ?");
  query.bind(1, text);
  if (!query.executeStep()) {
    int64_t id = db_.execAndGet("SELECT max(id) + 1 FROM tensor").getInt64();
    id = std::max(id, kFirstUnknownTensor);
    if (id > kMaxTensor) throw std::invalid_argument("more tensor names than a database can hold");
    SQLite::Statement tensor(db_, "INSERT INTO tensor(id, ord, name, stage) VALUES (?, ?, ?, 'unknown')");
    tensor.bind(1, id);
    tensor.bind(2, id);
    tensor.bind(3, text);
    tensor.exec();
    std::string cause = text + "_DRIFT";
    for (char& c : cause) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    SQLite::Statement insert(db_, "INSERT INTO tensor_name(name, tensor_id, cause) VALUES (?, ?, ?)");
    insert.bind(1, text);
    insert.bind(2, id);
    insert.bind(3, cause);
    insert.exec();
    query.reset();
    query.executeStep();
  }
  return tensors_[std::move(text)] = {query.getColumn(0).getInt64(), query.getColumn(1).getInt64()};
}

int64_t TraceWriter::add_context(const RowContext& c) {
  context_->bind(c.route);
  context_->bind(c.src_kind);
  context_->bind(c.phase_raw);
  for (const auto& value : {c.seq_len, c.tokens_total, c.token_index, c.kv_pos, c.stride_elems,
                            c.alloc_bytes, c.prompt_tokens, c.decode_step}) {
    context_->bind(value);
  }
  context_->bind(c.extra);
  context_->run();
  return sqlite3_last_insert_rowid(db_.getHandle());
}

WriteCounts TraceWriter::write(std::span<TraceRow> rows) {
  WriteCounts counts;
  if (rows.empty()) return counts;
  std::vector<TraceRow*> order;
  order.reserve(rows.size());
  for (TraceRow& row : rows) {
    if (row.pos_id < -1 || row.pos_id > kMaxPosition) {
      throw std::invalid_argument(beyond_limit("position", row.pos_id));
    }
    if (row.layer < -1 || row.layer > kMaxLayer) {
      throw std::invalid_argument(beyond_limit("layer", row.layer));
    }
    row.occurrence = 0;
    order.push_back(&row);
  }
  if (!std::is_sorted(order.begin(), order.end(), before)) {
    std::stable_sort(order.begin(), order.end(), before);
  }
  last_vector_id_ = -1;  // another connection may have written since
  batch_->sketches.sketches.clear();  // of a call that threw
  int64_t last_run = -1;
  std::vector<int64_t> vectors(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i]->sketch || !order[i]->sample.empty()) vectors[i] = next_vector_id();
    if (order[i]->run_id == last_run) continue;
    last_run = order[i]->run_id;
    SQLite::Statement clear(db_, "UPDATE run SET tally = NULL WHERE id = ? AND tally IS NOT NULL");
    clear.bind(1, last_run);
    clear.exec();
  }

  if (insert(order, vectors) == order.size()) {
    for (size_t i = 0; i < order.size(); ++i) store_vector(*order[i], vectors[i]);
    insert_sketches();
    counts.inserted += static_cast<int64_t>(order.size());
  } else {
    for (size_t i = 0; i < order.size(); ++i) place(*order[i], vectors[i], counts);
    insert_sketches();
  }
  return counts;
}

/// Inserts the rows whose key is free; returns how many.
size_t TraceWriter::insert(std::span<TraceRow* const> rows, std::span<const int64_t> vectors) {
  batch_->rows.rows = rows;
  batch_->rows.vectors = vectors;
  batch_->rows.size = rows.size();
  insert_->run();
  return static_cast<size_t>(sqlite3_changes(db_.getHandle()));
}

/// Settles a row of a batch that met rows with the same keys: it was stored just now, is a
/// duplicate, or becomes a further occurrence.
void TraceWriter::place(TraceRow& row, int64_t vector_id, WriteCounts& counts) {
  enum { kFree, kMine, kSame, kOther } found = kOther;
  for (;; ++row.occurrence) {
    find_->bind_key(row);
    if (!find_->step()) {
      found = kFree;
    } else {
      sqlite3_stmt* s = find_->get();
      auto integer = [s](int i) -> std::optional<int64_t> {
        if (sqlite3_column_type(s, i) == SQLITE_NULL) return std::nullopt;
        return sqlite3_column_int64(s, i);
      };
      auto real = [s](int i) -> std::optional<double> {
        if (sqlite3_column_type(s, i) == SQLITE_NULL) return std::nullopt;
        return sqlite3_column_double(s, i);
      };
      TraceRow there;
      there.n = integer(0);
      if (auto hash = integer(1)) there.hash = static_cast<uint64_t>(*hash);
      there.min = real(2);
      there.max = real(3);
      there.mean = real(4);
      there.abs_sum = real(5);
      there.nan = integer(6);
      there.inf = integer(7);
      there.nz_count = integer(8);
      there.flags = static_cast<int>(*integer(9));
      std::vector<float> sample(static_cast<size_t>(sqlite3_column_bytes(s, 13)) / sizeof(float));
      if (!sample.empty()) {
        std::memcpy(sample.data(), sqlite3_column_blob(s, 13), sample.size() * sizeof(float));
      }
      there.sample = sample;
      // No line gives one key twice, so source and line tell this row from any other.
      bool mine = *integer(11) == row.source_id && *integer(12) == row.line;
      found = mine ? kMine : same_content(there, row) ? kSame : kOther;
    }
    find_->reset();
    if (found != kOther) break;
  }
  if (found == kSame) {
    ++counts.duplicates;
    return count_repeat(row);
  }
  if (found == kFree) {
    TraceRow* one = &row;
    insert({&one, 1}, {&vector_id, 1});
  }
  store_vector(row, vector_id);
  ++counts.inserted;
  if (row.occurrence > 0) counts.conflict_lines.push_back(row.line);
}

void TraceWriter::count_repeat(const TraceRow& row) {
  repeat_->bind_key(row);
  repeat_->run();
}

void TraceWriter::store_vector(const TraceRow& row, int64_t vector_id) {
  if (vector_id == 0) return;
  if (row.sketch) batch_->sketches.sketches.emplace_back(vector_id, row.sketch);
  if (!row.sample.empty()) {
    sample_->bind(vector_id);
    sample_->bind(static_cast<int64_t>(row.sample.size()));
    sample_->bind_blob(row.sample);
    sample_->run();
  }
}

/// Inserts the sketches that store_vector left.
void TraceWriter::insert_sketches() {
  SketchTable& table = batch_->sketches;
  table.size = table.sketches.size();
  if (table.size > 0) sketch_->run();
  table.sketches.clear();
}

int64_t TraceWriter::next_vector_id() {
  if (last_vector_id_ < 0) {
    last_vector_id_ =
        db_.execAndGet("SELECT max((SELECT ifnull(max(id), 0) FROM sketch),"
                       " (SELECT ifnull(max(id), 0) FROM sample))").getInt64();
  }
  return ++last_vector_id_;
}

}  // namespace greta
