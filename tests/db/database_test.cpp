#include "db/database.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "db/check.h"
#include "db/schema.h"
#include "tests/db/database_file.h"
#include "tests/file_bytes.h"

namespace greta {
namespace {

namespace fs = std::filesystem;

struct Opening : DatabaseFile {
  void write(const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }
  std::string bytes() { return bytes_of(file); }
  std::string error_of_writing() {
    return error_of([](const fs::path& path) { return open_for_writing(path); });
  }
};

std::set<std::string> views_of(SQLite::Database& db) {
  std::set<std::string> names;
  SQLite::Statement query(db, "SELECT name FROM sqlite_schema WHERE type = 'view'");
  while (query.executeStep()) names.insert(query.getColumn(0).getString());
  return names;
}

TEST_F(Opening, CreatesEverythingOnce) {
  std::string schema;
  {
    SQLite::Database db = open_for_writing(file);
    EXPECT_EQ(number_of(db, "PRAGMA application_id"), kApplicationId);
    EXPECT_EQ(number_of(db, "PRAGMA user_version"), kSchemaVersion);
    EXPECT_EQ(text_of(db, "PRAGMA journal_mode"), "wal");
    EXPECT_EQ(number_of(db, "PRAGMA foreign_keys"), 1);
    EXPECT_GT(number_of(db, "SELECT count(*) FROM tensor"), 20);
    EXPECT_EQ(check_database(db), std::vector<std::string>());
    schema = text_of(
        db, "SELECT name || ': ' || sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name");
    db.exec("INSERT INTO run(name, experiment) VALUES ('r', 'e')");
  }
  SQLite::Database again = open_for_writing(file);
  EXPECT_EQ(
      text_of(again,
              "SELECT name || ': ' || sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"),
      schema);
  EXPECT_EQ(number_of(again, "SELECT count(*) FROM run"), 1);
}

TEST_F(Opening, HasAViewForEveryFileOfQueries) {
  SQLite::Database db = open_for_writing(file);
  const std::set<std::string> views = views_of(db);
  size_t files = 0;
  for (const SqlFile& sql : sql_files()) {
    if (!sql.path.starts_with("queries/") || sql.path.starts_with("queries/canned/")) continue;
    ++files;
    EXPECT_TRUE(views.contains(fs::path(sql.path).stem().string())) << sql.path;
  }
  EXPECT_EQ(views.size(), files);
}

TEST_F(Opening, ForReadingRefusesWrites) {
  { SQLite::Database db = open_for_writing(file); }
  SQLite::Database db = open_for_reading(file);
  EXPECT_EQ(number_of(db, "SELECT count(*) FROM run_verdict"), 0);
  EXPECT_THROW(db.exec("INSERT INTO run(name, experiment) VALUES ('r', 'e')"), SQLite::Exception);
  EXPECT_THROW(db.exec("DELETE FROM tensor"), SQLite::Exception);
  EXPECT_THROW(db.exec("DROP VIEW trace"), SQLite::Exception);
  EXPECT_THROW(db.exec("PRAGMA user_version = 7"), SQLite::Exception);
}

TEST_F(Opening, ForReadingChangesNoByte) {
  {
    SQLite::Database db = open_for_writing(file);
    make_durable(db);
  }
  const std::string before = bytes();
  {
    SQLite::Database db = open_for_reading(file);
    text_of(db, "SELECT run FROM run_verdict");
  }
  EXPECT_EQ(bytes(), before);
}

TEST_F(Opening, ReadsWhileAnotherWrites) {
  SQLite::Database writer = open_for_writing(file);
  writer.exec("BEGIN IMMEDIATE; INSERT INTO run(name, experiment) VALUES ('r', 'e')");
  SQLite::Database reader = open_for_reading(file);
  EXPECT_EQ(number_of(reader, "SELECT count(*) FROM run"), 0);
  writer.exec("COMMIT");
  EXPECT_EQ(number_of(reader, "SELECT count(*) FROM run"), 1);
}

TEST_F(Opening, WhatIsNotThereIsNotCreatedByReading) {
  const std::string error = error_of(open_for_reading);
  EXPECT_NE(error.find("no database at " + file.string()), std::string::npos) << error;
  EXPECT_FALSE(fs::exists(file));
  file = folder / "nowhere" / "g.db";
  EXPECT_NE(error_of_writing(), "");
}

TEST_F(Opening, AnEmptyFileIsADatabaseToBe) {
  write("");
  const std::string error = error_of(open_for_reading);
  EXPECT_NE(error.find("is empty"), std::string::npos) << error;
  EXPECT_EQ(fs::file_size(file), 0u);
  SQLite::Database db = open_for_writing(file);
  EXPECT_EQ(check_database(db), std::vector<std::string>());
}

TEST_F(Opening, WhatIsNoDatabaseIsRefusedUntouched) {
  for (const std::string& text :
       {std::string("hello, this is a text file, long enough to be one\n"), std::string("x"),
        "SQLite format 3" + std::string(1, '\0') + std::string(3000, 'z')}) {
    write(text);
    EXPECT_NE(error_of(open_for_reading), "");
    EXPECT_NE(error_of_writing(), "");
    EXPECT_EQ(bytes(), text);
  }
  file = folder.path();
  EXPECT_NE(error_of(open_for_reading), "");
  EXPECT_NE(error_of_writing(), "");
}

TEST_F(Opening, TheDatabaseOfAnotherProgramIsRefusedUntouched) {
  for (const char* identity : {"PRAGMA application_id = 77", "PRAGMA application_id = 0"}) {
    fs::remove(file);
    {
      SQLite::Database foreign(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
      foreign.exec(std::string("CREATE TABLE theirs(x); INSERT INTO theirs VALUES (1);") +
                   identity);
    }
    const std::string before = bytes();
    for (const std::string& error : {error_of(open_for_reading), error_of_writing()}) {
      EXPECT_NE(error.find("not a greta database"), std::string::npos) << error;
      EXPECT_NE(error.find(file.string()), std::string::npos) << error;
    }
    EXPECT_EQ(bytes(), before);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
  }
}

TEST_F(Opening, ANewerSchemaIsRefusedUntouched) {
  {
    SQLite::Database db = open_for_writing(file);
    db.exec("PRAGMA user_version = " + std::to_string(kSchemaVersion + 1));
    make_durable(db);
  }
  const std::string before = bytes();
  for (const std::string& error : {error_of(open_for_reading), error_of_writing()}) {
    EXPECT_NE(error.find("newer"), std::string::npos) << error;
  }
  EXPECT_EQ(bytes(), before);
}

TEST_F(Opening, ManyCreatorsAtOnceMakeOneDatabase) {
  for (int round = 0; round < 5; ++round) {
    fs::remove_all(folder.path());
    fs::create_directory(folder.path());
    std::vector<pid_t> children;
    for (int i = 0; i < 4; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        int status = 1;
        try {
          SQLite::Database db = open_for_writing(file);
          db.exec("INSERT INTO run(name, experiment) VALUES ('r" + std::to_string(i) + "', 'e')");
          status = 0;
        } catch (const std::exception& error) {
          std::fprintf(stderr, "creator %d: %s\n", i, error.what());
        }
        _exit(status);
      }
      children.push_back(child);
    }
    for (const pid_t child : children) {
      int status = -1;
      waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
    SQLite::Database db = open_for_reading(file);
    EXPECT_EQ(number_of(db, "SELECT count(*) FROM run"), 4);
    EXPECT_EQ(check_database(db), std::vector<std::string>());
  }
}

TEST_F(Opening, ForWritingBringsTheViewsOfThisBuild) {
  std::string trace, history;
  {
    SQLite::Database db = open_for_writing(file);
    trace = text_of(db, "SELECT sql FROM sqlite_schema WHERE name = 'trace'");
    history = text_of(db, "SELECT sql FROM sqlite_schema WHERE name = 'history'");
    db.exec(
        "INSERT INTO run(name, experiment) VALUES ('r', 'e');"
        "INSERT INTO run_change SELECT 1, 1, 'run', 'OLD', 'OLD', 'OLD', 0, 0, 0, 0, 0, 0, 0, 0,"
        " NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL;"
        "DROP VIEW trace; CREATE VIEW trace AS SELECT 1 AS old; DROP VIEW history;"
        "UPDATE meta SET value = 'of another build' WHERE key = 'views'");
  }
  EXPECT_NE(error_of(open_for_reading).find("`greta-db upgrade " + file.string() + "`"),
            std::string::npos);
  SQLite::Database db = open_for_writing(file);
  EXPECT_EQ(text_of(db, "SELECT sql FROM sqlite_schema WHERE name = 'trace'"), trace);
  EXPECT_EQ(text_of(db, "SELECT sql FROM sqlite_schema WHERE name = 'history'"), history);
  EXPECT_EQ(number_of(db, "SELECT count(*) FROM run_change"), 0);  // the old views made it
}

TEST_F(Opening, AWriterThatDiedLeavesAUsableDatabase) {
  { SQLite::Database db = open_for_writing(file); }
  const pid_t child = fork();
  if (child == 0) {
    SQLite::Database db = open_for_writing(file);
    db.exec(
        "INSERT INTO run(name, experiment) VALUES ('committed', 'e');"
        "BEGIN; INSERT INTO run(name, experiment) VALUES ('not committed', 'e')");
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  SQLite::Database db = open_for_reading(file);
  EXPECT_EQ(text_of(db, "SELECT name FROM run"), "committed");
}

}  // namespace
}  // namespace greta
