#include "db/schema.h"

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "db/kept_tally.h"
#include "db/sql_files.h"
#include "db/transaction.h"

namespace greta {
namespace {

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

void execute_file(SQLite::Database& db, std::string_view path) {
  for (const SqlFile& file : sql_files()) {
    if (file.path == path) db.exec(std::string(file.text));
  }
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

bool has_our_views(SQLite::Database& db) {
  SQLite::Statement query(db, "SELECT value FROM meta WHERE key = 'views'");
  return query.executeStep() && query.getColumn(0).getString() == views_version();
}

/// Views that read what is kept and work out what is not, with what they read both from. Each has a
/// twin, kept_NAME, of the same text, that reads only what is kept: SQLite takes as long to prepare
/// what works a verdict out as to answer from what is kept a hundred times.
constexpr std::pair<std::string_view, std::string_view> kTwins[] = {
    {"verdict_part", "FROM verdict_row "},
    {"run_verdict", "FROM verdict_part "},
    {"first_fail", "FROM verdict_part "},
    {"failure_breakdown", "FROM tally "},
    {"history", "FROM run_verdict "}};

/// The text with the one `from` in it replaced.
std::string replaced(std::string text, std::string_view from, const std::string& to) {
  const size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("no " + std::string(from) + " in a view");
  return text.replace(at, from.size(), to);
}

void create_view(SQLite::Database& db, const std::string& name, const std::string& sql) {
  db.exec("DROP VIEW IF EXISTS " + name);
  db.exec(sql);
}

void create_views(SQLite::Database& db) {
  for (const SqlFile& file : sql_files()) {
    if (!is_view(file)) continue;
    const std::string name(view_name(file)), sql(file.text);
    create_view(db, name, sql);
    for (const auto& [view, source] : kTwins) {
      if (view != name) continue;
      const std::string of_kept = source == "FROM tally "
                                      ? "FROM kept_tally_row "
                                      : "FROM kept_" + std::string(source.substr(5));
      create_view(db, "kept_" + name,
                  replaced(replaced(sql, "CREATE VIEW ", "CREATE VIEW kept_"), source, of_kept));
    }
  }
  SQLite::Statement meta(db, "INSERT OR REPLACE INTO meta(key, value) VALUES ('views', ?)");
  meta.bind(1, views_version());
  meta.exec();
}

/// Texts of the first column of a query.
std::vector<std::string> texts(SQLite::Database& db, const std::string& sql) {
  SQLite::Statement query(db, sql);
  std::vector<std::string> all;
  while (query.executeStep()) all.push_back(query.getColumn(0).getString());
  return all;
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

void create_from(SQLite::Database& today, SQLite::Database& db, const std::string& condition) {
  for (const std::string& sql :
       texts(today, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND " + condition +
                        " ORDER BY CASE type WHEN 'table' THEN 0 WHEN 'index' THEN 1 ELSE 2 END")) {
    db.exec(sql);
  }
}

/// Version 2: trace rows are keyed by place, side and a number.
void migrate_1_to_2(SQLite::Database& today, SQLite::Database& db) {
  for (const std::string& name : texts(
           db,
           "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND sql LIKE '%tally = NULL%'")) {
    db.exec("DROP TRIGGER " + name);
  }
  for (const char* view : {"pair_decode_only", "pair_graded", "pair_inputs", "pair_joined",
                           "pair_prefill_only", "pair_report", "pair_report_inputs", "pair_status",
                           "sketch_pair", "traced_both", "verdict_count", "verdict_first"}) {
    db.exec(std::string("DROP VIEW IF EXISTS ") + view);
  }
  db.exec(
      "ALTER TABLE trace_row RENAME TO trace_row_v1; ALTER TABLE trace_repeat RENAME TO "
      "trace_repeat_v1");
  create_from(today, db,
              "tbl_name IN ('trace_row', 'trace_repeat', 'traced_position') AND type <> 'trigger'");
  execute_file(db, "db/migrate_1_to_2.sql");
}

/// Gives a table the columns that it has today: those that it had keep their values, others have
/// their default.
void rebuild(SQLite::Database& today, SQLite::Database& db, const std::string& table) {
  const std::string columns = columns_of(db, table);
  for (const std::string& index :
       texts(db,
             "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
             " AND tbl_name = '" +
                 table + "'")) {
    db.exec("DROP INDEX " + index);
  }
  db.exec("ALTER TABLE " + table + " RENAME TO old_" + table);
  create_from(today, db, "tbl_name = '" + table + "' AND type <> 'trigger'");
  db.exec("INSERT INTO " + table + "(" + columns + ") SELECT " + columns + " FROM old_" + table);
  db.exec("DROP TABLE old_" + table);
}

/// Tables that no longer hold what the program of today would write: made anew, and filled again.
constexpr const char* kMadeAgain[] = {"kept_tally", "kept_verdict"};
/// Tables whose rows the program brings with it.
constexpr const char* kDictionaries[] = {"status", "class", "scope", "axis", "cause"};

/// Brings tables, indexes, triggers and dictionaries to those of today.
void migrate_tables(SQLite::Database& today, SQLite::Database& db) {
  for (const char* table : kMadeAgain) db.exec(std::string("DROP TABLE IF EXISTS ") + table);
  for (const std::string& table :
       texts(today,
             "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql IS NOT NULL"
             " AND name NOT GLOB 'sqlite_*'")) {
    const std::string there = columns_of(db, table);
    if (there.empty()) {
      create_from(today, db, "tbl_name = '" + table + "' AND type <> 'trigger'");
    } else if (there != columns_of(today, table)) {
      rebuild(today, db, table);
    }
  }
  for (const char* table : kDictionaries) copy_rows(today, db, table);
  for (const std::string& trigger :
       texts(today, "SELECT name FROM sqlite_schema WHERE type = 'trigger'")) {
    db.exec("DROP TRIGGER IF EXISTS " + trigger);
  }
  create_from(today, db, "type = 'trigger'");
  db.exec("DELETE FROM sqlite_stat1");
  copy_rows(today, db, "sqlite_stat1");
  db.exec("ANALYZE sqlite_schema");
}

void migrate_file(SQLite::Database& db) {
  SQLite::Database today = empty_schema();
  for (const SqlFile& file : sql_files()) {
    if (is_view(file)) db.exec("DROP VIEW IF EXISTS " + std::string(view_name(file)));
  }
  if (pragma(db, "user_version") == 1) migrate_1_to_2(today, db);
  migrate_tables(today, db);
  db.exec("PRAGMA user_version = " + std::to_string(kSchemaVersion));
}

/// So that the first question after a change of views does not wait for all runs. They are whole
/// without: whatever goes wrong here shows when it is asked for.
void judge_runs(SQLite::Database& db) {
  try {
    in_transaction(db, [&db] {
      TallyKeeper keeper(db);
      for (int64_t run_id : runs_without_tally(db)) keeper.keep(run_id);
    });
  } catch (const SQLite::Exception&) {
  }
}

}  // namespace

std::string columns_of(SQLite::Database& db, const std::string& table) {
  return db.execAndGet("SELECT group_concat(name, ', ') FROM pragma_table_info('" + table + "')")
      .getString();
}

int64_t pragma(SQLite::Database& db, const char* name) {
  return db.execAndGet(std::string("PRAGMA ") + name).getInt64();
}

void create_schema(SQLite::Database& db) {
  execute_file(db, "db/schema.sql");
  execute_file(db, "db/dictionary.sql");
  create_views(db);
  db.exec("PRAGMA application_id = " + std::to_string(kApplicationId));
  db.exec("PRAGMA user_version = " + std::to_string(kSchemaVersion));
}

void migrate(SQLite::Database& db) {
  if (pragma(db, "user_version") == kSchemaVersion && has_our_views(db)) return;
  // Outside the transaction, where alone they take effect. A view of somebody else must not stop a
  // table from being renamed.
  db.exec("PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON");
  try {
    in_transaction(db, [&db] {
      const int64_t version = pragma(db, "user_version");
      if (version == kSchemaVersion && has_our_views(db)) return;  // somebody was faster
      if (version < kSchemaVersion) migrate_file(db);
      db.exec("DELETE FROM kept_tally");  // made by the old views
      create_views(db);
    });
  } catch (...) {
    db.tryExec("PRAGMA legacy_alter_table = OFF; PRAGMA foreign_keys = ON");
    throw;
  }
  db.exec("PRAGMA legacy_alter_table = OFF; PRAGMA foreign_keys = ON");
  judge_runs(db);
}

}  // namespace greta
