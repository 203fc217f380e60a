#include "db/trace_writer.h"

#include <algorithm>
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
constexpr int kColumnCount = 28;
constexpr const char* kKeyMatch =
    "run_id = ?1 AND prompt_id = ?2 AND side = ?3 AND pos_id = ?4 AND layer = ?5"
    " AND tensor_id = ?6 AND phase_id = ?7 AND step = ?8 AND name_id = ?9 AND occurrence = ?10";
/// Rows per INSERT: the statement's fixed cost is paid once for all of them.
constexpr size_t kRowsPerInsert = 16;
/// Ids of names that greta does not know start here, far above the built-in trace points.
constexpr int64_t kFirstUnknownTensor = 1000;
constexpr int64_t kMaxTensor = 65'534;

std::string insert_sql(size_t rows) {
  std::string one = "(?";
  for (int i = 1; i < kColumnCount; ++i) one += ",?";
  one += ")";
  std::string sql = std::string("INSERT OR IGNORE INTO trace_row(") + kColumns + ") VALUES " + one;
  for (size_t i = 1; i < rows; ++i) sql += "," + one;
  return sql;
}

auto key(const TraceRow& r) {
  return std::tie(r.run_id, r.prompt_id, r.side, r.pos_id, r.layer, r.tensor_id, r.phase_id, r.step,
                  r.name_id);
}

bool same_bytes(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

/// Content: what makes two rows under one key the same observation. Doubles here are never NaN.
bool same_content(const TraceRow& a, const TraceRow& b) {
  return std::tie(a.n, a.hash, a.min, a.max, a.mean, a.abs_sum, a.nan, a.inf, a.nz_count) ==
             std::tie(b.n, b.hash, b.min, b.max, b.mean, b.abs_sum, b.nan, b.inf, b.nz_count) &&
         (a.flags & kFlagNonfiniteStatistic) == (b.flags & kFlagNonfiniteStatistic) &&
         same_bytes(a.sample, b.sample);
}

std::string quoted_limit(const char* what, int64_t value) {
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

TraceWriter::TraceWriter(SQLite::Database& db) : db_(db) {
  auto prepare = [&db](const std::string& sql) { return std::make_unique<Statement>(db, sql); };
  insert_many_ = prepare(insert_sql(kRowsPerInsert));
  insert_one_ = prepare(insert_sql(1));
  find_ = prepare(std::string("SELECT n, hash, min, max, mean, abs_sum, nan, inf, nz_count, flags,"
                              " vector_id, source_id, line,"
                              " (SELECT data FROM sample WHERE id = vector_id)"
                              " FROM trace_row WHERE ") + kKeyMatch);
  repeat_ = prepare(
      "INSERT INTO trace_repeat VALUES (?,?,?,?,?,?,?,?,?,?,1)"
      " ON CONFLICT DO UPDATE SET count = count + 1");
  std::string sketch = "INSERT INTO sketch VALUES (?,?,?,?";
  for (int i = 0; i < 32; ++i) sketch += ",?";
  sketch_ = prepare(sketch + ")");
  sample_ = prepare("INSERT INTO sample VALUES (?,?,?)");
  context_ = prepare("INSERT INTO row_context VALUES (NULL,?,?,?,?,?,?,?,?,?,?,?,?)");
}

TraceWriter::~TraceWriter() = default;

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
  std::vector<TraceRow*> order;
  order.reserve(rows.size());
  for (TraceRow& row : rows) {
    if (row.pos_id < -1 || row.pos_id > kMaxPosition) {
      throw std::invalid_argument(quoted_limit("position", row.pos_id));
    }
    if (row.layer < -1 || row.layer > kMaxLayer) {
      throw std::invalid_argument(quoted_limit("layer", row.layer));
    }
    row.occurrence = 0;
    order.push_back(&row);
  }
  auto before = [](const TraceRow* a, const TraceRow* b) {
    return std::tuple_cat(key(*a), std::tie(a->line)) < std::tuple_cat(key(*b), std::tie(b->line));
  };
  if (!std::is_sorted(order.begin(), order.end(), before)) {
    std::stable_sort(order.begin(), order.end(), before);
  }

  int64_t last_run = -1;
  std::vector<TraceRow*> batch;
  batch.reserve(kRowsPerInsert);
  for (TraceRow* row : order) {
    if (row->run_id != last_run) {
      last_run = row->run_id;
      SQLite::Statement clear(db_, "UPDATE run SET tally = NULL WHERE id = ? AND tally IS NOT NULL");
      clear.bind(1, last_run);
      clear.exec();
    }
    // Two rows of one key never share an INSERT: the second is placed by what the first left.
    if (!batch.empty() && key(*batch.back()) == key(*row)) {
      insert_batch(batch, counts);
      batch.clear();
    }
    batch.push_back(row);
    if (batch.size() == kRowsPerInsert) {
      insert_batch(batch, counts);
      batch.clear();
    }
  }
  insert_batch(batch, counts);
  return counts;
}

void TraceWriter::bind_row(Statement& s, const TraceRow& row, int64_t vector_id) {
  s.bind_key(row);
  s.bind(row.token_id);
  s.bind(row.logical_tok_idx);
  s.bind(row.n);
  row.hash ? s.bind(static_cast<int64_t>(*row.hash)) : s.bind_null();
  s.bind(row.min);
  s.bind(row.max);
  s.bind(row.mean);
  s.bind(row.abs_sum);
  s.bind(row.nan);
  s.bind(row.inf);
  s.bind(row.nz_count);
  s.bind(int64_t{row.flags});
  vector_id ? s.bind(vector_id) : s.bind_null();
  s.bind(row.ptr);
  s.bind(row.offset_bytes);
  s.bind(row.context_id);
  s.bind(row.source_id);
  s.bind(row.line);
}

void TraceWriter::insert_batch(std::span<TraceRow*> rows, WriteCounts& counts) {
  std::array<int64_t, kRowsPerInsert> vectors{};
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i]->sketch || !rows[i]->sample.empty()) vectors[i] = next_vector_id();
  }
  if (rows.size() == kRowsPerInsert) {
    for (size_t i = 0; i < rows.size(); ++i) bind_row(*insert_many_, *rows[i], vectors[i]);
    insert_many_->run();
    if (sqlite3_changes(db_.getHandle()) == static_cast<int>(kRowsPerInsert)) {
      for (size_t i = 0; i < rows.size(); ++i) store_vector(*rows[i], vectors[i]);
      counts.inserted += static_cast<int64_t>(rows.size());
      return;
    }
  }
  for (size_t i = 0; i < rows.size(); ++i) place(*rows[i], vectors[i], counts);
}

