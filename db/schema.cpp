#include "db/schema.h"

#include <algorithm>
#include <initializer_list>
#include <stdexcept>

#include "db/check.h"
#include "db/database.h"
#include "db/definitions.h"
#include "db/judge.h"
#include "db/row_statement.h"
#include "db/stored_sketch.h"
#include "db/transaction.h"

namespace greta {
namespace {

constexpr int64_t kOldestVersion = 8;  // that is brought forward

/// True if the definitions were last written by this build; another one's are brought forward.
bool is_of_this_build(SQLite::Database& db) {
  SQLite::Statement query(db, "SELECT value FROM meta WHERE key = 'views'");
  return query.executeStep() && query.getColumn(0).getString() == definitions_version();
}

[[noreturn]] void throw_beyond_repair(SQLite::Database& db,
                                      const std::vector<DefinitionDifference>& differences) {
  throw DefinitionError(
      db.getFilename() + " is not as greta makes it (" + text_of(differences) +
      "), and tables cannot be repaired: restore a copy, or ingest the sources into"
      " a new file");
}

[[noreturn]] void throw_not_ours(SQLite::Database& db,
                                 const std::vector<DefinitionDifference>& differences) {
  throw DefinitionError(db.getFilename() + " is not as greta makes it (" + text_of(differences) +
                        "), so no verdict in it counts: `greta-db --db " + db.getFilename() +
                        " check --repair` restores it");
}

/// Throws as check_current does where nothing brings the file to this build.
bool needs_migration(SQLite::Database& db) {
  if (pragma(db, "user_version") != kSchemaVersion) return true;
  const std::vector<DefinitionDifference> differences = definition_differences(db);
  if (differences.empty()) return false;
  if (any_table(differences)) throw_beyond_repair(db, differences);
  if (is_of_this_build(db)) throw_not_ours(db, differences);
  return true;
}

void note_version(SQLite::Database& db) {
  SQLite::Statement meta(db, "INSERT OR REPLACE INTO meta(key, value) VALUES ('views', ?)");
  meta.bind(1, definitions_version());
  meta.exec();
}

/// Throws DatabaseError if a file is of a format version that no build still brings forward.
void check_migratable(SQLite::Database& db) {
  const int64_t version = pragma(db, "user_version");
  if (version >= kOldestVersion) return;
  throw DatabaseError(db.getFilename() + " has format version " + std::to_string(version) +
                      ", which this greta-db no longer reads: ingest its sources into a new"
                      " file");
}

void drop_triggers_and_views(SQLite::Database& db) {
  SQLite::Statement all(db,
                        "SELECT printf('DROP %s \"%w\"', type, name) FROM sqlite_schema"
                        " WHERE type IN ('trigger', 'view')");
  std::vector<std::string> drops;
  while (all.executeStep()) drops.push_back(all.getColumn(0).getString());
  for (const std::string& drop : drops) db.exec(drop);
}

/// Fills `sketch` from sketch_9, equal ones of a run once. temp.new_sketch says which a row has.
void convert_sketches(SQLite::Database& db) {
  db.exec(
      "DROP TABLE IF EXISTS temp.new_sketch;"
      "CREATE TEMP TABLE new_sketch(vector_id INTEGER PRIMARY KEY, sketch_id INTEGER NOT NULL)");
  std::string marks = "?";
  for (int i = 1; i < 5 + 32; ++i) marks += ", ?";
  RowStatement rows(db,
                    "SELECT t.run_id, k.* FROM trace_row_9 t"
                    " CROSS JOIN sketch_9 k ON k.id = t.vector_id"),
      insert(db, "INSERT INTO sketch VALUES (" + marks + ")"),
      note(db, "INSERT OR IGNORE INTO temp.new_sketch VALUES (?, ?)");
  SketchIds ids;
  int64_t last_id = 0;
  while (rows.step()) {
    RowSketch sketch{rows.integer(2), rows.integer(3) != 0, rows.real(4), {}};
    for (size_t i = 0; i < sketch.bucket.size(); ++i)
      sketch.bucket[i] = rows.real(5 + static_cast<int>(i));
    const StoredSketch stored = stored_form(sketch);
    int64_t& id = ids.of(rows.integer(0), stored);
    if (id == 0) {
      id = ++last_id;
      insert.bind(id);
      insert.bind(stored.n);
      insert.bind(int64_t{stored.derived});
      insert.bind(stored.sum_sq);
      insert.bind(stored.scale);
      for (const int32_t value : stored.bucket) insert.bind(int64_t{value});
      insert.run();
    }
    note.bind(rows.integer(1));
    note.bind(id);
    note.run();
  }
  rows.reset();
}

/// Brings rows and sketches of a file of format version 8 or 9 into the tables of this build.
void migrate_rows(SQLite::Database& db) {
  for (const char* table : {"trace_row", "sketch", "difference"}) {
    db.exec(std::string("ALTER TABLE ") + table + " RENAME TO " + table + "_9");
  }
  for (const Definition& ours : definitions()) {
    const std::string_view kCreate = "CREATE TABLE ";
    if (ours.type == "table")
      db.exec("CREATE TABLE IF NOT EXISTS " + ours.sql.substr(kCreate.size()));
  }
  convert_sketches(db);
  db.exec(sql_of_file("db/sql/migrate_9_to_10.sql"));
  db.exec(find_definition("standing")->sql);
  correct_standings(db);
}

/// Brings the tables of a file of an older format version to this one, inside the caller's
/// transaction. Every view of the file goes, also one that is not greta's.
void migrate_tables(SQLite::Database& db) {
  check_migratable(db);
  drop_triggers_and_views(db);
  if (pragma(db, "user_version") < 10) migrate_rows(db);
  for (const std::string table : {"class", "edge", "finding"}) {  // which the program brings
    db.exec("DROP TABLE " + table);
    db.exec(find_definition(table)->sql);
    db.exec("INSERT INTO " + table + " " + shipped_rows(table));
  }
  db.exec("DELETE FROM verdict; DELETE FROM run_change");
  db.exec("PRAGMA user_version = " + std::to_string(kSchemaVersion));
}

}  // namespace

int64_t pragma(SQLite::Database& db, const char* name) {
  return db.execAndGet(std::string("PRAGMA ") + name).getInt64();
}

std::string sql_of_file(std::string_view path) {
  for (const SqlFile& file : sql_files()) {
    if (file.path == path) return std::string(file.text);
  }
  throw std::logic_error("no file " + std::string(path));
}

std::string columns_of(SQLite::Database& db, const std::string& table) {
  return db.execAndGet("SELECT group_concat(name, ', ') FROM pragma_table_info('" + table + "')")
      .getString();
}

// A CREATE looks through all that is there, which for all views takes twice as long as the rest of
// a new file. So they are written down as CREATE leaves them.
void write_views_down(SQLite::Database& db, const std::string& schema) {
  db.exec("PRAGMA writable_schema = ON");
  SQLite::Statement view(db, "INSERT INTO " + schema +
                                 ".sqlite_schema(type, name, tbl_name, rootpage, sql)"
                                 " VALUES ('view', ?1, ?1, 0, ?2)");
  for (const Definition& ours : definitions()) {
    if (ours.type != "view") continue;
    view.bindNoCopy(1, ours.name);
    view.bindNoCopy(2, ours.sql);
    view.exec();
    view.reset();
  }
  db.exec("PRAGMA writable_schema = RESET");  // and what was written is read
}

void create_schema(SQLite::Database& db) {
  const auto create = [&db](std::initializer_list<std::string_view> types) {
    for (const Definition& ours : definitions()) {
      if (std::ranges::find(types, ours.type) != types.end()) db.exec(ours.sql);
    }
  };
  create({"table", "index"});
  // before the triggers, which each statement would prepare
  db.exec(sql_of_file("db/dictionary.sql"));
  write_views_down(db, "main");
  create({"trigger"});
  note_version(db);
  db.exec("PRAGMA application_id = " + std::to_string(kApplicationId));
  db.exec("PRAGMA user_version = " + std::to_string(kSchemaVersion));
}

void check_current(SQLite::Database& db, const std::filesystem::path& file) {
  if (!needs_migration(db)) return;
  check_migratable(db);
  const int64_t version = pragma(db, "user_version");
  throw DatabaseError(file.string() +
                      (version < kSchemaVersion
                           ? " has format version " + std::to_string(version) + ", not " +
                                 std::to_string(kSchemaVersion)
                           : std::string(" has the views of another build of greta-db")) +
                      ": `greta-db upgrade " + file.string() + "` brings it to this one");
}

void migrate(SQLite::Database& db) {
  if (needs_migration(db)) bring_to_this_build(db);
}

void bring_to_this_build(SQLite::Database& db) {
  db.exec("PRAGMA foreign_keys = OFF");  // takes no effect within the transaction
  try {
    in_transaction(db, [&db] {
      if (pragma(db, "user_version") < kSchemaVersion) migrate_tables(db);
      const std::vector<DefinitionDifference> differences = definition_differences(db);
      if (any_table(differences)) throw_beyond_repair(db, differences);
      if (differences.empty() && is_of_this_build(db)) return;
      restore_definitions(db, differences);
      for (const std::string table : {"edge", "finding"}) {  // which views of this build know
        db.exec("DELETE FROM " + table + "; INSERT INTO " + table + " " + shipped_rows(table));
      }
      note_version(db);
    });
  } catch (...) {
    db.tryExec("PRAGMA foreign_keys = ON");
    throw;
  }
  db.exec("PRAGMA foreign_keys = ON");
  try {
    judge_rest(db);                     // so that the first question does not wait for all runs
  } catch (const SQLite::Exception&) {  // which shows when a verdict is asked for
  }
}

}  // namespace greta
