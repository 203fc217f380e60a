#include "db/forget.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "common/process.h"
#include "common/temporary_folder.h"
#include "db/check.h"
#include "db/judge.h"
#include "db/merge.h"
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

/// Two runs whose rows have a sample, a sketch and a context each.
struct Forget : testing::Test {
  Forget() {
    for (const char* run : {"x/a", "x/b"}) {
      w.run({.name = run, .experiment = "x"});
      w.match("x_in", 0);
      w.rounding("attn_out", 0);
      w.add(prefill("mlp_out", 1, 1).sampled({1, 2}), decode("mlp_out", 1, 1).sampled({1, 2}));
      w.plan_what_is_there();
      w.db.exec("INSERT INTO row_context(route) VALUES ('MFMA')");
      w.db.exec("UPDATE trace_row SET context_id = " + std::to_string(w.db.getLastInsertRowid()) +
                " WHERE run_id = " + std::to_string(w.current_run()));
      judge(w.db, std::vector<int64_t>{w.current_run()});
    }
  }
  ForgetSummary forget(const std::string& name) {
    return forget_runs(w.db, {{number("SELECT id FROM run WHERE name = '" + name + "'"), name}});
  }
  int64_t number(const std::string& sql) { return number_of(w.db, sql); }
  int64_t count(const std::string& table) { return number("SELECT count(*) FROM " + table); }
  void expect_sound() { EXPECT_EQ(check_database(w.db), std::vector<std::string>()); }

  Warehouse w;
};

TEST_F(Forget, TakesAllOfARunAndNothingOfAnother) {
  const std::string of_b =
      "SELECT v.*, t.* FROM run_verdict v JOIN trace t USING (run) WHERE run = 'x/b'";
  const std::string before = w.rows(of_b);
  const ForgetSummary summary = forget("x/a");
  EXPECT_EQ(summary.runs, 1);
  EXPECT_EQ(summary.rows, 6);
  EXPECT_EQ(summary.sources, 1);
  EXPECT_EQ(w.rows(of_b), before);
  for (const char* table :
       {"prompt", "trace_row", "traced_position", "plan", "source", "verdict"}) {
    EXPECT_EQ(count(std::string(table) + " WHERE run_id = 1"), 0) << table;
    EXPECT_GT(count(std::string(table) + " WHERE run_id = 2"), 0) << table;
  }
  EXPECT_EQ(count("row_context"), 1);
  EXPECT_EQ(count("sample"), 2);
  EXPECT_EQ(count("sketch"), 3) << "the equal ones of a sample are one";
  expect_sound();
}

TEST_F(Forget, TakesTheDifferencesOfARunWithTheirParts) {
  for (const char* run : {"1", "2"}) {
    w.db.exec(std::string("INSERT INTO difference SELECT ") + run + ", " + run +
              ", min(id), 37, 0, 70, 1, 2, 4, 1, 0, 0, 0.5, 1, 0, 9, 0, 1 FROM prompt WHERE run_id"
              " = " +
              run + "; INSERT INTO difference_part VALUES (" + run + ", 0, 1000000)");
  }
  forget("x/a");
  EXPECT_EQ(w.rows("SELECT id, run_id FROM difference"), "2|2");
  EXPECT_EQ(w.rows("SELECT difference_id FROM difference_part"), "2");
  expect_sound();
}

TEST_F(Forget, LeavesNoRowInAnyTableThatNamesARunOrASource) {
  forget("x/a");
  forget("x/b");
  SQLite::Statement columns(
      w.db,
      "SELECT s.name, c.name FROM sqlite_schema s, pragma_table_info(s.name) c"
      " WHERE s.type = 'table' AND c.name IN ('run_id', 'source_id')");
  int tables = 0;
  for (; columns.executeStep(); ++tables) {
    EXPECT_EQ(count(columns.getColumn(0)), 0) << columns.getColumn(0).getString();
  }
  EXPECT_GT(tables, 20);
  for (const char* table : {"run", "prompt", "source", "sample", "sketch", "row_context"}) {
    EXPECT_EQ(count(table), 0) << table;
  }
  expect_sound();
}

TEST_F(Forget, KeepsWhatOthersUse) {
  w.db.exec(
      "UPDATE trace_row SET sketch_id = (SELECT min(sketch_id) FROM trace_row WHERE run_id = 1),"
      " context_id = 1 WHERE run_id = 2 AND sketch_id IS NOT NULL");
  forget("x/a");
  EXPECT_EQ(count("row_context"), 2);
  EXPECT_GE(number("SELECT count(*) FROM sketch k WHERE EXISTS (SELECT 1 FROM trace_row t WHERE"
                   " t.sketch_id = k.id)"),
            1);
  expect_sound();
}

