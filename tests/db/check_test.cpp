// Damage that `greta-db check` finds, and what --repair restores.
#include "db/check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "db/database.h"
#include "db/judge.h"
#include "tests/db/database_file.h"

namespace greta {
namespace {

/// A run `r` with one row: decode0, position 1, layer 0, x_in.
struct Checking : DatabaseFile {
  SQLite::Database db = open_for_writing(file);
  Checking() {
    db.exec(
        "INSERT INTO run(name, experiment) VALUES ('r', 'e');"
        "INSERT INTO prompt(run_id, name) VALUES (1, 'p');"
        "INSERT INTO source(run_id, sha256, shape, bytes) VALUES (1, 'x', 'stage_trace', 0);"
        "INSERT INTO trace_row(run_id, prompt_id, side, pos_id, layer, tensor_id, nth, phase_id,"
        " step, name_id, flags, source_id, line) SELECT 1, 1, h.side, 1, 0, n.tensor_id, 0, h.id,"
        " 0, n.id, 0, 1, 1 FROM tensor_name n, phase h WHERE n.name = 'x_in' AND h.name = "
        "'decode0'");
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

TEST_F(Checking, ARowWithoutItsSampleOrSketchIsFound) {
  for (const char* column : {"sample_id", "sketch_id"}) {
    db.exec(std::string("UPDATE trace_row SET ") + column + " = 424242");
    EXPECT_EQ(check_database(db).size(), 1u);
    db.exec(std::string("UPDATE trace_row SET ") + column + " = NULL");
  }
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
      "INSERT INTO sample VALUES (7, 1, x'00000000'); PRAGMA foreign_keys = OFF");
  ASSERT_EQ(check_database(db), std::vector<std::string>());
  for (const char* damage :
       {"UPDATE trace_row SET side = 0",
        "UPDATE trace_row SET side = 7",
        "UPDATE trace_row SET pos_id = -2",
        "UPDATE trace_row SET layer = 9000",
        "UPDATE trace_row SET flags = 64",
        "UPDATE trace_row SET stands = 0",
        "UPDATE trace_row SET ambiguous_in_phase = NULL",
        "UPDATE trace_row SET flags = 32",
        "UPDATE trace_row SET prompt_id = 2",
        "UPDATE trace_row SET name_id = (SELECT id FROM tensor_name WHERE name = 'logits')",
        "INSERT INTO plan VALUES (1, 2, 0, 0, 5)",
        "INSERT INTO plan VALUES (1, 1, 0, 0, 424242)",
        "INSERT INTO traced_position VALUES (1, 2, 0, 3, 0)",
        "INSERT INTO trace_repeat VALUES (1, 1, 0, 3, 0, 5, 0, 1)",
        "UPDATE sample SET n = 2",
        "UPDATE tolerance SET rel_l2 = 9e999 WHERE dtype IS NULL",
        "UPDATE tolerance SET rel_l2 = 1.5 WHERE dtype IS NULL",
        "INSERT INTO tolerance SELECT tensor_id, dtype, 0.5 FROM tolerance WHERE dtype IS NULL",
        "INSERT INTO noise_floor VALUES (5, 0, 'm', 'f32', 'cpu', 1.5, NULL, 9, 't')",
        "INSERT INTO waiver VALUES (1, 'x_in', NULL, 'r', NULL, NULL, '2026-02-30', 'known', 't', "
        "'u')"}) {
    db.exec(std::string("SAVEPOINT damage; ") + damage);
    EXPECT_NE(check_database(db), std::vector<std::string>()) << damage;
    db.exec("ROLLBACK TO damage; RELEASE damage");
  }
}

TEST_F(Checking, RepairCorrectsWhatIsNotedOfPlacesAndPositions) {
  db.exec(
      "INSERT INTO trace_row(run_id, prompt_id, side, pos_id, layer, tensor_id, nth, phase_id, "
      "step,"
      " name_id, flags, source_id, line) SELECT run_id, prompt_id, side, pos_id, layer, tensor_id,"
      " 1, phase_id, 9, name_id, flags, source_id, 2 FROM trace_row");
  EXPECT_EQ(check_database(db), std::vector<std::string>()) << "triggers do it by hand";
  const std::string kAll =
      "SELECT nth, stands, stands_in_phase, ambiguous, ambiguous_in_phase FROM trace_row";
  EXPECT_EQ(text_of(db, kAll), "0|1|1|0|0\n1|0|0|0|0");
  db.exec(
      "UPDATE trace_row SET stands = 1, ambiguous = NULL WHERE nth = 1;"
      "DELETE FROM traced_position; INSERT INTO traced_position VALUES (1, 1, 1, 9, 1)");
  judge(db, std::vector<int64_t>{1});
  EXPECT_EQ(check_database(db),
            (std::vector<std::string>{
                "traced_position: 1 positions of trace rows are not in it",
                "trace_row: 1 rows do not say which of their place stands for the others"}));
  EXPECT_EQ(repair_database(db, {}).size(), 4u);
  EXPECT_EQ(check_database(db), std::vector<std::string>());
  EXPECT_EQ(text_of(db, kAll), "0|1|1|0|0\n1|0|0|0|0");
  EXPECT_EQ(text_of(db, "SELECT side, pos_id, demands FROM traced_position"), "1|1|0");
  EXPECT_EQ(number_of(db, "SELECT count(*) FROM verdict"), 0) << "by what was wrong";
  EXPECT_EQ(repair_database(db, {}), std::vector<std::string>());
}

TEST_F(Checking, WhatIsKeptIsComparedWithTheViews) {
  const std::vector<int64_t> run{1};
  judge(db, run);
  const auto wrong = [this] {
    SQLite::Database reader = open_unchanged(file);
    return runs_kept_wrong(reader);
  };
  EXPECT_EQ(wrong(), std::vector<int64_t>());
  db.exec("UPDATE verdict SET pairs = 7");
  EXPECT_EQ(wrong(), run);
  EXPECT_EQ(repair_database(db, run),
            std::vector<std::string>{"verdicts of 1 runs were forgotten"});
  EXPECT_EQ(number_of(db, "SELECT count(*) FROM verdict"), 0);
  EXPECT_EQ(wrong(), std::vector<int64_t>());
  judge(db, run);
  db.exec(
      "INSERT INTO verdict SELECT * FROM verdict WHERE false; DELETE FROM verdict WHERE level ="
      " 'prompt'");
  EXPECT_EQ(wrong(), run);
}

TEST_F(Checking, ARunInAnotherLineageThanItStatesIsFoundAndPutRight) {
  const std::string kMembers = "SELECT lineage || ' ' || injected FROM lineage_member";
  const std::string stated = text_of(db, kMembers);
  for (const char* damage :
       {"UPDATE lineage_member SET lineage = 'other'", "UPDATE lineage_member SET injected = 1",
        "DELETE FROM lineage_member"}) {
    db.exec(damage);
    EXPECT_EQ(
        check_database(db),
        std::vector<std::string>{"lineage_member: 1 runs are not in the lineage that they state"});
    EXPECT_EQ(repair_database(db, {}).size(), 1u);
    EXPECT_EQ(text_of(db, kMembers), stated);
  }
}

}  // namespace
}  // namespace greta
