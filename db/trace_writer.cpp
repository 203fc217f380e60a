#include "db/trace_writer.h"

#include <sqlite3.h>

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "db/judge.h"
#include "db/row_statement.h"

namespace greta {
namespace {

/// Ids of names that greta does not know start here, far above the built-in trace points. It is
/// also the forward order of all of them, so that it does not depend on which came first.
constexpr int64_t kFirstUnknownTensor = 1000;
constexpr int64_t kMaxTensor = 65'534;
constexpr int64_t kShareOfRun = 16;
/// Prompts beyond are read again.
constexpr size_t kMaxCachedPrompts = 20'000;

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
struct TraceWriter::RowStatements {
  explicit RowStatements(SQLite::Database& db) : rows(db), sketches(db), db_(db) {}

  TraceRowBatch rows;
  SketchBatch sketches;

 private:
  SQLite::Database& db_;

 public:
  RowStatement insert{
      db_, "INSERT OR IGNORE INTO trace_row(" + kTraceColumns + ") SELECT * FROM " + rows.name()};
  RowStatement sketch{db_, "INSERT INTO sketch SELECT * FROM " + sketches.name()};
  RowStatement sample{db_, "INSERT INTO sample VALUES (?, ?, ?)"};
  RowStatement context{
      db_,
      "INSERT INTO row_context(route, src_kind, phase_raw, seq_len, tokens_total, token_index,"
      " kv_pos, stride_elems, alloc_bytes, prompt_tokens, decode_step, extra)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"};
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
                         " context_id = ?11, source_id = ?12, line = ?13, sketch_id = ?14 WHERE " +
                             std::string(kPlaceMatch) + " AND nth = ?7"};
  RowStatement passed_on{db_, "UPDATE source SET duplicates = duplicates + 1 WHERE id = ?"};
  RowStatement repeat{db_,
                      "INSERT INTO trace_repeat VALUES (?, ?, ?, ?, ?, ?, ?, 1)"
                      " ON CONFLICT DO UPDATE SET count = count + 1"};
};

TraceWriter::TraceWriter(SQLite::Database& db) : db_(db), sql_(db) {
  sqlite3_db_config(db.getHandle(), SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  statements_ = std::make_unique<RowStatements>(db);
}

TraceWriter::~TraceWriter() = default;

void TraceWriter::forget() {
  prompts_.clear();
  phases_.clear();
  tensors_.clear();
  sketch_ids_.forget();
  last_id_ = -1;
}

int64_t TraceWriter::prompt_id(int64_t run_id, std::string_view name) {
  std::pair<int64_t, std::string> wanted{run_id, std::string(name)};
  if (auto it = prompts_.find(wanted); it != prompts_.end()) return it->second;
  if (prompts_.size() >= kMaxCachedPrompts) prompts_.clear();
  if (sql_("INSERT OR IGNORE INTO prompt(run_id, name) VALUES (?, ?)", run_id, wanted.second)
          .exec() > 0) {
    forget_verdict(db_, run_id);  // it may have been announced only
  }
  const auto id =
      sql_.find_id("SELECT id FROM prompt WHERE run_id = ? AND name = ?", run_id, wanted.second);
  return prompts_[std::move(wanted)] = id.value();
}

PhaseId TraceWriter::phase_id(std::string_view name) {
  std::string text(name);
  if (auto it = phases_.find(text); it != phases_.end()) return it->second;
  sql_(
      "INSERT OR IGNORE INTO phase(name, side) VALUES (?1, CASE WHEN ?1 GLOB 'prefill*' THEN 0"
      " WHEN ?1 GLOB 'decode*' THEN 1 ELSE 2 END)",
      text)
      .exec();
  const auto id = sql_.find_id("SELECT id FROM phase WHERE name = ?", text);
  const auto side = sql_.find_id("SELECT side FROM phase WHERE name = ?", text);
  return phases_[std::move(text)] = {id.value(), static_cast<Side>(side.value())};
}

TensorId TraceWriter::tensor_id(std::string_view name) {
  std::string text(name);
  if (auto it = tensors_.find(text); it != tensors_.end()) return it->second;
  auto name_id = sql_.find_id("SELECT id FROM tensor_name WHERE name = ?", text);
  if (!name_id) {
    const int64_t id =
        std::max(db_.execAndGet("SELECT max(id) + 1 FROM tensor").getInt64(), kFirstUnknownTensor);
    if (id > kMaxTensor) throw std::invalid_argument("more tensor names than a database can hold");
    sql_("INSERT INTO tensor(id, ord, name, stage) VALUES (?, ?, ?, 'unknown')", id,
         kFirstUnknownTensor, text)
        .exec();
    sql_("INSERT INTO tensor_name(name, tensor_id, cause) VALUES (?1, ?2, upper(?1) || '_DRIFT')",
         text, id)
        .exec();
    name_id = db_.getLastInsertRowid();
  }
  const auto tensor_id = sql_.find_id("SELECT tensor_id FROM tensor_name WHERE id = ?", *name_id);
  return tensors_[std::move(text)] = {*name_id, tensor_id.value()};
}

std::optional<TensorId> TraceWriter::tensor_id_of_run(int64_t run_id, std::string_view name) {
  const std::string text(name);
  if (tensors_.contains(text) || sql_.find_id("SELECT id FROM tensor_name WHERE name = ?", text)) {
    return tensor_id(name);
  }
  auto [left, is_first] = names_left_.try_emplace(run_id);
  if (is_first) {
    const int64_t last = db_.execAndGet("SELECT max(id) FROM tensor").getInt64();
    left->second = (kMaxTensor - std::max(last, kFirstUnknownTensor - 1)) / kShareOfRun;
  }
  if (left->second <= 0) return std::nullopt;
  --left->second;
  return tensor_id(name);
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
    order.push_back(&row);
  }
  if (!std::is_sorted(order.begin(), order.end(), before)) {
    std::stable_sort(order.begin(), order.end(), before);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || order[i]->run_id != order[i - 1]->run_id) forget_verdict(db_, order[i]->run_id);
  }
  identify(order);
  note_positions(order);

