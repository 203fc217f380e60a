#include "db/merge.h"

#include <cstring>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "db/check.h"
#include "db/database.h"
#include "db/definitions.h"
#include "db/forget.h"
#include "db/kept_tally.h"
#include "db/run_name.h"
#include "db/run_records.h"
#include "db/schema.h"
#include "db/trace_writer.h"

namespace greta {
namespace {

constexpr size_t kRowsPerBatch = 1024;

/// Maps from the ids of the other file to ours. Made before the transaction begins, so that its
/// first statement is a write and waits for other writers instead of failing.
constexpr const char* kCreateMaps = R"(
  CREATE TEMP TABLE merge_run(other_id INTEGER PRIMARY KEY, id INTEGER, is_new INTEGER,
    has_new INTEGER DEFAULT 0, overlaps INTEGER DEFAULT 0);
  CREATE TEMP TABLE merge_prompt(other_id INTEGER PRIMARY KEY, id INTEGER);
  CREATE TEMP TABLE merge_phase(other_id INTEGER PRIMARY KEY, id INTEGER, side INTEGER);
  CREATE TEMP TABLE merge_name(other_id INTEGER PRIMARY KEY, id INTEGER, tensor_id INTEGER);
  CREATE TEMP TABLE merge_tensor(other_id INTEGER PRIMARY KEY, id INTEGER);
  CREATE TEMP TABLE merge_source(other_id INTEGER PRIMARY KEY, id INTEGER, is_new INTEGER, from_line INTEGER);
  CREATE TEMP TABLE merge_context(fields TEXT PRIMARY KEY, id INTEGER) WITHOUT ROWID;
  CREATE TEMP TABLE merge_count(source_id INTEGER PRIMARY KEY, stored INTEGER, conflicts INTEGER);
)";
constexpr const char* kDropMaps = R"(
  DROP TABLE IF EXISTS temp.merge_run; DROP TABLE IF EXISTS temp.merge_prompt;
  DROP TABLE IF EXISTS temp.merge_phase; DROP TABLE IF EXISTS temp.merge_name;
  DROP TABLE IF EXISTS temp.merge_tensor; DROP TABLE IF EXISTS temp.merge_source;
  DROP TABLE IF EXISTS temp.merge_context; DROP TABLE IF EXISTS temp.merge_count;
)";

/// Runs that both files trace must be hashed alike: hashes of two algorithms never compare.
constexpr const char* kHashConflict = R"(
  SELECT r.name, r.hash_algo, o.hash_algo
  FROM temp.merge_run m JOIN main.run r ON r.id = m.id JOIN other.run o ON o.id = m.other_id
  WHERE NOT m.is_new AND r.hash_algo <> o.hash_algo
    AND EXISTS (SELECT 1 FROM main.trace_row t WHERE t.run_id = r.id)
    AND EXISTS (SELECT 1 FROM other.trace_row t WHERE t.run_id = o.id)
  LIMIT 1)";

constexpr const char* kSourceConflict = R"(
  SELECT r.name, s.rows, x.rows, (SELECT min(path) FROM other.source_location WHERE source_id = s.id)
  FROM temp.merge_source m
  JOIN other.source s ON s.id = m.other_id
  JOIN main.source x ON x.id = m.id
  JOIN main.run r ON r.id = x.run_id
  WHERE NOT m.is_new AND s.rows <> x.rows AND s.shape <> 'engine'
  LIMIT 1)";

/// Runs meet by name, but an engine's run is that of its engine's source: a run of that name which
/// another engine wrote is another run.
constexpr const char* kMapRuns = R"(
  INSERT INTO main.meta(key, value) VALUES ('merge', '') ON CONFLICT DO NOTHING;
  DELETE FROM main.meta WHERE key = 'merge';
  INSERT INTO temp.merge_run(other_id, id)
    SELECT o.id, coalesce(
      (SELECT x.run_id FROM other.source s JOIN main.source x ON x.sha256 = s.sha256
       WHERE s.run_id = o.id AND s.shape = 'engine' AND x.shape = 'engine'),
      (SELECT r.id FROM main.run r WHERE r.name = o.name AND NOT (
         EXISTS (SELECT 1 FROM other.source s WHERE s.run_id = o.id AND s.shape = 'engine')
         AND EXISTS (SELECT 1 FROM main.source x WHERE x.run_id = r.id AND x.shape = 'engine'))))
    FROM other.run o;
  UPDATE temp.merge_run SET is_new = id IS NULL;
)";

