#include "db/schema.h"

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "db/database.h"
#include "db/definitions.h"
#include "db/judge.h"
#include "db/sql_files.h"
#include "db/transaction.h"

namespace greta {
namespace {

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

void note_version(SQLite::Database& db) {
  SQLite::Statement meta(db, "INSERT OR REPLACE INTO meta(key, value) VALUES ('views', ?)");
  meta.bind(1, definitions_version());
  meta.exec();
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
  const auto is_of_rows = [](const Definition& ours) {
    return ours.type == "table" || ours.type == "index";
  };
  for (const Definition& ours : definitions()) {
    if (is_of_rows(ours)) db.exec(ours.sql);
  }
  db.exec(
      sql_of_file("db/dictionary.sql"));  // before the triggers, which each statement would prepare
  write_views_down(db, "main");
  for (const Definition& ours : definitions()) {
    if (ours.type == "trigger") db.exec(ours.sql);
  }
  note_version(db);
  db.exec("PRAGMA application_id = " + std::to_string(kApplicationId));
  db.exec("PRAGMA user_version = " + std::to_string(kSchemaVersion));
}

bool needs_migration(SQLite::Database& db) {
  if (pragma(db, "user_version") != kSchemaVersion) return true;
  const std::vector<DefinitionDifference> differences = definition_differences(db);
  if (differences.empty()) return false;
  if (any_table(differences)) throw_beyond_repair(db, differences);
  if (is_of_this_build(db)) throw_not_ours(db, differences);
  return true;
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
  // Outside the transaction, where alone they take effect. A view of somebody else must not stop a
  // table from being renamed.
  db.exec("PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON");
  try {
    in_transaction(db, [&db] {
      if (pragma(db, "user_version") < kSchemaVersion) migrate_to_10(db);
      const std::vector<DefinitionDifference> differences = definition_differences(db);
      if (any_table(differences)) throw_beyond_repair(db, differences);
      if (differences.empty() && is_of_this_build(db)) return;
      restore_definitions(db, differences);
      note_version(db);
    });
  } catch (...) {
    db.tryExec("PRAGMA legacy_alter_table = OFF; PRAGMA foreign_keys = ON");
    throw;
  }
  db.exec("PRAGMA legacy_alter_table = OFF; PRAGMA foreign_keys = ON");
  try {
    judge_rest(db);                     // so that the first question does not wait for all runs
  } catch (const SQLite::Exception&) {  // which shows when a verdict is asked for
  }
}

}  // namespace greta
