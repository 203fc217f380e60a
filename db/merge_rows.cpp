#include "db/merge_rows.h"

#include <cstring>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "db/database.h"
#include "db/stored_sketch.h"

namespace greta {
namespace {

constexpr size_t kRowsPerBatch = 1024;

/// Rows that the other file saw again. Sightings of files without a common source add up; where
/// they share one, the larger count stands, since nothing tells whose sightings they were.
constexpr const char* kCopyRepeats = R"(
  INSERT INTO main.trace_repeat
    SELECT x.run_id, x.prompt_id, x.side, x.pos_id, x.layer, x.tensor_id, x.nth, p.count
    FROM other.trace_repeat p
    JOIN other.trace_row t ON t.run_id = p.run_id AND t.prompt_id = p.prompt_id AND t.side = p.side
      AND t.pos_id = p.pos_id AND t.layer = p.layer AND t.tensor_id = p.tensor_id AND t.nth = p.nth
    JOIN temp.merge_run r ON r.other_id = t.run_id
    JOIN temp.merge_prompt q ON q.other_id = t.prompt_id
    JOIN temp.merge_phase h ON h.other_id = t.phase_id
    JOIN temp.merge_name n ON n.other_id = t.name_id
    JOIN main.trace_row x ON x.run_id = r.id AND x.prompt_id = q.id AND x.side = h.side
      AND x.pos_id = t.pos_id AND x.layer = t.layer AND x.tensor_id = n.tensor_id
      AND x.phase_id = h.id AND x.step = t.step AND x.name_id = n.id
    WHERE p.run_id = ?1
      AND (x.token_id, x.logical_tok_idx, x.n, x.hash, x.min, x.max, x.mean, x.abs_sum, x.nan, x.inf,
           x.nz_count, x.flags & 17)
        IS (t.token_id, t.logical_tok_idx, t.n, t.hash, t.min, t.max, t.mean, t.abs_sum, t.nan, t.inf,
            t.nz_count, t.flags & 17)
      AND (SELECT data FROM main.sample WHERE id = x.sample_id)
        IS (SELECT data FROM other.sample WHERE id = t.sample_id)
    ON CONFLICT DO UPDATE SET
      count = CASE WHEN ?2 THEN max(count, excluded.count) ELSE count + excluded.count END)";

/// Trace rows of one run from new sources, in the order of the key, with our ids.
constexpr const char* kRows = R"(
  SELECT q.id, h.id, h.side, n.id, n.tensor_id, s.id, t.pos_id, t.layer, t.step, t.flags, t.line,
         t.token_id, t.logical_tok_idx, t.n, t.hash, t.min, t.max, t.mean, t.abs_sum, t.nan, t.inf,
         t.nz_count, t.ptr, t.offset_bytes, t.context_id,
         (SELECT data FROM other.sample WHERE id = t.sample_id), k.*
  FROM other.trace_row t
  CROSS JOIN temp.merge_source s ON s.other_id = t.source_id AND s.is_new AND t.line > s.from_line
  CROSS JOIN temp.merge_prompt q ON q.other_id = t.prompt_id
  CROSS JOIN temp.merge_phase h ON h.other_id = t.phase_id
  CROSS JOIN temp.merge_name n ON n.other_id = t.name_id
  LEFT JOIN other.sketch k ON k.id = t.sketch_id
  WHERE t.run_id = ?)";
constexpr int kSampleColumn = 25, kSketchColumn = 26;

std::optional<int64_t> integer(const SQLite::Column& column) {
  return column.isNull() ? std::nullopt : std::optional(column.getInt64());
}

std::optional<double> real(const SQLite::Column& column) {
  return column.isNull() ? std::nullopt : std::optional(column.getDouble());
}

/// Rows on their way, with the samples and sketches that they borrow.
struct Batch {
  Batch() {
    rows.reserve(kRowsPerBatch);
    samples.reserve(kRowsPerBatch);
    sketches.reserve(kRowsPerBatch);
  }
  void clear() {
    rows.clear();
    samples.clear();
    sketches.clear();
  }
  std::vector<TraceRow> rows;
  std::vector<std::vector<float>> samples;  // never reallocated: rows point into them
  std::vector<RowSketch> sketches;
};