constexpr const char* kAddRun = R"(
  INSERT INTO main.run(name, experiment, family, variant, date, commit_sha, synthetic, mode, dtype,
                       seed, hash_algo, status, started_at, finished_at)
    SELECT ?1, experiment, family, variant, date, commit_sha, synthetic, mode, dtype,
           seed, hash_algo, status, started_at, finished_at
    FROM other.run WHERE id = ?2)";

constexpr const char* kMapDictionaries = R"(
  INSERT INTO main.prompt(run_id, name, n_tokens, text_sha256, token_ids)
    SELECT m.id, p.name, p.n_tokens, p.text_sha256, p.token_ids
    FROM other.prompt p JOIN temp.merge_run m ON m.other_id = p.run_id WHERE true ORDER BY p.id
    ON CONFLICT(run_id, name) DO UPDATE SET
      n_tokens = coalesce(n_tokens, excluded.n_tokens),
      text_sha256 = coalesce(text_sha256, excluded.text_sha256),
      token_ids = coalesce(token_ids, excluded.token_ids);
  INSERT INTO temp.merge_prompt
    SELECT p.id, q.id FROM other.prompt p JOIN temp.merge_run m ON m.other_id = p.run_id
    JOIN main.prompt q ON q.run_id = m.id AND q.name = p.name;
  INSERT OR IGNORE INTO main.phase(name, side) SELECT name, side FROM other.phase ORDER BY id;
  INSERT INTO temp.merge_phase
    SELECT o.id, p.id, p.side FROM other.phase o JOIN main.phase p ON p.name = o.name;
  INSERT OR IGNORE INTO main.cause(name, root_cause) SELECT name, root_cause FROM other.cause;
)";

/// An engine that has written on since it was last merged is new from the row on that it had
/// reached. A source that was forgotten in part there and is whole here is known.
constexpr const char* kMapSources = R"(
  INSERT INTO temp.merge_source
    SELECT s.id, x.id, x.id IS NULL OR (s.shape = 'engine' AND s.rows > x.rows), ifnull(x.rows, 0)
    FROM other.source s JOIN temp.merge_run m ON m.other_id = s.run_id
    LEFT JOIN main.source x ON x.run_id = m.id AND x.leg = s.leg AND x.prompt = s.prompt
      AND x.sha256 IN (s.sha256, replace(s.sha256, 'forgotten in part: ', ''));
  UPDATE main.source SET (lines, rows) = (SELECT s.lines, s.rows
      FROM temp.merge_source n JOIN other.source s ON s.id = n.other_id WHERE n.id = source.id)
    WHERE id IN (SELECT id FROM temp.merge_source WHERE is_new);
  INSERT INTO main.source(run_id, leg, prompt, sha256, shape, bytes, lines, rows)
    SELECT m.id, s.leg, s.prompt, s.sha256, s.shape, s.bytes, s.lines, s.rows
    FROM other.source s JOIN temp.merge_source n ON n.other_id = s.id AND n.id IS NULL
    JOIN temp.merge_run m ON m.other_id = s.run_id ORDER BY s.id;
  UPDATE temp.merge_source SET id = (
    SELECT x.id FROM other.source s JOIN temp.merge_run m ON m.other_id = s.run_id
    JOIN main.source x ON x.run_id = m.id AND x.leg = s.leg AND x.prompt = s.prompt
      AND x.sha256 = s.sha256
    WHERE s.id = merge_source.other_id) WHERE id IS NULL;
  INSERT OR IGNORE INTO main.source_location
    SELECT m.id, l.path, l.raw_sha256, l.raw_bytes
    FROM other.source_location l JOIN temp.merge_source m ON m.other_id = l.source_id;
  UPDATE temp.merge_run SET
    has_new = EXISTS (SELECT 1 FROM other.source s JOIN temp.merge_source n ON n.other_id = s.id
                      WHERE s.run_id = merge_run.other_id AND n.is_new),
    overlaps = EXISTS (SELECT 1 FROM other.source s JOIN temp.merge_source n ON n.other_id = s.id
                       WHERE s.run_id = merge_run.other_id AND NOT n.is_new);
)";