  if (insert(order, 0, order.size()) == order.size()) {
    for (size_t i = 0; i < order.size(); ++i) store_sample_and_sketch(*order[i], i);
    counts.inserted += static_cast<int64_t>(order.size());
  } else {
    for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
      while (end < order.size() && Crowd::may_meet(*order[begin], *order[end])) ++end;
      place(order, begin, end - begin, counts);
    }
  }
  insert_sketches();
  note_sketches(order);
  return counts;
}

/// Sets ids_, sketches_ and owners_. A new sketch has the number of the row of this call that was
/// the first to have it, from -1 downwards.
void TraceWriter::identify(std::span<TraceRow* const> rows) {
  last_id_ = -1;                           // another connection may have written since
  statements_->sketches.sketches.clear();  // of a call that threw
  if (std::exchange(is_writing_, true)) sketch_ids_.forget();
  ids_.assign(rows.size(), {});
  sketches_.resize(rows.size());
  owners_.assign(rows.size(), kStored);
  is_stored_.assign(rows.size(), false);
  new_.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    const TraceRow& row = *rows[i];
    if (!row.sample.empty()) ids_[i].sample = next_id();
    if (row.sketch == nullptr) continue;
    sketches_[i] = stored_form(*row.sketch);
    int64_t& known = sketch_ids_.of(row.run_id, sketches_[i]);
    if (known == 0) {
      known = -1 - static_cast<int64_t>(i);
      ids_[i].sketch = next_id();
      new_.push_back(i);
    }
    if (known < 0) owners_[i] = static_cast<size_t>(-1 - known);
    ids_[i].sketch = known < 0 ? ids_[owners_[i]].sketch : known;
  }
}

