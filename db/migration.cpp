#include <string>
#include <string_view>
#include <vector>

#include "db/check.h"
#include "db/database.h"
#include "db/definitions.h"
#include "db/row_statement.h"
#include "db/schema.h"
#include "db/stored_sketch.h"

namespace greta {
namespace {

constexpr int64_t kOldestVersion = 8;

void drop_triggers(SQLite::Database& db) {
  SQLite::Statement triggers(
      db, "SELECT printf('DROP TRIGGER \"%w\"', name) FROM sqlite_schema WHERE type = 'trigger'");
  std::vector<std::string> drops;
  while (triggers.executeStep()) drops.push_back(triggers.getColumn(0).getString());
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

}  // namespace

void check_migratable(SQLite::Database& db) {
  const int64_t version = pragma(db, "user_version");
  if (version >= kOldestVersion) return;
  throw DatabaseError(db.getFilename() + " has format version " + std::to_string(version) +
                      ", which this greta-db no longer reads: ingest its sources into a new"
                      " file");
}

void migrate_to_10(SQLite::Database& db) {
  check_migratable(db);
  drop_triggers(db);
  for (const char* table : {"trace_row", "sketch", "difference"}) {
    db.exec(std::string("ALTER TABLE ") + table + " RENAME TO " + table + "_9");
  }
  for (const Definition& ours : definitions()) {
    const std::string_view kCreate = "CREATE TABLE ";
    if (ours.type == "table")
      db.exec("CREATE TABLE IF NOT EXISTS " + ours.sql.substr(kCreate.size()));
  }
  convert_sketches(db);
  db.exec(sql_of_file("db/migrate_9_to_10.sql"));
  db.exec("DROP TABLE temp.new_sketch");
  for (const std::string table : {"edge", "finding"}) {  // which the program brings with it
    db.exec("DELETE FROM " + table + "; INSERT INTO " + table + " " + shipped_rows(table));
  }
  db.exec(find_definition("standing")->sql);
  correct_standings(db);
  db.exec("PRAGMA user_version = " + std::to_string(kSchemaVersion));
}

}  // namespace greta