/// Two files may tell a run differently. Nothing is known: what the other says; both say something
/// else: the most believed attribute, the smaller text where nothing tells them apart, so that the
/// order of merges does not matter.
std::string settle_sql(const std::string& column, const std::string& dim) {
  return "UPDATE main.run SET " + column + " = (SELECT CASE WHEN run." + column +
         " IS NULL THEN o." + column +
         " ELSE coalesce((SELECT a.value FROM main.stated_attribute a WHERE a.run_id = run.id"
         " AND a.dim = '" +
         dim + "' AND a.value IN (run." + column + ", o." + column +
         ") ORDER BY a.believed LIMIT 1), min(run." + column + ", o." + column +
         ")) END FROM temp.merge_run m JOIN other.run o ON o.id = m.other_id"
         " WHERE m.id = run.id)"
         " WHERE id IN (SELECT m.id FROM temp.merge_run m JOIN other.run o ON o.id = m.other_id"
         "              WHERE NOT m.is_new AND o." +
         column + " IS NOT run." + column + "              AND o." + column + " IS NOT NULL)";
}

constexpr const char* kSettleRest = R"(
  UPDATE main.run SET
    (hash_algo, status, synthetic, family, variant, started_at, finished_at) = (
      SELECT CASE WHEN EXISTS (SELECT 1 FROM other.trace_row t WHERE t.run_id = o.id)
                  THEN o.hash_algo ELSE run.hash_algo END,
             CASE WHEN 'failed' IN (run.status, o.status) THEN 'failed'
                  WHEN 'complete' IN (run.status, o.status) THEN 'complete'
                  WHEN 'running' IN (run.status, o.status) THEN 'running' ELSE 'unknown' END,
             max(run.synthetic, o.synthetic),
             coalesce(run.family, o.family), coalesce(run.variant, o.variant),
             coalesce(min(run.started_at, o.started_at), run.started_at, o.started_at),
             coalesce(max(run.finished_at, o.finished_at), run.finished_at, o.finished_at)
      FROM temp.merge_run m JOIN other.run o ON o.id = m.other_id WHERE m.id = run.id)
  WHERE id IN (SELECT id FROM temp.merge_run WHERE NOT is_new);
)";

