#include "db/merge.h"

#include <string>
#include <vector>

#include "db/check.h"
#include "db/commit_graph.h"
#include "db/database.h"
#include "db/definitions.h"
#include "db/difference.h"
#include "db/forget.h"
#include "db/judge.h"
#include "db/merge_maps.h"
#include "db/merge_rows.h"
#include "db/row_statement.h"
#include "db/run_records.h"
#include "db/schema.h"
#include "db/trace_writer.h"

namespace greta {
namespace {

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
    -- whoever measured it, and when: what comes from elsewhere excuses nothing here
    WHERE (excluded.rel_l2, excluded.measured_at) < (rel_l2, measured_at);
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
  INSERT OR IGNORE INTO main.ingest_error(source_id, file, line, severity, reason, raw, about)
    SELECT s.id, x.file, x.line, x.severity, x.reason, x.raw, x.about FROM other.ingest_error x
    LEFT JOIN temp.merge_source s ON s.other_id = x.source_id
    WHERE x.source_id IS NULL OR s.is_new ORDER BY x.id;
)";

constexpr const char* kCopyCommits = R"(
  INSERT OR IGNORE INTO main.commit_parent SELECT * FROM other.commit_parent;
  INSERT OR IGNORE INTO main.commit_node SELECT * FROM other.commit_node;
)";

/// Values of kInsertDifference, then its id there. Each says of which hashes it speaks, so that it
/// cannot be of other rows than here.
constexpr const char* kDifferences = R"(
  SELECT r.id, q.id, x.pos_id, x.layer, t.id, x.prefill_hash, x.decode_hash, x.n, x.differing,
         x.first_at, x.last_at, x.rel_l2, x.max_abs, x.max_abs_at, x.max_ulp, x.heads, x.segments, x.id
  FROM other.difference x
  JOIN temp.merge_run r ON r.other_id = x.run_id
  JOIN temp.merge_prompt q ON q.other_id = x.prompt_id
  JOIN temp.merge_tensor t ON t.other_id = x.tensor_id)";

/// Runs whose verdict may change: those of both files, those whose model has other noise floors,
/// and those that an error of no source counts for.
constexpr const char* kChangedRuns = R"(
  SELECT id FROM temp.merge_run
  UNION
  SELECT a.run_id FROM other.noise_floor f
  JOIN main.attribute a ON a.value = f.model_sha256 AND a.dim IN ('model_root', 'model_sha256')
  UNION
  SELECT r.id FROM other.ingest_error e JOIN main.run r ON r.name = e.about
  WHERE e.source_id IS NULL AND e.severity = 'error'
  UNION
  SELECT r.id FROM other.ingest_error e JOIN main.run r ON r.name > e.about || '/' AND r.name < e.about || '0'
  WHERE e.source_id IS NULL AND e.severity = 'error')";

