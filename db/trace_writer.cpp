#include "db/trace_writer.h"

#include <sqlite3.h>

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "db/crowd.h"
#include "db/kept_tally.h"
#include "db/row_statement.h"
#include "db/trace_batch.h"

namespace greta {
namespace {

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

/// Batches before the statements that read from them: members go in reverse order.
struct TraceWriter::Statements {
  explicit Statements(SQLite::Database& db) : rows(db), sketches(db), db_(db) {}

  TraceRowBatch rows;
  SketchBatch sketches;

 private:
  SQLite::Database& db_;

 public:
  RowStatement insert{
      db_, "INSERT OR IGNORE INTO trace_row(" + kTraceColumns + ") SELECT * FROM " + rows.name()};
  RowStatement sketch{db_, "INSERT INTO sketch SELECT * FROM " + sketches.name()};
  RowStatement sample{db_, "INSERT INTO sample VALUES (?, ?, ?)"};
  RowStatement context{db_, "INSERT INTO row_context(" + std::string(kContextColumns) +
                                ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"};
  RowStatement position{
      db_,
      "INSERT INTO traced_position VALUES (?1, ?2, ?3, ?4,"
      " ?5 = (SELECT id FROM phase WHERE name = 'prefill_last'))"
      " ON CONFLICT DO UPDATE SET demands = 1 WHERE excluded.demands AND NOT demands"};
  Crowd crowd{db_};
  /// Whether the second of two sources comes before the first.
  RowStatement source_precedes{
      db_,
      "SELECT ifnull((SELECT min(path) FROM source_location WHERE source_id = ?2), '')"
      " < ifnull((SELECT min(path) FROM source_location WHERE source_id = ?1), '')"};
  RowStatement take_over{db_,
                         "UPDATE trace_row SET flags = ?8, ptr = ?9, offset_bytes = ?10,"
                         " context_id = ?11, source_id = ?12, line = ?13, vector_id = ?14 WHERE " +
                             std::string(kPlaceMatch) + " AND nth = ?7"};
  RowStatement passed_on{db_, "UPDATE source SET duplicates = duplicates + 1 WHERE id = ?"};
  RowStatement has_sketch{db_, "SELECT 1 FROM sketch WHERE id = ?"};
  RowStatement drop_sketch{db_, "DELETE FROM sketch WHERE id = ?"};
  RowStatement repeat{db_,
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
  RowStatement& insert = statements_->context;
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
    const std::span<TraceRow* const> all(order);
    for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
      while (end < order.size() && Crowd::may_meet(*order[begin], *order[end])) ++end;
      place(all.subspan(begin, end - begin), std::span(vectors).subspan(begin, end - begin),
            counts);
    }
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
    RowStatement& insert = statements_->position;
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

/// Settles rows of one place of which some met others there: each was stored just now, is a
/// duplicate, or becomes a further row.
void TraceWriter::place(std::span<TraceRow* const> rows, std::span<const int64_t> vectors,
                        WriteCounts& counts) {
  Crowd& crowd = statements_->crowd;
  crowd.read(rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    TraceRow& row = *rows[i];
    const Crowd::Member* there = crowd.find(row);
    const bool is_mine =
        there && there->row.source_id == row.source_id && there->row.line == row.line;
    if (there && !is_mine) {
      repeat(row, vectors[i], *there, counts);
      continue;
    }
    if (!there) {
      if (crowd.has_key(row)) counts.conflict_lines.push_back(row.line);
      crowd.add(row, vectors[i]);
      insert(rows.subspan(i, 1), vectors.subspan(i, 1));
    }
    store_vector(row, vectors[i]);
    ++counts.inserted;
  }
  crowd.set_in_order();
}

/// Counts a row that is there already, which is of this source from now on if that comes first.
void TraceWriter::repeat(const TraceRow& row, int64_t vector_id, const Crowd::Member& there,
                         WriteCounts& counts) {
  ++counts.duplicates;
  statements_->repeat.bind_place(row);
  statements_->repeat.bind(there.row.nth);
  statements_->repeat.run();
  if (precedes(row, there)) {
    ++counts.taken_over;
    take_over(row, vector_id, there);
  }
}

/// Of equal rows that stands which is no mere claim, has a sketch, and is of the first path.
bool TraceWriter::precedes(const TraceRow& row, const Crowd::Member& there) {
  const auto is_claim = [](const TraceRow& r) { return (r.flags & kFlagClaimed) != 0; };
  if (is_claim(row) != is_claim(there.row)) return is_claim(there.row);
  insert_sketches();
  if (const bool sketched = has_sketch(there.vector_id); sketched != (row.sketch != nullptr)) {
    return !sketched;
  }
  if (row.source_id == there.row.source_id) return false;
  RowStatement& s = statements_->source_precedes;
  s.bind(there.row.source_id);
  s.bind(row.source_id);
  s.step();
  const bool first = s.integer(0) != 0;
  s.reset();
  return first;
}

bool TraceWriter::has_sketch(std::optional<int64_t> vector_id) {
  if (!vector_id) return false;
  statements_->has_sketch.bind(*vector_id);
  const bool found = statements_->has_sketch.step();
  statements_->has_sketch.reset();
  return found;
}

/// A row as this source has it.
void TraceWriter::take_over(const TraceRow& row, int64_t vector_id, const Crowd::Member& there) {
  std::optional<int64_t> vector = there.vector_id;
  if (row.sketch) {
    if (!vector) vector = vector_id;
    statements_->drop_sketch.bind(*vector);
    statements_->drop_sketch.run();
    statements_->sketches.sketches.emplace_back(*vector, row.sketch);
    insert_sketches();
  }
  RowStatement& s = statements_->take_over;
  s.bind_place(row);
  s.bind(there.row.nth);
  s.bind(int64_t{row.flags});
  for (const auto& value : {row.ptr, row.offset_bytes, row.context_id}) s.bind(value);
  s.bind(row.source_id);
  s.bind(row.line);
  s.bind(vector);
  s.run();
  statements_->passed_on.bind(there.row.source_id);
  statements_->passed_on.run();
  statements_->crowd.take_over(row, vector);
}

void TraceWriter::store_vector(const TraceRow& row, int64_t vector_id) {
  if (vector_id == 0) return;
  if (row.sketch) statements_->sketches.sketches.emplace_back(vector_id, row.sketch);
  if (!row.sample.empty()) {
    RowStatement& sample = statements_->sample;
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
