#include "db/merge_maps.h"

#include <cstdint>

#include "db/run_records.h"

namespace greta {
namespace {

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

/// A prompt of a run of both files that is not the same there and here.
constexpr const char* kFindOtherPrompts = R"(
  INSERT OR IGNORE INTO main.ingest_error(file, line, severity, reason, about)
    SELECT r.name, 0, 'error', 'prompt ' || p.name || ?, r.name
    FROM other.prompt p JOIN temp.merge_run m ON m.other_id = p.run_id
    JOIN main.run r ON r.id = m.id JOIN main.prompt q ON q.run_id = m.id AND q.name = p.name
    WHERE (q.n_tokens <> p.n_tokens OR q.text_sha256 <> p.text_sha256 OR q.token_ids <> p.token_ids)
      AND p.name NOT GLOB 'seg[0-9]*'  -- a number, not a name
    ORDER BY p.id)";

constexpr const char* kMapDictionaries = R"(
  INSERT INTO main.prompt(run_id, name, n_tokens, text_sha256, token_ids)
    SELECT m.id, p.name, p.n_tokens, p.text_sha256, p.token_ids
    FROM other.prompt p JOIN temp.merge_run m ON m.other_id = p.run_id WHERE true ORDER BY p.id
    ON CONFLICT(run_id, name) DO UPDATE SET
      n_tokens = coalesce(max(n_tokens, excluded.n_tokens), n_tokens, excluded.n_tokens),
      text_sha256 = coalesce(max(text_sha256, excluded.text_sha256), text_sha256, excluded.text_sha256),
      token_ids = coalesce(max(token_ids, excluded.token_ids), token_ids, excluded.token_ids);
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

/// New runs, under names that are free here.
std::vector<std::pair<std::string, std::string>> add_runs(SQLite::Database& db) {
  std::vector<std::pair<std::string, std::string>> renamed;
  SQLite::Statement runs(db,
                         "SELECT o.id, o.name FROM other.run o JOIN temp.merge_run m"
                         " ON m.other_id = o.id WHERE m.is_new ORDER BY o.id");
  SQLite::Statement add(db, kAddRun);
  SQLite::Statement map(db, "UPDATE temp.merge_run SET id = ? WHERE other_id = ?");
  while (runs.executeStep()) {
    int64_t other_id = runs.getColumn(0);
    std::string there = runs.getColumn(1), here = free_run_name(db, there);
    add.bind(1, here);
    add.bind(2, other_id);
    add.exec();
    add.reset();
    map.bind(1, db.getLastInsertRowid());
    map.bind(2, other_id);
    map.exec();
    map.reset();
    if (here != there) renamed.emplace_back(there, here);
  }
  return renamed;
}

}  // namespace

void create_merge_maps(SQLite::Database& db) { db.exec(kCreateMaps); }

void drop_merge_maps(SQLite::Database& db) { db.tryExec(kDropMaps); }

std::vector<std::pair<std::string, std::string>> map_runs(SQLite::Database& db) {
  db.exec(kMapRuns);
  return add_runs(db);
}

void map_dictionaries(SQLite::Database& db) {
  SQLite::Statement others(db, kFindOtherPrompts);
  others.bind(1, kIsAnnouncedAsTwo);
  others.exec();
  db.exec(kMapDictionaries);
}

void map_names(SQLite::Database& db, TraceWriter& writer) {
  SQLite::Statement names(
      db,
      "SELECT n.id, n.name, n.tensor_id, k.name, n.cause FROM other.tensor_name n"
      " JOIN other.tensor k ON k.id = n.tensor_id ORDER BY n.id");
  SQLite::Statement known(db, "SELECT 1 FROM main.tensor_name WHERE name = ?");
  SQLite::Statement alias(db,
                          "INSERT INTO main.tensor_name(name, tensor_id, cause) VALUES (?, ?, ?)");
  SQLite::Statement map_name(db, "INSERT INTO temp.merge_name VALUES (?, ?, ?)");
  SQLite::Statement map_tensor(db, "INSERT OR IGNORE INTO temp.merge_tensor VALUES (?, ?)");
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

void map_sources(SQLite::Database& db) { db.exec(kMapSources); }

}  // namespace greta
