#include "db/database.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "db/check.h"
#include "db/kept_tally.h"
#include "db/run_name.h"
#include "db/schema.h"
#include "db/sql_files.h"

namespace greta {
namespace {

namespace fs = std::filesystem;

struct Opening : testing::Test {
  Opening() {
    std::string name = (fs::temp_directory_path() / "greta_test_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    folder = name;
    file = folder / "g.db";
  }
  ~Opening() override { fs::remove_all(folder); }

  void write(const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }
  std::string bytes() {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// What opening says, "" when it succeeds.
  template <class Open>
  std::string error_of(Open open) {
    try {
      open(file);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }

  std::string error_of_writing() {
    return error_of([](const fs::path& path) { return open_for_writing(path); });
  }

  fs::path folder, file;
};

std::string text_of(SQLite::Database& db, const std::string& sql) {
  SQLite::Statement query(db, sql);
  std::string text;
  while (query.executeStep()) text += (text.empty() ? "" : "\n") + query.getColumn(0).getString();
  return text;
}
int64_t number_of(SQLite::Database& db, const std::string& sql) {
  return db.execAndGet(sql).getInt64();
}

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
  size_t twins = 0;
  for (const std::string& view : views) {
    twins += view.starts_with("kept_") && views.contains(view.substr(5));
  }
  EXPECT_EQ(twins, 6u) << "run_verdict, first_fail, failure_breakdown, history and what they read";
  EXPECT_EQ(views.size() - (twins - 1), files) << "kept_verdict_row is a file";
  for (const std::string& view : views)
    EXPECT_NO_THROW(text_of(db, "SELECT * FROM " + view)) << view;
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
  file = folder;
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
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
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
    fs::remove_all(folder);
    fs::create_directory(folder);
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
        "INSERT INTO kept_tally(run_id, prompt_id, status, count, claimed, elsewhere) VALUES (1, "
        "0, 'OLD', 0, "
        "1, 0);"
        "DROP VIEW trace; CREATE VIEW trace AS SELECT 1 AS old; DROP VIEW history;"
        "UPDATE meta SET value = 'of another build' WHERE key = 'views'");
  }
  SQLite::Database db = open_for_writing(file);
  EXPECT_EQ(text_of(db, "SELECT sql FROM sqlite_schema WHERE name = 'trace'"), trace);
  EXPECT_EQ(text_of(db, "SELECT sql FROM sqlite_schema WHERE name = 'history'"), history);
  EXPECT_EQ(number_of(db, "SELECT count(*) FROM kept_tally WHERE status = 'OLD'"),
            0);  // the old views made it
}

TEST_F(Opening, ForReadingBringsTheViewsOfThisBuildToo) {
  {
    SQLite::Database db = open_for_writing(file);
    db.exec(
        "DROP VIEW trace; CREATE VIEW trace AS SELECT 1 AS old; UPDATE meta SET value = 'x' WHERE "
        "key = 'views'");
  }
  SQLite::Database db = open_for_reading(file);
  EXPECT_EQ(text_of(db, "SELECT * FROM trace"), "");
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

// ---- check --------------------------------------------------------------------------------------

struct Checking : Opening {
  SQLite::Database db = open_for_writing(file);
  Checking() {
    db.exec(
        "INSERT INTO run(name, experiment) VALUES ('r', 'e');"
        "INSERT INTO prompt(run_id, name) VALUES (1, 'p');"
        "INSERT INTO source(run_id, sha256, shape, bytes) VALUES (1, 'x', 'stage_trace', 0);"
        "INSERT INTO trace_row(run_id, prompt_id, side, pos_id, layer, tensor_id, nth, crowded, "
        "phase_id, step, name_id,"
        " flags, source_id, line) SELECT 1, 1, h.side, 1, 0, n.tensor_id, 0, 0, h.id, 0, n.id, 0, "
        "1, 1"
        " FROM tensor_name n, phase h WHERE n.name = 'x_in' AND h.name = 'decode0';"
        "INSERT INTO traced_position VALUES (1, 1, 1, 1, 0)");
  }
};

TEST_F(Checking, ASoundDatabaseHasNoProblems) {
  EXPECT_EQ(check_database(db), std::vector<std::string>());
}

TEST_F(Checking, RowsThatReferToNothingAreFound) {
  for (const char* column :
       {"run_id", "prompt_id", "tensor_id", "phase_id", "name_id", "context_id", "source_id"}) {
    db.exec(std::string("SAVEPOINT damage; UPDATE trace_row SET ") + column + " = 424242");
    const std::vector<std::string> problems = check_database(db);
    ASSERT_EQ(problems.size(), 1u) << column;
    EXPECT_NE(problems[0].find(column), std::string::npos) << problems[0];
    db.exec("ROLLBACK TO damage; RELEASE damage");
  }
  EXPECT_EQ(check_database(db), std::vector<std::string>());
}

TEST_F(Checking, ARowWithoutItsVectorIsFound) {
  db.exec("UPDATE trace_row SET vector_id = 424242");
  EXPECT_EQ(check_database(db).size(), 1u);
}

TEST_F(Checking, BrokenForeignKeysAreFound) {
  db.exec("PRAGMA foreign_keys = OFF; DELETE FROM run");
  const std::vector<std::string> problems = check_database(db);
  EXPECT_GE(problems.size(), 2u);
  EXPECT_TRUE(std::any_of(problems.begin(), problems.end(),
                          [](const std::string& p) { return p.starts_with("foreign key"); }));
}

TEST_F(Checking, ADamagedIndexIsFound) {
  db.exec(
      "INSERT INTO run(name, experiment) VALUES ('s', 'f'); PRAGMA writable_schema = ON;"
      "UPDATE sqlite_schema SET sql = replace(sql, 'run(experiment)', 'run(family)') WHERE name = "
      "'run_by_experiment';"
      "PRAGMA writable_schema = OFF");
  make_durable(db);
  SQLite::Database again = open_unchanged(file);
  const std::vector<std::string> problems = check_database(again);
  EXPECT_FALSE(problems.empty());
  EXPECT_TRUE(problems.empty() || problems[0].starts_with("integrity")) << problems[0];
}

// ---- kept tallies -------------------------------------------------------------------------------

TEST_F(Checking, AKeptTallyIsThatOfTheView) {
  const char* tally =
      "SELECT * FROM tally WHERE run_id = 1 ORDER BY prompt_id, status, class, cause";
  const std::string computed = text_of(db, tally);
  EXPECT_NE(computed, "");
  keep_tally(db, 1);
  EXPECT_GT(number_of(db, "SELECT count(*) FROM kept_tally"), 0);
  EXPECT_EQ(text_of(db, tally), computed);
  const std::string kept = text_of(db, "SELECT * FROM kept_tally");
  keep_tally(db, 1);
  EXPECT_EQ(text_of(db, "SELECT * FROM kept_tally"), kept);
  EXPECT_NO_THROW(keep_tally(db, 99));
}

TEST_F(Checking, FewerRowsThanAnEngineWroteAreFound) {
  db.exec("UPDATE source SET shape = 'engine', rows = 2, duplicates = 1");
  EXPECT_EQ(check_database(db), std::vector<std::string>());
  db.exec("UPDATE source SET rows = 3");
  EXPECT_EQ(check_database(db),
            std::vector<std::string>{"trace_row: 1 rows of run r, whose engine wrote 2"});
}

TEST_F(Checking, RowsThatWereDeletedAreFoundWhateverGaveThem) {
  db.exec("UPDATE source SET rows = 3, duplicates = 2");
  EXPECT_EQ(check_database(db), std::vector<std::string>());
  db.exec("DELETE FROM trace_row");
  EXPECT_EQ(check_database(db),
            std::vector<std::string>{"trace_row: 0 rows of run r, whose source 1 gave 1"});
}

TEST_F(Checking, ValuesThatNoWriterWritesAreFound) {
  db.exec(
      "INSERT INTO run(name, experiment) VALUES ('s', 'e');"
      "INSERT INTO prompt(run_id, name) VALUES (2, 'q');"
      "INSERT INTO kept_tally(run_id, prompt_id, status, count, claimed, elsewhere) VALUES (1, 1, "
      "'MATCH', "
      "1, 0, 0);"
      "INSERT INTO sample VALUES (7, 1, x'00000000'); PRAGMA foreign_keys = OFF");
  ASSERT_EQ(check_database(db), std::vector<std::string>());
  for (const char* damage :
       {"UPDATE trace_row SET side = 0", "UPDATE trace_row SET side = 7",
        "UPDATE trace_row SET pos_id = -2", "UPDATE trace_row SET layer = 9000",
        "UPDATE trace_row SET crowded = 2", "UPDATE trace_row SET flags = 32",
        "UPDATE trace_row SET prompt_id = 2",
        "UPDATE trace_row SET name_id = (SELECT id FROM tensor_name WHERE name = 'logits')",
        "INSERT INTO plan VALUES (1, 1, 3, 0, 5)", "INSERT INTO plan VALUES (1, 2, 0, 0, 5)",
        "INSERT INTO plan VALUES (1, 1, 0, 0, 424242)",
        "INSERT INTO traced_position VALUES (1, 2, 0, 3, 0)",
        "INSERT INTO trace_repeat VALUES (1, 1, 0, 3, 0, 5, 0, 1)", "UPDATE sample SET n = 2",
        "UPDATE source SET duplicates = -1",
        "INSERT INTO attribute(run_id, dim, value, rank) VALUES (1, 'date', 'x', 9)",
        "UPDATE kept_tally SET status = 'FINE'", "UPDATE kept_tally SET prompt_id = 2"}) {
    db.exec(std::string("SAVEPOINT damage; ") + damage);
    EXPECT_NE(check_database(db), std::vector<std::string>()) << damage;
    db.exec("ROLLBACK TO damage; RELEASE damage");
  }
}

TEST_F(Checking, RepairCorrectsWhatIsNotedOfPlacesAndPositions) {
  db.exec(
      "INSERT INTO trace_row SELECT run_id, prompt_id, 0, pos_id, layer, tensor_id, 0, 0, 1, step,"
      " name_id, token_id, logical_tok_idx, n, hash, min, max, mean, abs_sum, nan, inf, nz_count,"
      " flags, vector_id, ptr, offset_bytes, context_id, source_id, 2 FROM trace_row;"
      "INSERT INTO trace_row SELECT run_id, prompt_id, side, pos_id, layer, tensor_id, 1, 0, "
      "phase_id,"
      " step, name_id, token_id, logical_tok_idx, n, hash, min, max, mean, abs_sum, nan, inf,"
      " nz_count, flags, vector_id, ptr, offset_bytes, context_id, source_id, line FROM trace_row;"
      "INSERT INTO traced_position VALUES (1, 1, 0, 1, 0), (1, 1, 1, 9, 1)");
  EXPECT_EQ(check_database(db).size(), 2u);
  repair_database(db, {});
  EXPECT_EQ(check_database(db), std::vector<std::string>());
  EXPECT_EQ(number_of(db, "SELECT sum(NOT crowded) FROM trace_row"), 0);
  EXPECT_EQ(text_of(db, "SELECT side || ' ' || pos_id || ' ' || demands FROM traced_position"),
            "0 1 1\n1 1 0");
  EXPECT_EQ(repair_database(db, {}), std::vector<std::string>());
}

TEST_F(Checking, WhatIsKeptIsComparedWithTheViewsOfThisBuild) {
  keep_tally(db, 1);
  const auto wrong = [this] {
    SQLite::Database reader = open_unchanged(file);
    return runs_kept_wrong(reader);
  };
  EXPECT_EQ(wrong(), std::vector<int64_t>());
  db.exec("UPDATE kept_verdict SET pairs = 7");
  EXPECT_EQ(wrong(), std::vector<int64_t>{1});
  keep_tally(db, 1);
  repair_database(db, {1});
  EXPECT_EQ(number_of(db, "SELECT count(*) FROM kept_verdict"), 0);
  keep_tally(db, 1);
  EXPECT_EQ(wrong(), std::vector<int64_t>());
  // A row that somebody inserts tells nobody, for a trigger would cost every writer too much.
  db.exec(
      "INSERT INTO trace_row SELECT run_id, prompt_id, side, pos_id, layer, n.tensor_id, 0, 0,"
      " phase_id, step, n.id, token_id, logical_tok_idx, n, hash, min, max, mean, abs_sum, nan, "
      "inf,"
      " nz_count, flags, vector_id, ptr, offset_bytes, context_id, source_id, 2"
      " FROM trace_row, tensor_name n WHERE n.name = 'embed_out'");
  EXPECT_GT(number_of(db, "SELECT count(*) FROM kept_verdict"), 0);
  db.exec("DROP VIEW unkept_tally; CREATE VIEW unkept_tally AS SELECT * FROM kept_tally");
  EXPECT_EQ(wrong(), std::vector<int64_t>{1});
}

TEST_F(Checking, FreeNamesAreCountedOn) {
  EXPECT_EQ(free_run_name(db, "new"), "new");
  EXPECT_EQ(free_run_name(db, "r"), "r#2");
  db.exec("INSERT INTO run(name, experiment) VALUES ('r#2', 'e'), ('#', 'e'), ('x#', 'e')");
  EXPECT_EQ(free_run_name(db, "r"), "r#3");
  EXPECT_EQ(free_run_name(db, "r#2"), "r#3");
  EXPECT_EQ(free_run_name(db, "r#7"), "r#7");
  EXPECT_EQ(free_run_name(db, "#"), "##2");
  EXPECT_EQ(free_run_name(db, "x#"), "x##2");
}

TEST_F(Checking, RunsWithoutTally) {
  db.exec(
      "INSERT INTO run(name, experiment, status) VALUES ('live', 'e', 'running'), ('done', 'e', "
      "'complete')");
  EXPECT_EQ(runs_without_tally(db, 10), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(runs_without_tally(db, 0), (std::vector<int64_t>{3}));
  keep_tally(db, 3);
  EXPECT_EQ(runs_without_tally(db, 10), (std::vector<int64_t>{1}));
}

}  // namespace
}  // namespace greta