constexpr const char* kCopyRest = R"(
  INSERT OR IGNORE INTO main.plan
    SELECT r.id, q.id, p.side, p.layer, t.id FROM other.plan p
    JOIN temp.merge_run r ON r.other_id = p.run_id JOIN temp.merge_prompt q ON q.other_id = p.prompt_id
    JOIN temp.merge_tensor t ON t.other_id = p.tensor_id;
  INSERT INTO main.noise_floor
    SELECT t.id, f.layer, f.model_sha256, f.dtype, f.backend, f.rel_l2, f.gain, f.pairs, f.measured_at
    FROM other.noise_floor f JOIN temp.merge_tensor t ON t.other_id = f.tensor_id WHERE true
    ON CONFLICT DO UPDATE SET (rel_l2, gain, pairs, measured_at)
      = (excluded.rel_l2, excluded.gain, excluded.pairs, excluded.measured_at)
    WHERE (excluded.measured_at, excluded.rel_l2) > (measured_at, rel_l2);
  INSERT OR IGNORE INTO main.attribute(run_id, dim, value, rank, leg, source_id)
    SELECT r.id, a.dim, a.value, a.rank, a.leg, s.id FROM other.attribute a
    JOIN temp.merge_run r ON r.other_id = a.run_id
    LEFT JOIN temp.merge_source s ON s.other_id = a.source_id ORDER BY a.id;
  INSERT INTO main.run_metric(run_id, leg, prompt, name, value, text, source_id)
    SELECT r.id, x.leg, x.prompt, x.name, x.value, x.text, s.id FROM other.run_metric x
    JOIN temp.merge_source s ON s.other_id = x.source_id AND s.is_new
    JOIN temp.merge_run r ON r.other_id = x.run_id ORDER BY x.id;
  INSERT INTO main.log_event
    SELECT s.id, x.line, x.seq, r.id, x.prompt, x.tag, x.step, x.fields, x.text FROM other.log_event x
    JOIN temp.merge_source s ON s.other_id = x.source_id AND s.is_new
    JOIN temp.merge_run r ON r.other_id = x.run_id;
  INSERT INTO main.document_row
    SELECT s.id, x.line, x.section, x.cells FROM other.document_row x
    JOIN temp.merge_source s ON s.other_id = x.source_id AND s.is_new;
  INSERT INTO main.report
    SELECT s.id, r.id, x.stage FROM other.report x
    JOIN temp.merge_source s ON s.other_id = x.source_id AND s.is_new
    JOIN temp.merge_run r ON r.other_id = x.run_id;
  INSERT INTO main.report_pair
    SELECT s.id, x.line, r.id, q.id, x.layer, n.id, x.token_id, x.pos_id, x.status, x.cause,
           x.root_cause, x.details FROM other.report_pair x
    JOIN temp.merge_source s ON s.other_id = x.source_id AND s.is_new
    JOIN temp.merge_run r ON r.other_id = x.run_id JOIN temp.merge_prompt q ON q.other_id = x.prompt_id
    LEFT JOIN temp.merge_name n ON n.other_id = x.name_id;
  INSERT INTO main.report_claim(source_id, run_id, line, kind, value, text)
    SELECT s.id, r.id, x.line, x.kind, x.value, x.text FROM other.report_claim x
    JOIN temp.merge_source s ON s.other_id = x.source_id AND s.is_new
    JOIN temp.merge_run r ON r.other_id = x.run_id ORDER BY x.id;
  INSERT OR IGNORE INTO main.run_event
    SELECT s.id, x.kind, x.nth, r.id, x.at FROM other.run_event x
    JOIN temp.merge_source s ON s.other_id = x.source_id AND s.is_new
    JOIN temp.merge_run r ON r.other_id = x.run_id;
  UPDATE main.run SET status = e.status FROM event_status e
    WHERE e.run_id = run.id AND run.id IN (SELECT id FROM temp.merge_run) AND e.status <> run.status;
  INSERT OR IGNORE INTO main.ingest_error(source_id, file, line, severity, reason, raw, about)
    SELECT s.id, x.file, x.line, x.severity, x.reason, x.raw, x.about FROM other.ingest_error x
    LEFT JOIN temp.merge_source s ON s.other_id = x.source_id
    WHERE x.source_id IS NULL OR s.is_new ORDER BY x.id;
)";

/// Each says of which hashes it speaks, so that it cannot be of other rows than here.
constexpr const char* kCopyDifferences = R"(
  INSERT OR IGNORE INTO main.difference(run_id, prompt_id, pos_id, layer, tensor_id, prefill_hash,
      decode_hash, n, differing, first_at, last_at, rel_l2, max_abs, max_abs_at, max_ulp, heads,
      segments, p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15, p16, p17, p18,
      p19, p20, p21, p22, p23, p24, p25, p26, p27, p28, p29, p30, p31)
    SELECT r.id, q.id, x.pos_id, x.layer, t.id, x.prefill_hash, x.decode_hash,
      x.n, x.differing, x.first_at, x.last_at, x.rel_l2, x.max_abs, x.max_abs_at,
      x.max_ulp, x.heads, x.segments, x.p0, x.p1, x.p2, x.p3, x.p4, x.p5, x.p6, x.p7, x.p8, x.p9, x.p10, x.p11, x.p12, x.p13,
      x.p14, x.p15, x.p16, x.p17, x.p18, x.p19, x.p20, x.p21, x.p22, x.p23, x.p24, x.p25,
      x.p26, x.p27, x.p28, x.p29, x.p30, x.p31
    FROM other.difference x
    JOIN temp.merge_run r ON r.other_id = x.run_id
    JOIN temp.merge_prompt q ON q.other_id = x.prompt_id
    JOIN temp.merge_tensor t ON t.other_id = x.tensor_id)";

