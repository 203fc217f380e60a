#include "db/database.h"

#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <fstream>

#include "db/sql_files.h"

namespace greta {
namespace {

constexpr int kBusyTimeoutMs = 60'000;

bool is_in(const SqlFile& file, std::string_view folder) {
  return file.path.starts_with(folder) &&
         file.path.find('/', folder.size()) == std::string_view::npos;
}

/// Name of the view a queries/ file creates: its file name without ".sql".
std::string_view view_name(const SqlFile& file) {
  std::string_view name = file.path.substr(file.path.rfind('/') + 1);
  return name.substr(0, name.size() - 4);
}

bool is_view(const SqlFile& file) {
  return is_in(file, "queries/") || is_in(file, "queries/internal/");
}

int64_t pragma(SQLite::Database& db, const char* name) {
  return db.execAndGet(std::string("PRAGMA ") + name).getInt64();
}

/// FNV-1a over the text of every view: tells whether a file's views are those of this build.
std::string views_version() {
  uint64_t hash = 14695981039346656037u;
  for (const SqlFile& file : sql_files()) {
    if (!is_view(file)) continue;
    for (unsigned char c : file.text) hash = (hash ^ c) * 1099511628211u;
  }
  return std::to_string(hash);
}

void create_views(SQLite::Database& db) {
  for (const SqlFile& file : sql_files()) {
    if (!is_view(file)) continue;
    db.exec("DROP VIEW IF EXISTS " + std::string(view_name(file)));
    db.exec(std::string(file.text));
  }
  SQLite::Statement meta(db, "INSERT OR REPLACE INTO meta(key, value) VALUES ('views', ?)");
  meta.bind(1, views_version());
  meta.exec();
}

void create_schema(SQLite::Database& db) {
  for (const SqlFile& file : sql_files()) {
    if (file.path == "db/schema.sql") db.exec(std::string(file.text));
  }
  for (const SqlFile& file : sql_files()) {
    if (file.path == "db/dictionary.sql") db.exec(std::string(file.text));
  }
  create_views(db);
  db.exec("PRAGMA application_id = " + std::to_string(kApplicationId));
  db.exec("PRAGMA user_version = " + std::to_string(kSchemaVersion));
}

bool is_empty(SQLite::Database& db) {
  return db.execAndGet("SELECT count(*) FROM sqlite_schema").getInt64() == 0;
}

/// Throws when the file holds something else. SQLite itself would take a short file for an empty
/// database and write over it.
void check_header(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  char header[16] = {};
  if (!in.read(header, sizeof header) && in.gcount() == 0) return;  // new, empty, or not readable
  if (std::string_view(header, sizeof header) != std::string_view("SQLite format 3", sizeof header)) {
    throw DatabaseError(file.string() + " is not a database");
  }
}

/// Of several creators one makes the file a WAL database, and the others are told that it is busy
/// without SQLite waiting for them.
void use_wal(SQLite::Database& db) {
  auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kBusyTimeoutMs);
  for (;; sqlite3_sleep(1)) {
    try {
      db.exec("PRAGMA journal_mode = WAL");
      return;
    } catch (const SQLite::Exception& error) {
      if (error.getErrorCode() != SQLITE_BUSY || std::chrono::steady_clock::now() > deadline) throw;
    }
  }
}

/// Throws unless the file is greta's and of a version this build knows.
void check_identity(SQLite::Database& db, const std::filesystem::path& file) {
  if (pragma(db, "application_id") != kApplicationId) {
    throw DatabaseError(file.string() + " is a SQLite file, but not a greta database");
  }
  int64_t version = pragma(db, "user_version");
  if (version > kSchemaVersion) {
    throw DatabaseError(file.string() + " has schema version " + std::to_string(version) +
                        ", newer than this program's " + std::to_string(kSchemaVersion) +
                        ": use a newer greta-db");
  }
}

/// Brings an older file forward, one version at a time. Version 1 is the first.
void migrate(SQLite::Database& db) {
  SQLite::Statement query(db, "SELECT value FROM meta WHERE key = 'views'");
  if (query.executeStep() && query.getColumn(0).getString() == views_version()) return;
  query.reset();
  db.exec("BEGIN IMMEDIATE");
  try {
    db.exec("UPDATE run SET tally = NULL");  // a tally is the result of the old views
    create_views(db);
    db.exec("COMMIT");
  } catch (...) {
    db.tryExec("ROLLBACK");
    throw;
  }
}

}  // namespace

SQLite::Database open_for_reading(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) {
    throw DatabaseError("no database at " + file.string() +
                        ": create it with `greta-db --db FILE ingest PATH...`");
  }
  check_header(file);
  // A writer that was killed may have left a journal, which only a writer can roll back.
  if (std::filesystem::exists(file.string() + "-journal")) {
    SQLite::Database repair(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_NOMUTEX, kBusyTimeoutMs);
    repair.tryExec("SELECT count(*) FROM sqlite_schema");
  }
  SQLite::Database db(file.string(), SQLite::OPEN_READONLY | SQLite::OPEN_NOMUTEX, kBusyTimeoutMs);
  db.exec("PRAGMA query_only = ON; PRAGMA temp_store = MEMORY");
  if (is_empty(db)) throw DatabaseError(file.string() + " is empty: nothing was ingested into it");
  check_identity(db, file);
  return db;
}

