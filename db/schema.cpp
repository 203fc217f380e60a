#include "db/schema.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "db/database.h"
#include "db/definitions.h"
#include "db/judge.h"
#include "db/kept_tally.h"
#include "db/sql_files.h"
#include "db/transaction.h"

namespace greta {
namespace {

void execute_file(SQLite::Database& db, std::string_view path) {
  for (const SqlFile& file : sql_files()) {
    if (file.path == path) db.exec(std::string(file.text));
  }
}

/// Whether the definitions were last written by this build; another one's are brought forward.
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

/// Views, written down as CREATE leaves them: after each CREATE, SQLite looks through all that is
/// there, which for a hundred views takes twice as long as the rest of a new file.
void write_views_down(SQLite::Database& db) {
  db.exec("PRAGMA writable_schema = ON");
  SQLite::Statement view(db,
                         "INSERT INTO sqlite_schema(type, name, tbl_name, rootpage, sql)"
                         " VALUES ('view', ?1, ?1, 0, ?2)");
  for (const Definition& ours : definitions()) {
    if (ours.type != "view" || !ours.in_file) continue;
    view.bindNoCopy(1, ours.name);
    view.bindNoCopy(2, ours.sql);
    view.exec();
    view.reset();
  }
  db.exec("PRAGMA writable_schema = RESET");  // and what was written is read
}

/// Makes all but the tables those of this build. Throws DatabaseError when it cannot.
void restore(SQLite::Database& db) {
  const std::vector<DefinitionDifference> left = restore_definitions(db);
  if (!left.empty()) throw_beyond_repair(db, left);
  note_version(db);
}

/// Copies a table of few rows; those whose key is there stay as they are.
void copy_rows(SQLite::Database& from, SQLite::Database& to, const std::string& table) {
  SQLite::Statement rows(from, "SELECT * FROM " + table);
  std::string marks = "?";
  for (int i = 1; i < rows.getColumnCount(); ++i) marks += ", ?";
  SQLite::Statement insert(to, "INSERT OR IGNORE INTO " + table + " VALUES (" + marks + ")");
  while (rows.executeStep()) {
    for (int i = 0; i < rows.getColumnCount(); ++i) {
      const SQLite::Column value = rows.getColumn(i);
      if (value.isInteger()) {
        insert.bind(i + 1, value.getInt64());
      } else if (!value.isNull()) {
        insert.bind(i + 1, value.getString());
      }
    }
    insert.exec();
    insert.reset();
    insert.clearBindings();
  }
}

/// What the schema of today declares, to take definitions from.
SQLite::Database empty_schema() {
  SQLite::Database db(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  execute_file(db, "db/schema.sql");
  execute_file(db, "db/dictionary.sql");
  return db;
}

void drop_triggers(SQLite::Database& db) {
  SQLite::Statement triggers(
      db, "SELECT printf('DROP TRIGGER \"%w\"', name) FROM sqlite_schema WHERE type = 'trigger'");
  std::vector<std::string> drops;
  while (triggers.executeStep()) drops.push_back(triggers.getColumn(0).getString());
  for (const std::string& drop : drops) db.exec(drop);
}

void drop_views(SQLite::Database& db) {
  for (const char* view :
       {"diff_count", "kept_origin", "pair_decode_only", "pair_graded", "pair_inputs",
        "pair_joined", "pair_prefill_only", "pair_report", "pair_report_inputs", "pair_status",
        "place_onset", "sketch_pair", "traced_both", "verdict_count", "verdict_first"}) {
    db.exec(std::string("DROP VIEW IF EXISTS ") + view);  // of earlier versions
  }
  for (const Definition& ours : definitions()) {
    if (ours.type == "view") db.exec("DROP VIEW IF EXISTS " + ours.name);
  }
}

/// Version 2: trace rows are keyed by place, side and a number.
void migrate_1_to_2(SQLite::Database& db) {
  db.exec(
      "ALTER TABLE trace_row RENAME TO trace_row_v1; ALTER TABLE trace_repeat RENAME TO "
      "trace_repeat_v1");
  create_missing_tables(db);
  execute_file(db, "db/migrate_1_to_2.sql");
}

/// Gives a table the columns that it has today: those that it had keep their values, others have
/// their default.
void rebuild(SQLite::Database& db, const std::string& table) {
  const std::string columns = columns_of(db, table);
  db.exec("ALTER TABLE " + table + " RENAME TO old_" + table);
  create_missing_tables(db);
  db.exec("INSERT INTO " + table + "(" + columns + ") SELECT " + columns + " FROM old_" + table);
  db.exec("DROP TABLE old_" + table);
}

/// Tables that hold nothing but what is worked out, or brought, again.
constexpr const char* kMadeAgain[] = {"kept_tally", "kept_verdict", "kept_diff", "lineage_member",
                                      "edge"};
/// Tables whose rows the program brings with it.
constexpr const char* kDictionaries[] = {"status", "class",  "scope", "measure", "axis",
                                         "truth",  "origin", "cause", "edge",    "finding"};

/// Format version since which files have rules of their own, which somebody may have changed.
constexpr int kFirstWithNameRules = 8;

/// Adds trace points, with their names, that the earlier version did not know. Rows that came under
/// such a name are rows of that trace point from now on.
void add_trace_points(SQLite::Database& today, SQLite::Database& db) {
  SQLite::Statement points(today, "SELECT id, name FROM tensor");
  while (points.executeStep()) {
    const std::string id = points.getColumn(0).getString();
    SQLite::Statement before(db, "SELECT id FROM tensor WHERE name = ? AND id <> " + id);
    before.bind(1, points.getColumn(1).getString());
    if (!before.executeStep()) continue;
    const std::string unknown = before.getColumn(0).getString();
    before.reset();
    for (const char* table : {"trace_row", "trace_repeat", "plan", "tensor_name"}) {
      db.exec(std::string("UPDATE ") + table + " SET tensor_id = " + id +
              " WHERE tensor_id = " + unknown);
    }
    db.exec("DELETE FROM tensor WHERE id = " + unknown);
  }
  copy_rows(today, db, "tensor");
  SQLite::Statement names(today, "SELECT name, tensor_id, cause FROM tensor_name");
  SQLite::Statement insert(
      db, "INSERT OR IGNORE INTO tensor_name(name, tensor_id, cause) VALUES (?, ?, ?)");
  while (names.executeStep()) {
    insert.bind(1, names.getColumn(0).getString());
    insert.bind(2, names.getColumn(1).getInt64());
    insert.bind(3, names.getColumn(2).getString());
    insert.exec();
    insert.reset();
  }
}

/// Brings the tables of an earlier version, and the rows of dictionaries, to those of today. Views,
/// triggers and indexes are gone then: restore() makes them.
void migrate_tables(SQLite::Database& db) {
  SQLite::Database today = empty_schema();
  drop_triggers(db);
  drop_views(db);
  if (pragma(db, "user_version") == 1) migrate_1_to_2(db);
  for (const char* table : kMadeAgain) db.exec(std::string("DROP TABLE IF EXISTS ") + table);
  create_missing_tables(db);
  for (const Definition& ours : definitions()) {
    if (ours.type == "table" && columns_of(db, ours.name) != columns_of(today, ours.name)) {
      rebuild(db, ours.name);
    }
  }
  add_trace_points(today, db);
  for (const char* table : kDictionaries) copy_rows(today, db, table);
  if (pragma(db, "user_version") < kFirstWithNameRules) copy_rows(today, db, "name_rule");
  db.exec("DELETE FROM sqlite_stat1");
  copy_rows(today, db, "sqlite_stat1");
  db.exec("ANALYZE sqlite_schema; PRAGMA user_version = " + std::to_string(kSchemaVersion));
}

constexpr int kJudgeThreads = 2;

/// So that the first question after a change of views does not wait for all runs. They are whole
/// without: whatever goes wrong here shows when it is asked for.
void judge_runs(SQLite::Database& db) {
  try {
    judge(db, runs_without_tally(db), kJudgeThreads);
  } catch (const SQLite::Exception&) {
  }
}

}  // namespace

int64_t pragma(SQLite::Database& db, const char* name) {
  return db.execAndGet(std::string("PRAGMA ") + name).getInt64();
}

std::string columns_of(SQLite::Database& db, const std::string& table) {
  return db.execAndGet("SELECT group_concat(name, ', ') FROM pragma_table_info('" + table + "')")
      .getString();
}

void create_schema(SQLite::Database& db) {
  const auto is_of_rows = [](const Definition& ours) {
    return ours.type == "table" || ours.type == "index";
  };
  for (const Definition& ours : definitions()) {
    if (is_of_rows(ours)) db.exec(ours.sql);
  }
  execute_file(db, "db/dictionary.sql");  // before the triggers, which each statement would prepare
  write_views_down(db);
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

void migrate(SQLite::Database& db) {
  if (needs_migration(db)) bring_to_this_build(db);
}

void bring_to_this_build(SQLite::Database& db) {
  // Outside the transaction, where alone they take effect. A view of somebody else must not stop a
  // table from being renamed.
  db.exec("PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON");
  try {
    in_transaction(db, [&db] {
      if (pragma(db, "user_version") < kSchemaVersion) migrate_tables(db);
      if (!definition_differences(db).empty() || !is_of_this_build(db)) restore(db);
    });
  } catch (...) {
    db.tryExec("PRAGMA legacy_alter_table = OFF; PRAGMA foreign_keys = ON");
    throw;
  }
  db.exec("PRAGMA legacy_alter_table = OFF; PRAGMA foreign_keys = ON");
  judge_runs(db);
}

}  // namespace greta