/// One merge's copy of rows.
class RowMerge {
 public:
  RowMerge(SQLite::Database& db, TraceWriter& writer, const std::filesystem::path& other)
      : db_(db), writer_(writer), other_(other) {}

  MergedRows copy() {
    db_.exec(std::string("INSERT OR IGNORE INTO temp.merge_context SELECT json_array(") +
             kContextColumns + "), id FROM main.row_context");
    SQLite::Statement runs(
        db_, "SELECT other_id, id, overlaps FROM temp.merge_run WHERE has_new ORDER BY id");
    SQLite::Statement repeats(db_, kCopyRepeats);
    SQLite::Statement counts(
        db_,
        "INSERT INTO temp.merge_count"
        " SELECT source_id, count(*), sum(CASE WHEN nth > 0 THEN EXISTS (SELECT 1 FROM "
        "main.trace_row e WHERE e.run_id = t.run_id"
        "   AND e.prompt_id = t.prompt_id AND e.side = t.side AND e.pos_id = t.pos_id AND e.layer "
        "= t.layer"
        "   AND e.tensor_id = t.tensor_id AND e.phase_id = t.phase_id AND e.step = t.step"
        "   AND e.name_id = t.name_id AND e.nth < t.nth) ELSE 0 END) FROM main.trace_row t"
        " WHERE run_id = ? GROUP BY source_id ON CONFLICT DO NOTHING");
    while (runs.executeStep()) {
      int64_t other_id = runs.getColumn(0), id = runs.getColumn(1);
      copy_run(other_id, id);
      repeats.bind(1, other_id);
      repeats.bind(2, runs.getColumn(2).getInt());
      repeats.exec();
      repeats.reset();
      counts.bind(1, id);
      counts.exec();
      counts.reset();
    }
    db_.exec(
        "UPDATE main.source SET (duplicates, conflicts) ="
        " (SELECT max(0, source.rows - c.stored), c.conflicts FROM temp.merge_count c"
        "  WHERE c.source_id = source.id)"
        " WHERE id IN (SELECT m.id FROM temp.merge_source m JOIN temp.merge_count c"
        "              ON c.source_id = m.id WHERE m.is_new);"
        "UPDATE main.source SET duplicates = rows"
        " WHERE id IN (SELECT id FROM temp.merge_source WHERE is_new)"
        "   AND id NOT IN (SELECT source_id FROM temp.merge_count)");
    return copied_;
  }

 private:
  void copy_run(int64_t other_id, int64_t id) {
    SQLite::Statement rows(db_, kRows);
    rows.bind(1, other_id);
    Batch batch;
    int64_t taken = 0;
    for (; rows.executeStep(); ++taken) {
      add_row(batch, rows, id);
      if (batch.rows.size() == kRowsPerBatch) write(batch);
    }
    write(batch);
    refuse_lost_rows(other_id, taken);
  }

  /// A row of a new source that nothing could be attached to is not left out: then nothing is
  /// merged.
  void refuse_lost_rows(int64_t other_id, int64_t taken) {
    SQLite::Statement count(
        db_,
        "SELECT count(*) FROM other.trace_row t WHERE t.run_id = ? AND NOT EXISTS (SELECT 1 FROM"
        " temp.merge_source s WHERE s.other_id = t.source_id AND (NOT s.is_new OR t.line <= "
        "s.from_line))");
    count.bind(1, other_id);
    count.executeStep();
    const int64_t there = count.getColumn(0).getInt64();
    if (there == taken) return;
    throw DatabaseError(other_.string() + " is damaged: " + std::to_string(there - taken) +
                        " trace rows of it belong to nothing; nothing was merged");
  }

  void write(Batch& batch) {
    WriteCounts counts = writer_.write(batch.rows);
    copied_.rows += counts.inserted;
    copied_.duplicates += counts.duplicates;
    copied_.conflicts += static_cast<int64_t>(counts.conflict_lines.size());
    batch.clear();
  }