SQLite::Database open_for_writing(const std::filesystem::path& file) {
  check_header(file);
  SQLite::Database db(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_NOMUTEX, kBusyTimeoutMs);
  if (!is_empty(db)) check_identity(db, file);  // before anything is written to a file of others
  // 8 KiB pages hold some 75 rows each: a sixth faster to fill than 4 KiB, measured by script/bench.
  db.exec("PRAGMA page_size = 8192");
  use_wal(db);
  db.exec(
      "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -65536; PRAGMA secure_delete = OFF;"
      "PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 4000");
  if (is_empty(db)) {
    db.exec("BEGIN IMMEDIATE");  // of two creators, the second finds the schema
    try {
      if (is_empty(db)) create_schema(db);
      db.exec("COMMIT");
    } catch (...) {
      db.tryExec("ROLLBACK");
      throw;
    }
  }
  check_identity(db, file);
  migrate(db);
  return db;
}

void make_durable(SQLite::Database& db) {
  SQLite::Statement checkpoint(db, "PRAGMA wal_checkpoint(TRUNCATE)");
  checkpoint.executeStep();
}

BulkJournal::BulkJournal(SQLite::Database& db) : db_(db) {
  db_.setBusyTimeout(0);  // somebody reads it: stay as it is
  db_.tryExec("PRAGMA journal_mode = DELETE");
  db_.setBusyTimeout(kBusyTimeoutMs);
}

BulkJournal::~BulkJournal() {
  // If somebody has begun to read it, the next writer makes the change.
  db_.tryExec("PRAGMA busy_timeout = 0; PRAGMA journal_mode = WAL");
  db_.tryExec(("PRAGMA busy_timeout = " + std::to_string(kBusyTimeoutMs)).c_str());
}

std::string free_run_name(SQLite::Database& db, const std::string& name) {
  SQLite::Statement taken(db, "SELECT 1 FROM run WHERE name = ?");
  const auto is_free = [&taken](const std::string& candidate) {
    taken.reset();
    taken.bind(1, candidate);
    return !taken.executeStep();
  };
  if (is_free(name)) return name;
  size_t end = name.find_last_not_of("0123456789");
  bool numbered = end != std::string::npos && name[end] == '#' && end + 1 < name.size();
  std::string base = name.substr(0, numbered ? end : name.size());
  for (int64_t i = 2;; ++i) {
    std::string candidate = base + "#" + std::to_string(i);
    if (is_free(candidate)) return candidate;
  }
}

void keep_tally(SQLite::Database& db, int64_t run_id) {
  SQLite::Statement update(
      db,
      "UPDATE run SET tally = (SELECT json_group_array(packed) FROM tally WHERE run_id = ?1)"
      " WHERE id = ?1 AND tally IS NULL");
  update.bind(1, run_id);
  update.exec();
}

std::vector<int64_t> runs_without_tally(SQLite::Database& db, int64_t max_rows) {
  SQLite::Statement query(
      db,
      "SELECT id FROM run WHERE tally IS NULL AND status <> 'running'"
      " AND (SELECT count(*) FROM (SELECT 1 FROM trace_row WHERE run_id = run.id LIMIT ?1 + 1)) <= ?1");
  query.bind(1, max_rows);
  std::vector<int64_t> ids;
  while (query.executeStep()) ids.push_back(query.getColumn(0).getInt64());
  return ids;
}

std::vector<std::string> check_database(SQLite::Database& db) {
  std::vector<std::string> problems;
  SQLite::Statement integrity(db, "PRAGMA integrity_check");
  while (integrity.executeStep()) {
    std::string line = integrity.getColumn(0).getString();
    if (line != "ok") problems.push_back("integrity: " + line);
  }
  SQLite::Statement keys(db, "PRAGMA foreign_key_check");
  while (keys.executeStep()) {
    problems.push_back("foreign key: a row of " + keys.getColumn(0).getString() +
                       " refers to a missing row of " + keys.getColumn(2).getString());
  }
  for (auto [column, table] : {std::pair{"run_id", "run"},
                               {"prompt_id", "prompt"},
                               {"phase_id", "phase"},
                               {"tensor_id", "tensor"},
                               {"name_id", "tensor_name"},
                               {"context_id", "row_context"},
                               {"source_id", "source"}}) {
    int64_t orphans =
        db.execAndGet(std::string("SELECT count(*) FROM trace_row WHERE ") + column +
                      " IS NOT NULL AND " + column + " NOT IN (SELECT id FROM " + table + ")")
            .getInt64();
    if (orphans > 0) {
      problems.push_back("trace_row: " + std::to_string(orphans) + " rows with a " + column +
                         " that " + table + " does not have");
    }
  }
  int64_t without_vector =
      db.execAndGet("SELECT count(*) FROM trace_row WHERE vector_id IS NOT NULL"
                    " AND vector_id NOT IN (SELECT id FROM sample) AND vector_id NOT IN (SELECT id FROM sketch)")
          .getInt64();
  if (without_vector > 0) {
    problems.push_back("trace_row: " + std::to_string(without_vector) + " rows without their sample or sketch");
  }
  // An engine counts its rows in the transaction that writes them.
  SQLite::Statement lost(db,
                         "SELECT r.name, s.rows - s.duplicates,"
                         "  (SELECT count(*) FROM trace_row t WHERE t.run_id = r.id AND t.source_id = s.id) AS stored"
                         " FROM source s JOIN run r ON r.id = s.run_id"
                         " WHERE s.shape = 'engine' AND stored < s.rows - s.duplicates");
  while (lost.executeStep()) {
    problems.push_back("trace_row: " + lost.getColumn(2).getString() + " rows of run " + lost.getColumn(0).getString() +
                       ", whose engine wrote " + lost.getColumn(1).getString());
  }
  return problems;
}

}  // namespace greta