constexpr const char* kRefreshLineages = R"(
  INSERT OR REPLACE INTO main.lineage_member
    SELECT l.* FROM run_lineage l WHERE l.run_id IN (SELECT id FROM temp.merge_run))";

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
      transaction.commit();
    } catch (...) {
      detach();
      throw;
    }
    detach();
    judge_rest(db_);
    return summary_;
  }

 private:
  void attach() {
    drop_merge_maps(db_);
    SQLite::Statement attach(db_, "ATTACH ? AS other");
    attach.bind(1, uri_);
    attach.exec();
    create_merge_maps(db_);
  }

  void detach() {
    drop_merge_maps(db_);
    db_.tryExec("DETACH other");
  }

  void copy_all() {
    summary_.renamed = map_runs(db_);
    map_dictionaries(db_);
    refuse_other_hashes();
    TraceWriter writer(db_);
    map_names(db_, writer);
    forget_what_is_whole_there();
    map_sources(db_);
    refuse_other_rows();
    count_sources();
    if (summary_.new_sources > 0) copy_rows(writer);
    db_.exec(kCopyRest);
    db_.exec(std::string(kSetStatus) + "(SELECT id FROM temp.merge_run)");
    copy_differences();
    db_.exec(kCopyReadouts);
    for (auto [column, dim] : {std::pair{"date", "date"},
                               {"commit_sha", "commit"},
                               {"mode", "mode"},
                               {"dtype", "dtype"},
                               {"seed", "seed"}}) {
      db_.exec(settle_sql(column, dim));
    }
    db_.exec(kSettleRest);
    db_.exec(kRefreshLineages);
    forget_verdicts();
    const auto count = [&](const char* table) {
      return db_.execAndGet("SELECT count(*) FROM other." + std::string(table)).getInt64();
    };
    summary_.pins_left = count("pinned_baseline");
    summary_.waivers_left = count("waiver");
    db_.exec(kCopyCommits);
    if (db_.execAndGet("SELECT changes()").getInt64() > 0) order_commits(db_);
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

  void count_sources() {
    auto count = [this](const char* sql) { return db_.execAndGet(sql).getInt64(); };
    summary_.new_runs = count("SELECT count(*) FROM temp.merge_run WHERE is_new");
    summary_.new_sources = count("SELECT count(*) FROM temp.merge_source WHERE is_new");
    summary_.known_sources = count("SELECT count(*) FROM temp.merge_source WHERE NOT is_new");
  }

  void copy_rows(TraceWriter& writer) {
    const MergedRows copied = merge_rows(db_, writer, other_);
    summary_.rows = copied.rows;
    summary_.duplicates = copied.duplicates;
    summary_.conflicts = copied.conflicts;
  }

  void copy_differences() {
    RowStatement there(db_, kDifferences), insert(db_, kInsertDifference),
        drop_parts(db_, kDropDifferenceParts),
        parts(db_,
              "INSERT INTO main.difference_part SELECT ?, segment, share_ppm"
              " FROM other.difference_part WHERE difference_id = ?");
    while (there.step()) {
      for (int i = 0; i < kDifferenceValues; ++i) insert.bind_column(there, i);
      if (insert.step()) {
        const int64_t id = insert.integer(0);
        drop_parts.bind(id);
        drop_parts.run();
        parts.bind(id);
        parts.bind(there.integer(kDifferenceValues));
        parts.run();
      }
      insert.reset();
    }
    there.reset();
  }

  void forget_verdicts() {
    SQLite::Statement runs(db_, kChangedRuns);
    while (runs.executeStep()) forget_verdict(db_, runs.getColumn(0).getInt64());
  }

  SQLite::Database& db_;
  std::filesystem::path other_;
  std::string uri_;
  MergeSummary summary_;
};

/// What a damaged file has lost would be missed by nobody once it is merged.
void refuse_damaged(SQLite::Database& opened, const std::filesystem::path& other,
                    const std::string& called) {
  std::vector<std::string> problems;
  if (std::string line = opened.execAndGet("PRAGMA quick_check(1)").getString(); line != "ok") {
    problems.push_back("integrity: " + line);
  } else {
    problems = check_content(opened);
  }
  if (problems.empty()) return;
  const std::string what = problems.front() + (problems.size() > 1 ? ", and more" : "");
  if (!called.empty()) {
    throw DatabaseError("what came from " + called + " is damaged (" + what +
                        "): nothing was merged");
  }
  throw DatabaseError(other.string() + " is damaged (" + what +
                      "): nothing was merged; `greta-db --db " + other.string() +
                      " check` says what");
}

/// Throws unless the other file can be merged; returns by which name.
std::string check_other(SQLite::Database& db, const std::filesystem::path& other,
                        const std::string& called) {
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
  refuse_damaged(opened, other, called);
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

MergeSummary merge(SQLite::Database& db, const std::filesystem::path& other,
                   const std::string& called) {
  const std::string uri = check_other(db, other, called);
  return Merge(db, called.empty() ? other : std::filesystem::path(called), uri).run();
}

}  // namespace greta