  void add_row(Batch& batch, const SQLite::Statement& from, int64_t run_id) {
    auto at = [&from](int i) { return from.getColumn(i); };
    TraceRow& row = batch.rows.emplace_back();
    row.run_id = run_id;
    row.prompt_id = at(0);
    row.phase_id = at(1);
    row.side = static_cast<Side>(at(2).getInt());
    row.name_id = at(3);
    row.tensor_id = at(4);
    row.source_id = at(5);
    row.pos_id = at(6);
    row.layer = at(7);
    row.step = at(8);
    row.flags = at(9);
    row.line = at(10);
    row.token_id = integer(at(11));
    row.logical_tok_idx = integer(at(12));
    row.n = integer(at(13));
    if (auto hash = integer(at(14))) row.hash = static_cast<uint64_t>(*hash);
    row.min = real(at(15));
    row.max = real(at(16));
    row.mean = real(at(17));
    row.abs_sum = real(at(18));
    row.nan = integer(at(19));
    row.inf = integer(at(20));
    row.nz_count = integer(at(21));
    row.ptr = integer(at(22));
    row.offset_bytes = integer(at(23));
    if (auto context = integer(at(24))) row.context_id = context_id(*context);
    add_vectors(batch, row, from);
  }

  static void add_vectors(Batch& batch, TraceRow& row, const SQLite::Statement& from) {
    SQLite::Column sample = from.getColumn(kSampleColumn);
    if (!sample.isNull()) {
      auto& values =
          batch.samples.emplace_back(static_cast<size_t>(sample.getBytes()) / sizeof(float));
      std::memcpy(values.data(), sample.getBlob(), values.size() * sizeof(float));
      row.sample = values;
    }
    if (from.getColumn(kSketchColumn).isNull()) return;
    StoredSketch sketch;
    sketch.n = from.getColumn(kSketchColumn + 1);
    sketch.derived = from.getColumn(kSketchColumn + 2).getInt() != 0;
    sketch.sum_sq = from.getColumn(kSketchColumn + 3);
    sketch.scale = from.getColumn(kSketchColumn + 4);
    for (size_t i = 0; i < sketch.bucket.size(); i++) {
      sketch.bucket[i] = from.getColumn(kSketchColumn + 5 + static_cast<int>(i));
    }
    row.sketch = &batch.sketches.emplace_back(row_form(sketch));
  }

  /// Our id of a context of the other file, entered when no row had these fields yet.
  int64_t context_id(int64_t other_id) {
    if (auto found = contexts_.find(other_id); found != contexts_.end()) return found->second;
    SQLite::Statement find(
        db_,
        std::string("SELECT c.id FROM temp.merge_context c WHERE c.fields = (SELECT json_array(") +
            kContextColumns + ") FROM other.row_context WHERE id = ?)");
    find.bind(1, other_id);
    int64_t id = 0;
    if (find.executeStep()) {
      id = find.getColumn(0);
    } else {
      SQLite::Statement add(db_, std::string("INSERT INTO main.row_context(") + kContextColumns +
                                     ") SELECT " + kContextColumns +
                                     " FROM other.row_context WHERE id = ?");
      add.bind(1, other_id);
      add.exec();
      id = db_.getLastInsertRowid();
      SQLite::Statement note(
          db_, std::string("INSERT OR IGNORE INTO temp.merge_context SELECT json_array(") +
                   kContextColumns + "), id FROM main.row_context WHERE id = ?");
      note.bind(1, id);
      note.exec();
    }
    return contexts_[other_id] = id;
  }

  SQLite::Database& db_;
  TraceWriter& writer_;
  const std::filesystem::path& other_;
  MergedRows copied_;
  std::unordered_map<int64_t, int64_t> contexts_;  // their ids to ours
};

}  // namespace

MergedRows merge_rows(SQLite::Database& db, TraceWriter& writer,
                      const std::filesystem::path& other) {
  return RowMerge(db, writer, other).copy();
}

}  // namespace greta
