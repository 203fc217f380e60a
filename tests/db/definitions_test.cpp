// What a file defines otherwise than this build is refused by name, or restored.
#include "db/definitions.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <utility>

#include "db/database.h"
#include "tests/db/database_file.h"

namespace greta {
namespace {

namespace fs = std::filesystem;

struct Definitions : DatabaseFile {
  /// What opening says once somebody has run `sql` on a fresh file; the same for both openings.
  std::string error_after(const std::string& sql) const {
    fs::remove(file);
    { SQLite::Database db = open_for_writing(file); }
    {
      SQLite::Database db(file.string(), SQLite::OPEN_READWRITE);
      db.exec(sql);
    }
    const std::string error = error_of(open_for_reading);
    EXPECT_EQ(error_of([](const fs::path& one) { return open_for_writing(one); }), error);
    return error;
  }
};

TEST_F(Definitions, AreThoseThatSqliteKeeps) {
  SQLite::Database db = open_for_writing(file);
  int64_t in_file = 0;
  for (const Definition& ours : definitions()) {
    ++in_file;
    SQLite::Statement stored(db, "SELECT type, sql FROM sqlite_schema WHERE name = ?");
    stored.bind(1, ours.name);
    ASSERT_TRUE(stored.executeStep()) << ours.name;
    EXPECT_EQ(stored.getColumn(0).getString(), ours.type);
    EXPECT_EQ(stored.getColumn(1).getString(), ours.sql);
  }
  EXPECT_EQ(number_of(db,
                      "SELECT count(*) FROM sqlite_schema"
                      " WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%'"),
            in_file);
}

TEST_F(Definitions, OfViewsTriggersAndIndexesAreRefusedByNameAndRestored) {
  const std::pair<const char*, const char*> kChanges[] = {
      {"DROP VIEW run_verdict; CREATE VIEW run_verdict AS SELECT 'PASS' AS verdict",
       "view run_verdict changed"},
      {"DROP VIEW comparison_graded", "view comparison_graded missing"},
      {"DROP VIEW first_fail; CREATE VIEW FIRST_fail AS SELECT 1 AS x", "view FIRST_fail changed"},
      {"DROP TRIGGER trace_row_deleted", "trigger trace_row_deleted missing"},
      {"DROP TRIGGER plan_updated;"
       "CREATE TRIGGER plan_updated AFTER UPDATE ON plan BEGIN SELECT 1; END",
       "trigger plan_updated changed"},
      {R"(CREATE TRIGGER "a ""trigger" AFTER INSERT ON verdict BEGIN
            UPDATE verdict SET fail = 0; END)",
       "trigger a \"trigger added"},
      {"CREATE TRIGGER instead INSTEAD OF INSERT ON trace BEGIN SELECT 1; END",
       "trigger instead added"},
      {"DROP INDEX attribute_once", "index attribute_once missing"},
      {"DROP INDEX attribute_once; CREATE UNIQUE INDEX attribute_once ON attribute(run_id)",
       "index attribute_once changed"},
      {"CREATE UNIQUE INDEX one_row ON trace_row(run_id)", "index one_row added"},
      {"UPDATE status SET fails = 0", "rows of status changed"},
      {"DELETE FROM class", "rows of class changed"},
      {"UPDATE phase SET name = 'prefill_lost' WHERE name = 'prefill_last'",
       "rows of phase changed"},
      {"UPDATE phase SET side = 2 WHERE name = 'decode0'", "rows of phase changed"},
      {"INSERT INTO measure VALUES ('more', 1, 1)", "rows of measure changed"},
  };
  for (const auto& [sql, name] : kChanges) {
    const std::string error = error_after(sql);
    EXPECT_NE(error.find(name), std::string::npos) << error;
    EXPECT_NE(error.find("check --repair"), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    EXPECT_EQ(error_of(open_for_repair), "") << sql;
    SQLite::Database db = open_for_reading(file);
    EXPECT_TRUE(definition_differences(db).empty()) << text_of(definition_differences(db));
  }
}

TEST_F(Definitions, OfTablesAreRefusedAndBeyondRepair) {
  const std::pair<const char*, const char*> kChanges[] = {
      {"ALTER TABLE trace_row ADD COLUMN more TEXT", "table trace_row changed"},
      {"DROP TABLE status", "table status missing"},
      {"DROP VIEW trace; CREATE TABLE trace(run)", "table trace changed"},
      {"DROP TABLE meta", "table meta missing"},
      {"DROP TABLE meta; CREATE VIEW meta AS SELECT 'views' AS key, 'x' AS value",
       "table meta changed"},
      {"PRAGMA writable_schema = ON; UPDATE sqlite_schema"
       " SET sql = replace(sql, 'nth >= 0', 'nth >= 1') WHERE name = 'trace_row'",
       "table trace_row changed"},
  };
  for (const auto& [sql, name] : kChanges) {
    const std::string error = error_after(sql);
    EXPECT_NE(error.find(name), std::string::npos) << error;
    EXPECT_NE(error.find("cannot be repaired"), std::string::npos) << error;
    EXPECT_NE(error_of(open_for_repair).find("cannot be repaired"), std::string::npos) << name;
    EXPECT_EQ(error_of(open_for_reading), error) << "nothing was repaired by halves";
  }
}

TEST_F(Definitions, UnderOtherNamesAreTheirs) {
  EXPECT_EQ(error_after("CREATE TABLE theirs(x PRIMARY KEY, y UNIQUE) WITHOUT ROWID;"
                        "CREATE VIEW my_view AS SELECT run FROM run_verdict;"
                        "CREATE INDEX my_index ON trace_row(hash);"
                        "CREATE UNIQUE INDEX my_other ON theirs(x, y)"),
            "");
  { SQLite::Database db = open_for_repair(file); }
  SQLite::Database db = open_for_reading(file);
  EXPECT_EQ(number_of(db,
                      "SELECT count(*) FROM sqlite_schema"
                      " WHERE name IN ('theirs', 'my_view', 'my_index', 'my_other')"),
            4);
}

TEST_F(Definitions, APhaseThatARunBroughtIsItsOwn) {
  const std::string brought = "INSERT INTO phase(name, side) VALUES ('decode_warm', 1);";
  EXPECT_EQ(error_after(brought), "");
  EXPECT_NE(error_after(brought + "UPDATE phase SET name = 'other' WHERE name = 'prefill_last'"),
            "");
  { SQLite::Database db = open_for_repair(file); }
  SQLite::Database db = open_for_reading(file);
  EXPECT_EQ(text_of(db, "SELECT name, side FROM phase WHERE id IN (1, 5) ORDER BY id"),
            "prefill_last|0\ndecode_warm|1");
}

TEST_F(Definitions, ThatAreRestoredTakeTheirVerdictsWithThem) {
  error_after(
      "INSERT INTO run(name, experiment) VALUES ('r', 'e'); DROP TRIGGER verdict_deleted;"
      "INSERT INTO run_change SELECT 1, 1, 'run', 'OLD', 'OLD', 'OLD', 0, 0, 0, 0, 0, 0, 0, 0,"
      " NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL");
  SQLite::Database db = open_for_repair(file);
  EXPECT_EQ(number_of(db, "SELECT count(*) FROM run_change"), 0);
}

}  // namespace
}  // namespace greta
