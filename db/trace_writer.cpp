#include "db/trace_writer.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <tuple>

#include "db/kept_tally.h"
#include "db/trace_batch.h"

namespace greta {
namespace {

constexpr const char* kPlaceMatch =
    "run_id = ?1 AND prompt_id = ?2 AND side = ?3 AND pos_id = ?4 AND layer = ?5 AND tensor_id = "
    "?6";

bool same_bytes(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
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

void check_limits(const TraceRow& row) {
  if (row.pos_id < -1 || row.pos_id > kMaxPosition) {
    throw std::invalid_argument(beyond_limit("position", row.pos_id));
  }
  if (row.layer < -1 || row.layer > kMaxLayer) {
    throw std::invalid_argument(beyond_limit("layer", row.layer));
  }
}

}  // namespace

bool same_content(const TraceRow& a, const TraceRow& b) {
  return std::tie(a.n, a.hash, a.min, a.max, a.mean, a.abs_sum, a.nan, a.inf, a.nz_count) ==
             std::tie(b.n, b.hash, b.min, b.max, b.mean, b.abs_sum, b.nan, b.inf, b.nz_count) &&
         (a.flags & kFlagNonfiniteStatistic) == (b.flags & kFlagNonfiniteStatistic) &&
         same_bytes(a.sample, b.sample);
}

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
  void bind(const std::optional<std::string>& value) {
    if (!value) return bind_null();
    sqlite3_bind_text64(statement_, ++at_, value->data(), value->size(), SQLITE_STATIC,
                        SQLITE_UTF8);
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

  bool is_null(int i) { return sqlite3_column_type(statement_, i) == SQLITE_NULL; }
  int64_t integer(int i) { return sqlite3_column_int64(statement_, i); }
  std::optional<int64_t> maybe_integer(int i) {
    return is_null(i) ? std::nullopt : std::optional(integer(i));
  }
  std::optional<double> maybe_real(int i) {
    return is_null(i) ? std::nullopt : std::optional(sqlite3_column_double(statement_, i));
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
  sqlite3* handle_;
  sqlite3_stmt* statement_ = nullptr;
  int at_ = 0;
};

/// Batches before the statements that read from them: members go in reverse order.
struct TraceWriter::Statements {
  explicit Statements(SQLite::Database& db) : rows(db), sketches(db), db_(db) {}

  TraceRowBatch rows;
  SketchBatch sketches;

 private:
  SQLite::Database& db_;

  static std::string find_sql(const char* known_position) {
    return "SELECT nth, phase_id, step, name_id, source_id, line,"
           " (SELECT data FROM sample WHERE id = vector_id), " +
           std::string(kContentColumns) + " FROM trace_row WHERE " + kPlaceMatch + known_position +
           " ORDER BY nth";
  }

 public:
  Statement insert{
      db_, "INSERT OR IGNORE INTO trace_row(" + kTraceColumns + ") SELECT * FROM " + rows.name()};
  Statement sketch{db_, "INSERT INTO sketch SELECT * FROM " + sketches.name()};
  Statement sample{db_, "INSERT INTO sample VALUES (?, ?, ?)"};
  Statement context{db_, "INSERT INTO row_context(" + std::string(kContextColumns) +
                             ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"};
  Statement position{
      db_,
      "INSERT INTO traced_position VALUES (?1, ?2, ?3, ?4,"
      " ?5 = (SELECT id FROM phase WHERE name = 'prefill_last'))"
      " ON CONFLICT DO UPDATE SET demands = 1 WHERE excluded.demands AND NOT demands"};
  Statement find{db_, find_sql("")};
  /// Where the position is unknown a place holds all steps of a run: an index finds those of one.
  Statement find_unplaced{db_, find_sql(" AND pos_id = -1 AND step = ?7")};
  Statement last{db_, "SELECT max(nth) FROM trace_row WHERE " + std::string(kPlaceMatch)};
  Statement crowd{db_, "UPDATE trace_row SET crowded = 1 WHERE " + std::string(kPlaceMatch) +
                           " AND nth = 0 AND NOT crowded"};
  Statement take_over{db_,
                      "UPDATE trace_row SET flags = ?8 | flags & 1, ptr = ?9, offset_bytes = ?10,"
                      " context_id = ?11, source_id = ?12, line = ?13 WHERE " +
                          std::string(kPlaceMatch) + " AND nth = ?7"};
  Statement repeat{db_,
                   "INSERT INTO trace_repeat VALUES (?, ?, ?, ?, ?, ?, ?, 1)"
                   " ON CONFLICT DO UPDATE SET count = count + 1"};
};

TraceWriter::TraceWriter(SQLite::Database& db)
    : db_(db), dictionary_(db), statements_(std::make_unique<Statements>(db)) {}

TraceWriter::~TraceWriter() = default;

void TraceWriter::forget() {
  dictionary_.forget();
  last_vector_id_ = -1;
}

int64_t TraceWriter::add_context(const RowContext& c) {
  Statement& insert = statements_->context;
  insert.bind(c.route);
  insert.bind(c.src_kind);
  insert.bind(c.phase_raw);
  for (const auto& value : {c.seq_len, c.tokens_total, c.token_index, c.kv_pos, c.stride_elems,
                            c.alloc_bytes, c.prompt_tokens, c.decode_step}) {
    insert.bind(value);
  }
  insert.bind(c.extra);
  insert.run();
  return sqlite3_last_insert_rowid(db_.getHandle());
}

WriteCounts TraceWriter::write(std::span<TraceRow> rows) {
  WriteCounts counts;
  if (rows.empty()) return counts;
  std::vector<TraceRow*> order;
  order.reserve(rows.size());
  for (TraceRow& row : rows) {
    check_limits(row);
    row.nth = 0;
    row.crowded = false;
    order.push_back(&row);
  }
  if (!std::is_sorted(order.begin(), order.end(), before)) {
    std::stable_sort(order.begin(), order.end(), before);
  }
  last_vector_id_ = -1;                    // another connection may have written since
  statements_->sketches.sketches.clear();  // of a call that threw
  int64_t last_run = -1;
  std::vector<int64_t> vectors(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i]->sketch || !order[i]->sample.empty()) vectors[i] = next_vector_id();
    if (order[i]->run_id == last_run) continue;
    last_run = order[i]->run_id;
    forget_tally(db_, last_run);
  }
  note_positions(order);

  if (insert(order, vectors) == order.size()) {
    for (size_t i = 0; i < order.size(); ++i) store_vector(*order[i], vectors[i]);
    counts.inserted += static_cast<int64_t>(order.size());
  } else {
    for (size_t i = 0; i < order.size(); ++i) place(*order[i], vectors[i], counts);
  }
  insert_sketches();
  return counts;
}

/// Rows are in order, so those of a position and phase are nearly always neighbours.
void TraceWriter::note_positions(std::span<TraceRow* const> rows) {
  const auto position_of = [](const TraceRow& row) {
    return std::tie(row.run_id, row.prompt_id, row.side, row.pos_id, row.phase_id);
  };
  const TraceRow* noted = nullptr;
  for (const TraceRow* row : rows) {
    if (noted && position_of(*noted) == position_of(*row)) continue;
    noted = row;
    Statement& insert = statements_->position;
    for (int64_t value : {row->run_id, row->prompt_id, static_cast<int64_t>(row->side), row->pos_id,
                          row->phase_id}) {
      insert.bind(value);
    }
    insert.run();
  }
}

/// Inserts the rows whose key is free; returns how many.
size_t TraceWriter::insert(std::span<TraceRow* const> rows, std::span<const int64_t> vectors) {
  statements_->rows.rows = rows;
  statements_->rows.vectors = vectors;
  statements_->insert.run();
  return static_cast<size_t>(sqlite3_changes(db_.getHandle()));
}

/// Which of the rows at a place a row is.
struct TraceWriter::Found {
  bool mine = false;                 ///< stored just now
  std::optional<int64_t> duplicate;  ///< nth of a row with its key and content
  bool was_claimed = false;          ///< that only a document stated so far
  bool has_key = false;              ///< a row with its key has other content
};

TraceWriter::Found TraceWriter::find(const TraceRow& row) {
  const bool placed = row.pos_id != kUnknownPosition;
  Statement& s = placed ? statements_->find : statements_->find_unplaced;
  s.bind_place(row);
  if (!placed) s.bind(row.step);
  Found found;
  while (s.step()) {
    if (s.integer(1) != row.phase_id || s.integer(2) != row.step || s.integer(3) != row.name_id) {
      continue;
    }
    // No line gives one key twice, so source and line tell this row from any other.
    if (s.integer(4) == row.source_id && s.integer(5) == row.line) {
      found.mine = true;
      break;
    }
    const std::vector<float> sample = s.floats(6);
    TraceRow there;
    there.n = s.maybe_integer(7);
    if (auto hash = s.maybe_integer(8)) there.hash = static_cast<uint64_t>(*hash);
    there.min = s.maybe_real(9);
    there.max = s.maybe_real(10);
    there.mean = s.maybe_real(11);
    there.abs_sum = s.maybe_real(12);
    there.nan = s.maybe_integer(13);
    there.inf = s.maybe_integer(14);
    there.nz_count = s.maybe_integer(15);
    there.flags = static_cast<int>(s.integer(16));
    there.sample = sample;
    if (same_content(there, row)) {
      found.duplicate = s.integer(0);
      found.was_claimed = (there.flags & kFlagClaimed) != 0;
      break;
    }
    found.has_key = true;
  }
  s.reset();
  return found;
}

/// Settles a row of a batch that met rows at the same places: it was stored just now, is a
/// duplicate, or becomes a further row there.
void TraceWriter::place(TraceRow& row, int64_t vector_id, WriteCounts& counts) {
  const Found found = find(row);
  if (found.duplicate) {
    ++counts.duplicates;
    statements_->repeat.bind_place(row);
    statements_->repeat.bind(*found.duplicate);
    statements_->repeat.run();
    if (found.was_claimed && !(row.flags & kFlagClaimed)) take_over(row, *found.duplicate);
    return;
  }
  if (!found.mine) {
    Statement& last = statements_->last;
    last.bind_place(row);
    if (last.step() && !last.is_null(0)) {
      row.nth = last.integer(0) + 1;
      row.crowded = true;
    }
    last.reset();
    if (row.crowded) {
      statements_->crowd.bind_place(row);
      statements_->crowd.run();
    }
    TraceRow* one = &row;
    insert({&one, 1}, {&vector_id, 1});
    if (found.has_key) counts.conflict_lines.push_back(row.line);
  }
  store_vector(row, vector_id);
  ++counts.inserted;
}

/// A row that only a document stated is evidence from now on, as this source has it.
void TraceWriter::take_over(const TraceRow& row, int64_t nth) {
  Statement& s = statements_->take_over;
  s.bind_place(row);
  s.bind(nth);
  s.bind(int64_t{row.flags});
  for (const auto& value : {row.ptr, row.offset_bytes, row.context_id}) s.bind(value);
  s.bind(row.source_id);
  s.bind(row.line);
  s.run();
}

void TraceWriter::store_vector(const TraceRow& row, int64_t vector_id) {
  if (vector_id == 0) return;
  if (row.sketch) statements_->sketches.sketches.emplace_back(vector_id, row.sketch);
  if (!row.sample.empty()) {
    Statement& sample = statements_->sample;
    sample.bind(vector_id);
    sample.bind(static_cast<int64_t>(row.sample.size()));
    sample.bind_blob(row.sample);
    sample.run();
  }
}

/// Inserts the sketches that store_vector left.
void TraceWriter::insert_sketches() {
  if (statements_->sketches.size() > 0) statements_->sketch.run();
  statements_->sketches.sketches.clear();
}

int64_t TraceWriter::next_vector_id() {
  if (last_vector_id_ < 0) {
    last_vector_id_ = db_.execAndGet(
                             "SELECT max((SELECT ifnull(max(id), 0) FROM sketch),"
                             " (SELECT ifnull(max(id), 0) FROM sample))")
                          .getInt64();
  }
  return ++last_vector_id_;
}

}  // namespace greta