/// Afterwards, what is known of it is its id, or nothing where it was not stored.
void TraceWriter::note_sketches(std::span<TraceRow* const> rows) {
  for (const size_t i : new_) {
    const bool is_there = is_stored_[i] || owners_[i] == kStored;
    sketch_ids_.of(rows[i]->run_id, sketches_[i]) = is_there ? ids_[i].sketch : 0;
  }
  is_writing_ = false;
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

/// Inserts the n rows from `first` on whose key is free; returns how many.
size_t TraceWriter::insert(std::span<TraceRow* const> rows, size_t first, size_t n) {
  statements_->rows.rows = rows.subspan(first, n);
  statements_->rows.ids = std::span(ids_).subspan(first, n);
  statements_->insert.run();
  return static_cast<size_t>(sqlite3_changes(db_.getHandle()));
}

/// Settles n rows of one place of which some met others there: each was stored just now, is a
/// duplicate, or becomes a further row.
void TraceWriter::place(std::span<TraceRow* const> rows, size_t first, size_t n,
                        WriteCounts& counts) {
  Crowd& crowd = statements_->crowd;
  crowd.read(rows.subspan(first, n));
  for (size_t i = first; i < first + n; ++i) {
    TraceRow& row = *rows[i];
    const Crowd::Member* there = crowd.find(row);
    const bool is_mine =
        there && there->row.source_id == row.source_id && there->row.line == row.line;
    if (there && !is_mine) {
      repeat(row, i, *there, counts);
      continue;
    }
    if (!there) {
      if (crowd.has_key(row)) counts.conflict_lines.push_back(row.line);
      if (const int64_t id = crowd.equal_sketch(row); id != 0) {
        ids_[i].sketch = id;
        owners_[i] = kStored;
      }
      crowd.add(row, ids_[i]);
      insert(rows, i, 1);
    }
    store_sample_and_sketch(row, i);
    ++counts.inserted;
  }
  crowd.settle();
}

/// Counts a row that is there already, which is of this source from now on if that comes first.
void TraceWriter::repeat(const TraceRow& row, size_t at, const Crowd::Member& there,
                         WriteCounts& counts) {
  ++counts.duplicates;
  statements_->repeat.bind_place(row);
  statements_->repeat.bind(there.row.nth);
  statements_->repeat.run();
  if (precedes(row, there)) {
    ++counts.taken_over;
    take_over(row, at, there);
  }
}

/// Of equal rows that stands which is no mere claim, has a sketch, and is of the first path.
bool TraceWriter::precedes(const TraceRow& row, const Crowd::Member& there) {
  const auto is_claim = [](const TraceRow& r) { return (r.flags & kFlagClaimed) != 0; };
  if (is_claim(row) != is_claim(there.row)) return is_claim(there.row);
  if (const bool has_sketch = there.ids.sketch != 0; has_sketch != (row.sketch != nullptr)) {
    return !has_sketch;
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

/// A row as this source has it. The sketch that was there stays: another row may have it too.
void TraceWriter::take_over(const TraceRow& row, size_t at, const Crowd::Member& there) {
  RowIds ids = there.ids;
  if (row.sketch != nullptr) {
    insert_sketches();
    if (statements_->crowd.stored_sketch(ids.sketch) != sketches_[at]) {
      store_sketch(at);
      ids.sketch = ids_[at].sketch;
    }
  }
  RowStatement& s = statements_->take_over;
  s.bind_place(row);
  s.bind(there.row.nth);
  s.bind(int64_t{row.flags});
  for (const auto& value : {row.ptr, row.offset_bytes, row.context_id}) s.bind(value);
  s.bind(row.source_id);
  s.bind(row.line);
  ids.sketch != 0 ? s.bind(ids.sketch) : s.bind_null();
  s.run();
  statements_->passed_on.bind(there.row.source_id);
  statements_->passed_on.run();
  statements_->crowd.take_over(row, ids);
}

void TraceWriter::store_sample_and_sketch(const TraceRow& row, size_t at) {
  store_sketch(at);
  if (row.sample.empty()) return;
  RowStatement& sample = statements_->sample;
  sample.bind(ids_[at].sample);
  sample.bind(static_cast<int64_t>(row.sample.size()));
  sample.bind_blob(row.sample);
  sample.run();
}

/// Leaves a row's sketch to insert_sketches, unless it is stored.
void TraceWriter::store_sketch(size_t at) {
  if (owners_[at] == kStored || is_stored_[owners_[at]]) return;
  is_stored_[owners_[at]] = true;
  statements_->sketches.sketches.emplace_back(ids_[at].sketch, &sketches_[at]);
}

void TraceWriter::insert_sketches() {
  if (statements_->sketches.size() > 0) statements_->sketch.run();
  statements_->sketches.sketches.clear();
}

int64_t TraceWriter::next_id() {
  if (last_id_ < 0) {
    last_id_ = db_.execAndGet(
                      "SELECT max((SELECT ifnull(max(id), 0) FROM sketch),"
                      " (SELECT ifnull(max(id), 0) FROM sample))")
                   .getInt64();
  }
  return ++last_id_;
}

}  // namespace greta