/// A key holds one readout. Another one of the same key stays as a warning, with all its values.
constexpr const char* kCopyReadouts = R"(
  CREATE TEMP TABLE merge_readout AS
    SELECT r.id AS run_id, q.id AS prompt_id, x.side, x.step, x.pos_id, n.id AS name_id, x.top1_id,
           x.top1_logit, x.top2_id, x.top2_logit, x.gap, x.vocab, x.route, x.cpu_top1_id,
           x.cpu_agrees, x.norm_error, x.logits_error, s.id AS source_id, x.line
    FROM other.readout x
    JOIN temp.merge_source s ON s.other_id = x.source_id AND s.is_new
    JOIN temp.merge_run r ON r.other_id = x.run_id JOIN temp.merge_prompt q ON q.other_id = x.prompt_id
    JOIN temp.merge_name n ON n.other_id = x.name_id;
  INSERT OR IGNORE INTO main.ingest_error(source_id, file, line, severity, reason, raw)
    SELECT x.source_id,
           ifnull((SELECT min(path) FROM main.source_location WHERE source_id = x.source_id), ''),
           x.line, 'warning', 'another readout of this prompt, step and position is already there',
           CAST(json_object('top1_id', x.top1_id, 'top1_logit', x.top1_logit, 'top2_id', x.top2_id,
             'top2_logit', x.top2_logit, 'gap', x.gap, 'vocab', x.vocab, 'route', x.route,
             'cpu_top1_id', x.cpu_top1_id, 'cpu_agrees', x.cpu_agrees, 'norm_error', x.norm_error,
             'logits_error', x.logits_error) AS BLOB)
    FROM temp.merge_readout x
    JOIN main.readout y ON y.run_id = x.run_id AND y.prompt_id = x.prompt_id AND y.side = x.side
      AND y.step = x.step AND y.pos_id = x.pos_id AND y.name_id = x.name_id
    WHERE (x.top1_id, x.top1_logit, x.top2_id, x.top2_logit, x.gap, x.vocab, x.route, x.cpu_top1_id,
           x.cpu_agrees, x.norm_error, x.logits_error)
      IS NOT (y.top1_id, y.top1_logit, y.top2_id, y.top2_logit, y.gap, y.vocab, y.route,
              y.cpu_top1_id, y.cpu_agrees, y.norm_error, y.logits_error);
  INSERT OR IGNORE INTO main.readout SELECT * FROM temp.merge_readout;
  DROP TABLE temp.merge_readout;
)";

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
      AND (SELECT data FROM main.sample WHERE id = x.vector_id)
        IS (SELECT data FROM other.sample WHERE id = t.vector_id)
    ON CONFLICT DO UPDATE SET
      count = CASE WHEN ?2 THEN max(count, excluded.count) ELSE count + excluded.count END)";

/// Trace rows of one run from new sources, in the order of the key, with our ids.
constexpr const char* kRows = R"(
  SELECT q.id, h.id, h.side, n.id, n.tensor_id, s.id, t.pos_id, t.layer, t.step, t.flags, t.line,
         t.token_id, t.logical_tok_idx, t.n, t.hash, t.min, t.max, t.mean, t.abs_sum, t.nan, t.inf,
         t.nz_count, t.ptr, t.offset_bytes, t.context_id,
         (SELECT data FROM other.sample WHERE id = t.vector_id), k.*
  FROM other.trace_row t
  CROSS JOIN temp.merge_source s ON s.other_id = t.source_id AND s.is_new AND t.line > s.from_line
  CROSS JOIN temp.merge_prompt q ON q.other_id = t.prompt_id
  CROSS JOIN temp.merge_phase h ON h.other_id = t.phase_id
  CROSS JOIN temp.merge_name n ON n.other_id = t.name_id
  LEFT JOIN other.sketch k ON k.id = t.vector_id
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