TEST_F(Forget, TakesTracePointsThatOnlyTheseRunsBroughtUnlessSomebodyJudgesThem) {
  w.run({.name = "mine"});
  w.match("mine_1", 0);
  w.match("mine_2", 0);
  w.match("mine_3", 0);
  w.run({.name = "other"});
  w.match("mine_2", 0);
  w.db.exec("INSERT INTO tolerance SELECT id, 'bf16', 0.5 FROM tensor WHERE name = 'mine_3'");
  forget("mine");
  EXPECT_EQ(w.rows("SELECT name FROM tensor WHERE stage = 'unknown' ORDER BY name"),
            "mine_2\nmine_3");
  EXPECT_EQ(w.rows("SELECT name FROM tensor_name WHERE name GLOB 'mine*' ORDER BY name"),
            "mine_2\nmine_3");
  expect_sound();
}

TEST_F(Forget, ADirectoryLevelGoesWithItsLastRun) {
  w.run({.name = "x", .experiment = "x"});
  w.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (" +
            std::to_string(w.current_run()) + ", 'dtype', 'bf16', 0)");
  EXPECT_EQ(forget("x/a").levels, 0);
  EXPECT_EQ(count("attribute"), 1);
  EXPECT_EQ(forget("x/b").levels, 1);
  EXPECT_EQ(count("run"), 0);
  EXPECT_EQ(count("attribute"), 0);
  expect_sound();
}

TEST_F(Forget, ARunWithOthersBelowItStaysAsTheirLevel) {
  w.run({.name = "x", .experiment = "x", .status = "failed"});
  w.match("x_in", 0);
  const int64_t id = w.current_run(), metadata = w.add_source("metadata.json", "metadata");
  w.db.exec("INSERT INTO attribute(run_id, dim, value, rank, source_id) VALUES (" +
            std::to_string(id) + ", 'date', '2026-02-07', 0, NULL), (" + std::to_string(id) +
            ", 'dtype', 'bf16', 2, " + std::to_string(metadata) + "), (" + std::to_string(id) +
            ", 'host', 'h', 2, " + std::to_string(w.trace_source()) + ")");
  w.db.exec("UPDATE source SET rows = 2 WHERE id = " + std::to_string(w.trace_source()));
  EXPECT_EQ(forget("x").rows, 2);
  EXPECT_EQ(w.rows("SELECT dim FROM attribute ORDER BY dim"), "date\ndtype");
  EXPECT_EQ(number("SELECT run_id FROM directory_level"), id);
  EXPECT_EQ(w.rows("SELECT run FROM run_verdict ORDER BY run"), "x/a\nx/b");
  expect_sound();
}

TEST_F(Forget, AnotherNameUnderTheIdIsLeftAlone) {
  EXPECT_EQ(forget_runs(w.db, {{1, "renamed"}, {99, "gone"}}).runs, 0);
  EXPECT_EQ(count("run"), 2);
}

TEST_F(Forget, ErrorsOfNoSourceGoWithTheLastRunThatTheySpeakOf) {
  w.db.exec(
      "INSERT INTO ingest_error(file, line, severity, reason, about) VALUES"
      " ('1', 0, 'error', 'bad', 'x/a'), ('2', 0, 'error', 'bad', 'x'),"
      " ('3', 0, 'error', 'bad', 'x/a/traces'), ('4', 0, 'error', 'bad', 'x/b'),"
      " ('5', 0, 'error', 'bad', NULL)");
  forget("x/a");
  EXPECT_EQ(w.rows("SELECT file FROM ingest_error ORDER BY file"), "2\n4\n5");
  forget("x/b");
  EXPECT_EQ(w.rows("SELECT file FROM ingest_error ORDER BY file"), "5");
}

TEST_F(Forget, IsUndoneByWhateverStopsIt) {
  const auto counts = [this] {
    return w.rows(
        "SELECT (SELECT count(*) FROM trace_row), (SELECT count(*) FROM sketch),"
        " (SELECT count(*) FROM verdict), (SELECT count(*) FROM run)");
  };
  const std::string before = counts();
  EXPECT_THROW(forget_runs(w.db, {{1, "x/a"}},
                           [](const char* what, int64_t, int64_t) {
                             if (what[0] == 'c') throw std::runtime_error("stop");
                           }),
               std::runtime_error);
  EXPECT_EQ(counts(), before);
  w.db.exec("UPDATE plan SET layer = layer + 100");
  EXPECT_EQ(count("verdict"), 0) << "triggers work again";
  EXPECT_THROW(w.db.exec("DELETE FROM run"), SQLite::Exception) << "foreign keys, too";
}