void TraceWriter::place(TraceRow& row, int64_t vector_id, WriteCounts& counts) {
  for (;; ++row.occurrence) {
    bind_row(*insert_one_, row, vector_id);
    insert_one_->run();
    bool inserted = sqlite3_changes(db_.getHandle()) == 1;
    if (!inserted) {
      find_->bind_key(row);
      find_->step();
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
      if (!sample.empty()) std::memcpy(sample.data(), sqlite3_column_blob(s, 13), sample.size() * sizeof(float));
      there.sample = sample;
      // Already stored by the 16-row INSERT that ended in this call: no line gives one key twice.
      inserted = *integer(11) == row.source_id && *integer(12) == row.line;
      bool repeats = !inserted && same_content(there, row);
      find_->reset();
      if (repeats) {
        ++counts.duplicates;
        return count_repeat(row);
      }
    }
    if (inserted) {
      store_vector(row, vector_id);
      ++counts.inserted;
      if (row.occurrence > 0) counts.conflict_lines.push_back(row.line);
      return;
    }
  }
}

void TraceWriter::count_repeat(const TraceRow& row) {
  repeat_->bind_key(row);
  repeat_->run();
}

void TraceWriter::store_vector(const TraceRow& row, int64_t vector_id) {
  if (vector_id == 0) return;
  if (row.sketch) {
    sketch_->bind(vector_id);
    sketch_->bind(row.sketch->n);
    sketch_->bind(int64_t{row.sketch->derived});
    sketch_->bind(row.sketch->sum_sq);
    for (double bucket : row.sketch->bucket) sketch_->bind(bucket);
    sketch_->run();
  }
  if (!row.sample.empty()) {
    sample_->bind(vector_id);
    sample_->bind(static_cast<int64_t>(row.sample.size()));
    sample_->bind_blob(row.sample);
    sample_->run();
  }
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