class Merge {
 public:
  /// `uri` is other's, by which nothing can write to it.
  Merge(SQLite::Database& db, const std::filesystem::path& other, std::string uri)
      : db_(db), other_(other), uri_(std::move(uri)) {}

  MergeSummary run() {
    attach();
    try {
      SQLite::Transaction transaction(db_);  // deferred: to lock the other file is not asked for
      copy_all();
      keep_tallies();
      transaction.commit();
    } catch (...) {
      detach();
      throw;
    }
    detach();
    return summary_;
  }

 private:
  void attach() {
    db_.tryExec(kDropMaps);
    SQLite::Statement attach(db_, "ATTACH ? AS other");
    attach.bind(1, uri_);
    attach.exec();
    db_.exec(kCreateMaps);
  }

  void detach() {
    db_.tryExec(kDropMaps);
    db_.tryExec("DETACH other");
  }

  void copy_all() {
    db_.exec(kMapRuns);
    add_runs();
    db_.exec(kMapDictionaries);
    refuse_other_hashes();
    TraceWriter writer(db_);
    map_names(writer);
    forget_what_is_whole_there();
    db_.exec(kMapSources);
    refuse_other_rows();
    count_sources();
    copy_traces(writer);
    db_.exec(kCopyRest);
    db_.exec(kCopyDifferences);
    db_.exec(kCopyReadouts);
    for (auto [column, dim] : {std::pair{"date", "date"},
                               {"commit_sha", "commit"},
                               {"mode", "mode"},
                               {"dtype", "dtype"},
                               {"seed", "seed"}}) {
      db_.exec(settle_sql(column, dim));
    }
    db_.exec(kSettleRest);
  }

  void add_runs() {
    SQLite::Statement runs(db_,
                           "SELECT o.id, o.name FROM other.run o JOIN temp.merge_run m"
                           " ON m.other_id = o.id WHERE m.is_new ORDER BY o.id");
    SQLite::Statement add(db_, kAddRun);
    SQLite::Statement map(db_, "UPDATE temp.merge_run SET id = ? WHERE other_id = ?");
    while (runs.executeStep()) {
      int64_t other_id = runs.getColumn(0);
      std::string there = runs.getColumn(1), here = free_run_name(db_, there);
      add.bind(1, here);
      add.bind(2, other_id);
      add.exec();
      add.reset();
      map.bind(1, db_.getLastInsertRowid());
      map.bind(2, other_id);
      map.exec();
      map.reset();
      if (here != there) summary_.renamed.emplace_back(there, here);
    }
  }

  void refuse_other_hashes() {
    SQLite::Statement conflict(db_, kHashConflict);
    if (!conflict.executeStep()) return;
    throw DatabaseError(other_.string() + ": run " + conflict.getColumn(0).getString() +
                        " is hashed by " + conflict.getColumn(2).getString() + " there and by " +
                        conflict.getColumn(1).getString() +
                        " here, which never compare: rename the run in one of the files");
  }

  /// Sources that were forgotten in part here come whole from there.
  void forget_what_is_whole_there() {
    SQLite::Statement whole(
        db_,
        "SELECT x.run_id, x.leg, x.prompt, s.sha256 FROM main.source x"
        " JOIN temp.merge_run m ON m.id = x.run_id JOIN other.source s ON s.run_id = m.other_id"
        " AND s.leg = x.leg AND s.prompt = x.prompt AND x.sha256 = ? || s.sha256"
        " WHERE instr(x.sha256, ?) = 1");
    whole.bind(1, kForgottenInPart);
    whole.bind(2, kForgottenInPart);
    std::vector<NewSource> found;
    while (whole.executeStep()) {
      found.push_back({whole.getColumn(0).getInt64(), whole.getColumn(1).getString(),
                       whole.getColumn(2).getString(), whole.getColumn(3).getString(), "", 0});
    }
    whole.reset();
    for (const NewSource& one : found) {
      forget_marked_source(db_, one.run_id, one.leg, one.prompt, one.sha256);
    }
  }