TEST_F(Forget, WouldLeaveARowThatRefersToNothing) {
  w.db.exec(
      "PRAGMA foreign_keys = OFF; UPDATE plan SET prompt_id = 1 WHERE run_id = 2;"
      " PRAGMA foreign_keys = ON");
  EXPECT_THROW(forget("x/a"), DatabaseError);
  EXPECT_EQ(count("run"), 2);
}

TEST_F(Forget, WhatMayStillBeWrittenIsNamed) {
  const std::vector<RunToForget> both{{1, "x/a"}, {2, "x/b"}};
  EXPECT_EQ(run_being_written(w.db, both), std::nullopt);
  const Process me = this_process();
  SQLite::Statement ingest(
      w.db, "INSERT INTO ingest VALUES (1, '2026-02-07T00:00:00Z', ?, ?, ?, '', '[]')");
  ingest.bind(1, me.host);
  ingest.bind(2, me.pid);
  ingest.bind(3, me.start);
  ingest.exec();
  w.db.exec("INSERT INTO ingest_run VALUES (2, 1)");
  EXPECT_EQ(run_being_written(w.db, both), "x/b");
  w.db.exec("UPDATE ingest SET pid = 2147483647, process = 'ended'");
  EXPECT_EQ(run_being_written(w.db, both), std::nullopt);
  w.db.exec("UPDATE run SET status = 'running' WHERE id = 1");
  EXPECT_EQ(run_being_written(w.db, both), "x/a");
  EXPECT_THROW(forget("x/a"), DatabaseError);
  EXPECT_EQ(forget_runs(w.db, both, nullptr, WrittenRuns::kForget).runs, 2);
}

TEST_F(Forget, VacuumGivesTheSpaceBack) {
  const TemporaryFolder folder;
  SQLite::Database db = open_for_writing(folder / "g.db");
  const auto pages = [&db] { return number_of(db, "PRAGMA page_count"); };
  const int64_t empty = pages();
  db.exec(
      "INSERT INTO run(name, experiment) VALUES ('r', 'e');"
      "INSERT INTO source(run_id, sha256, shape, bytes) VALUES (1, 'x', 'records', 0);"
      "INSERT INTO ingest_error(source_id, file, line, severity, reason, raw)"
      " VALUES (1, 'f', 0, 'error', 'bad', zeroblob(1000000))");
  forget_runs(db, {{1, "r"}});
  EXPECT_GT(pages(), empty + 50);
  give_back_space(db);
  EXPECT_LE(pages(), empty + 5);
}

/// A level whose summary states a metric of each of its runs.
struct ForgetSummarised : testing::Test {
  void fill(Warehouse& w) {
    w.run({.name = "x", .experiment = "x"});
    const std::string summary = std::to_string(w.add_source("sha of summary", "summary"));
    for (const char* run : {"x/a", "x/b"}) {
      const std::string id = std::to_string(w.run({.name = run, .experiment = "x"}));
      w.match("x_in", 0);
      w.db.exec("INSERT INTO run_metric(run_id, name, value, text, source_id) VALUES (" + id +
                ", 'wall', 1.5, '1.5', " + summary + ")");
    }
  }
  std::string metrics(Warehouse& w) {
    return w.rows(
        "SELECT r.name, m.name FROM run_metric m JOIN run r ON r.id = m.run_id ORDER BY 1");
  }
  TemporaryFolder folder;
};

TEST_F(ForgetSummarised, ASourceThatSpokeOfTheRunCanBeStoredAnew) {
  Warehouse w;
  fill(w);
  forget_runs(w.db, {{2, "x/a"}});
  EXPECT_EQ(metrics(w), "x/b|wall");
  EXPECT_FALSE(forget_marked_source(w.db, 1, "", "", "another"));
  EXPECT_TRUE(forget_marked_source(w.db, 1, "", "", "sha of summary"));
  EXPECT_FALSE(forget_marked_source(w.db, 1, "", "", "sha of summary"));
  EXPECT_EQ(metrics(w), "");
  EXPECT_EQ(check_database(w.db), std::vector<std::string>());
}

TEST_F(ForgetSummarised, MergesBringItBackOnce) {
  Warehouse whole(folder / "whole.db"), part(folder / "part.db");
  fill(whole);
  fill(part);
  forget_runs(part.db, {{2, "x/a"}});
  const std::string all = metrics(whole);
  merge(whole.db, folder / "part.db");
  EXPECT_EQ(metrics(whole), all) << "what is whole here is known";
  merge(part.db, folder / "whole.db");
  EXPECT_EQ(metrics(part), all) << "what is whole there comes";
  merge(part.db, folder / "whole.db");
  EXPECT_EQ(metrics(part), all);
  EXPECT_EQ(check_database(part.db), std::vector<std::string>());
}

}  // namespace
}  // namespace greta