  void refuse_other_rows() {
    SQLite::Statement conflict(db_, kSourceConflict);
    if (!conflict.executeStep()) return;
    throw DatabaseError(other_.string() + ": source " + conflict.getColumn(3).getString() +
                        " of run " + conflict.getColumn(0).getString() + " has " +
                        conflict.getColumn(1).getString() + " trace rows there and " +
                        conflict.getColumn(2).getString() +
                        " here: ingest it anew in the file that has fewer, then merge");
  }

  /// Trace points by name; those that greta does not know are entered as the writer enters them.
  void map_names(TraceWriter& writer) {
    SQLite::Statement names(
        db_,
        "SELECT n.id, n.name, n.tensor_id, k.name, n.cause FROM other.tensor_name n"
        " JOIN other.tensor k ON k.id = n.tensor_id ORDER BY n.id");
    SQLite::Statement known(db_, "SELECT 1 FROM main.tensor_name WHERE name = ?");
    SQLite::Statement alias(
        db_, "INSERT INTO main.tensor_name(name, tensor_id, cause) VALUES (?, ?, ?)");
    SQLite::Statement map_name(db_, "INSERT INTO temp.merge_name VALUES (?, ?, ?)");
    SQLite::Statement map_tensor(db_, "INSERT OR IGNORE INTO temp.merge_tensor VALUES (?, ?)");
    while (names.executeStep()) {
      std::string name = names.getColumn(1), canonical = names.getColumn(3),
                  cause = names.getColumn(4);
      int64_t tensor_id = writer.tensor_id(canonical).tensor_id;
      known.bind(1, name);
      if (!known.executeStep()) {
        alias.bind(1, name);
        alias.bind(2, tensor_id);
        alias.bind(3, cause);
        alias.exec();
        alias.reset();
      }
      known.reset();
      TensorId id = writer.tensor_id(name);
      map_name.bind(1, names.getColumn(0).getInt64());
      map_name.bind(2, id.name_id);
      map_name.bind(3, id.tensor_id);
      map_name.exec();
      map_name.reset();
      map_tensor.bind(1, names.getColumn(2).getInt64());
      map_tensor.bind(2, tensor_id);
      map_tensor.exec();
      map_tensor.reset();
    }
  }

  void count_sources() {
    auto count = [this](const char* sql) { return db_.execAndGet(sql).getInt64(); };
    summary_.new_runs = count("SELECT count(*) FROM temp.merge_run WHERE is_new");
    summary_.new_sources = count("SELECT count(*) FROM temp.merge_source WHERE is_new");
    summary_.known_sources = count("SELECT count(*) FROM temp.merge_source WHERE NOT is_new");
  }

  void copy_traces(TraceWriter& writer) {
    if (summary_.new_sources == 0) return;
    db_.exec(std::string("INSERT OR IGNORE INTO temp.merge_context SELECT json_array(") +
             kContextColumns + "), id FROM main.row_context");
    SQLite::Statement runs(
        db_, "SELECT other_id, id, overlaps FROM temp.merge_run WHERE has_new ORDER BY id");
    SQLite::Statement repeats(db_, kCopyRepeats);
    SQLite::Statement counts(
        db_,
        "INSERT INTO temp.merge_count"
        " SELECT source_id, count(*), sum(CASE WHEN crowded THEN EXISTS (SELECT 1 FROM "
        "main.trace_row e WHERE e.run_id = t.run_id"
        "   AND e.prompt_id = t.prompt_id AND e.side = t.side AND e.pos_id = t.pos_id AND e.layer "
        "= t.layer"
        "   AND e.tensor_id = t.tensor_id AND e.phase_id = t.phase_id AND e.step = t.step"
        "   AND e.name_id = t.name_id AND e.nth < t.nth) ELSE 0 END) FROM main.trace_row t"
        " WHERE run_id = ? GROUP BY source_id ON CONFLICT DO NOTHING");
    while (runs.executeStep()) {
      int64_t other_id = runs.getColumn(0), id = runs.getColumn(1);
      copy_run(writer, other_id, id);
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
  }

  void copy_run(TraceWriter& writer, int64_t other_id, int64_t id) {
    SQLite::Statement rows(db_, kRows);
    rows.bind(1, other_id);
    Batch batch;
    int64_t taken = 0;
    for (; rows.executeStep(); ++taken) {
      add_row(batch, rows, id);
      if (batch.rows.size() == kRowsPerBatch) write(writer, batch);
    }
    write(writer, batch);
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

  void write(TraceWriter& writer, Batch& batch) {
    WriteCounts counts = writer.write(batch.rows);
    summary_.rows += counts.inserted;
    summary_.duplicates += counts.duplicates;
    summary_.conflicts += static_cast<int64_t>(counts.conflict_lines.size());
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
    RowSketch& sketch = batch.sketches.emplace_back();
    sketch.n = from.getColumn(kSketchColumn + 1);
    sketch.derived = from.getColumn(kSketchColumn + 2).getInt() != 0;
    sketch.sum_sq = from.getColumn(kSketchColumn + 3);
    for (size_t i = 0; i < sketch.bucket.size(); i++) {
      sketch.bucket[i] = from.getColumn(kSketchColumn + 4 + static_cast<int>(i));
    }
    row.sketch = &sketch;
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

  void keep_tallies() {
    std::vector<int64_t> ids;
    SQLite::Statement runs(db_,
                           "SELECT r.id FROM temp.merge_run m JOIN main.run r ON r.id = m.id"
                           " WHERE r.status <> 'running'");
    while (runs.executeStep()) ids.push_back(runs.getColumn(0));
    TallyReader reader(db_);
    TallyKeeper keeper(db_);
    for (int64_t id : ids) keeper.keep(reader.read(id));
  }

  SQLite::Database& db_;
  std::filesystem::path other_;
  std::string uri_;
  MergeSummary summary_;
  std::unordered_map<int64_t, int64_t> contexts_;
};

/// What a damaged file has lost would be missed by nobody once it is merged.
void refuse_damaged(SQLite::Database& opened, const std::filesystem::path& other) {
  std::vector<std::string> problems;
  if (std::string line = opened.execAndGet("PRAGMA quick_check(1)").getString(); line != "ok") {
    problems.push_back("integrity: " + line);
  } else {
    problems = check_content(opened);
  }
  if (problems.empty()) return;
  throw DatabaseError(other.string() + " is damaged (" + problems.front() +
                      (problems.size() > 1 ? ", and more" : "") +
                      "): nothing was merged; `greta-db --db " + other.string() +
                      " check` says what");
}

/// Throws unless `other` can be merged into db's file.
/// Throws unless the other file can be merged; returns by which name.
std::string check_other(SQLite::Database& db, const std::filesystem::path& other) {
  SQLite::Database opened = open_unchanged(other);
  int64_t version = opened.execAndGet("PRAGMA user_version").getInt64();
  if (version != kSchemaVersion) {
    throw DatabaseError(other.string() + " has schema version " + std::to_string(version) +
                        ", not " + std::to_string(kSchemaVersion) + ": `greta-db --db " +
                        other.string() + " check` brings it forward");
  }
  if (const auto differences = definition_differences(opened); any_table(differences)) {
    throw DefinitionError(other.string() + " is not as greta makes it (" + text_of(differences) +
                          "): nothing was merged");
  }
  refuse_damaged(opened, other);
  if (opened.execAndGet("SELECT count(*) FROM ingest").getInt64() > 0) {
    throw DatabaseError(other.string() + " has an ingest that did not end: `greta-db --db " +
                        other.string() + " ingest --resume` finishes it");
  }
  std::error_code ignored;
  if (std::filesystem::equivalent(db.getFilename(), other, ignored)) {
    throw DatabaseError(other.string() + " is the database itself: name another one to merge");
  }
  const std::string& name = opened.getFilename();
  const bool is_uri = name.starts_with("file:");  // of one beside which nothing can be written
  return is_uri ? name : uri_of(std::filesystem::absolute(other)) + "?mode=ro";
}

}  // namespace

MergeSummary merge(SQLite::Database& db, const std::filesystem::path& other) {
  return Merge(db, other, check_other(db, other)).run();
}

}  // namespace greta
