// Runs are judged in turns, and a turn that fails keeps nothing of a run by halves.
#include "db/judge.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "db/check.h"
#include "db/database.h"
#include "tests/db/database_file.h"

namespace greta {
namespace {

constexpr int kRuns = 60;

struct Judging : DatabaseFile {
  Judging() {
    // Runs of two to six pairs each; of every third the last one differs.
    db.exec(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " +
        std::to_string(kRuns) +
        ") INSERT INTO run(name, experiment, hash_algo, mode, date) SELECT 'r' || i, 'e',"
        " 'greta-1', CASE WHEN i % 2 THEN 'kv_aligned' END, printf('2026-01-%02d', 1 + i / 3)"
        " FROM n;"
        "INSERT INTO prompt(run_id, name) SELECT id, 'p' FROM run;"
        "INSERT INTO source(run_id, sha256, shape, bytes) SELECT id, 'x', 'stage_trace', 0 FROM "
        "run;"
        "WITH layer(l) AS (VALUES (0), (1), (2), (3), (4), (5)), side(s) AS (VALUES (0), (1))"
        " INSERT INTO trace_row(run_id, prompt_id, side, pos_id, layer, tensor_id, nth,"
        "  phase_id, step, name_id, token_id, n, hash, flags, source_id, line)"
        " SELECT r.id, p.id, s, 7, l, t.tensor_id, 0,"
        "  (SELECT id FROM phase WHERE name = CASE s WHEN 0 THEN 'prefill_last' ELSE 'decode0' "
        "END),"
        "  s, t.id, 1, 64, 100 * l + (l = 1 + r.id % 5 AND r.id % 3 = 0) * s, 0, r.id, 2 * l + s"
        " FROM run r JOIN prompt p ON p.run_id = r.id JOIN layer JOIN side"
        " JOIN tensor_name t ON t.name = 'attn_out' WHERE l <= 1 + r.id % 5");
  }

  int64_t count(const std::string& what) { return number_of(db, "SELECT count(*) FROM " + what); }
  std::vector<int64_t> runs_kept_otherwise() const {
    SQLite::Database reader = open_unchanged(file);
    return runs_kept_wrong(reader);
  }

  SQLite::Database db = open_for_writing(file);
};

TEST_F(Judging, KeepsWhatTheViewsSay) {
  const std::vector<int64_t> runs = unjudged_runs(db);
  ASSERT_EQ(runs.size(), size_t{kRuns});
  judge(db, runs);
  EXPECT_EQ(unjudged_runs(db), std::vector<int64_t>());
  EXPECT_EQ(count("verdict WHERE level = 'run' AND fail > 0"), kRuns / 3);
  EXPECT_EQ(count("run_change WHERE level = 'run'"), count("lineage WHERE baseline_id > 0"));
  EXPECT_EQ(runs_kept_otherwise(), std::vector<int64_t>());
  const std::string kept = text_of(db, "SELECT * FROM verdict"),
                    changes = text_of(db, "SELECT * FROM run_change");
  judge(db, runs);
  judge_rest(db);
  EXPECT_EQ(text_of(db, "SELECT * FROM verdict"), kept);
  EXPECT_EQ(text_of(db, "SELECT * FROM run_change"), changes);
}

TEST_F(Judging, WhatIsForgottenIsJudgedAgainWithWhatIsComparedWithIt) {
  judge_rest(db);
  const std::string changes = text_of(db, "SELECT * FROM run_change");
  EXPECT_GT(count("run_change WHERE baseline_id = 30"), 0);
  forget_verdict(db, 30);
  EXPECT_EQ(unjudged_runs(db), std::vector<int64_t>{30});
  EXPECT_EQ(count("run_change WHERE baseline_id = 30 OR run_id = 30"), 0);
  judge(db, std::vector<int64_t>{30});
  EXPECT_EQ(text_of(db, "SELECT * FROM run_change"), changes);
}

TEST_F(Judging, ThatEndsAmongChangesLeavesRunsUnjudged) {
  db.exec(
      "CREATE TEMP TRIGGER refuse BEFORE INSERT ON main.run_change WHEN NEW.run_id = 40"
      " BEGIN SELECT RAISE(ABORT, 'refused'); END");
  EXPECT_THROW(judge(db, unjudged_runs(db)), SQLite::Exception);
  db.exec("DROP TRIGGER refuse");
  judge(db, unjudged_runs(db));  // as whoever opens the file next does
  EXPECT_EQ(count("run_change WHERE level = 'run'"), count("lineage WHERE baseline_id > 0"));
  EXPECT_EQ(runs_kept_otherwise(), std::vector<int64_t>());
}

TEST_F(Judging, AQuestionLeavesWhatItJudgedInTheFileItself) {
  std::filesystem::path alone = file;
  alone += ".copy";
  { SQLite::Database closing = std::move(db); }
  open_for_reading(file);
  std::filesystem::copy_file(file, alone);  // without the log beside it
  SQLite::Database copy = open_unchanged(alone);
  EXPECT_EQ(number_of(copy, "SELECT count(*) FROM verdict WHERE level = 'run'"), kRuns);
}

TEST_F(Judging, ARunThatIsGoneIsNotKept) {
  judge(db, std::vector<int64_t>{4711});
  EXPECT_EQ(count("verdict"), 0);
}

TEST_F(Judging, ThatFailsKeepsWholeVerdictsOnly) {
  db.exec(
      "CREATE TEMP TRIGGER refuse BEFORE INSERT ON main.verdict WHEN NEW.run_id = 40 AND"
      " NEW.level = 'prompt' BEGIN SELECT RAISE(ABORT, 'refused'); END");
  EXPECT_THROW(judge(db, unjudged_runs(db)), SQLite::Exception);
  EXPECT_EQ(count("verdict WHERE run_id = 40"), 0);
  EXPECT_EQ(number_of(db,
                      "SELECT count(*) FROM (SELECT 1 FROM verdict GROUP BY run_id HAVING"
                      " sum(level = 'run') <> 1 OR sum(level = 'prompt') <> 1)"),
            0);
  db.exec("DROP TRIGGER refuse");
  judge_rest(db);
  EXPECT_EQ(runs_kept_otherwise(), std::vector<int64_t>());
  EXPECT_EQ(count("verdict WHERE level = 'run'"), kRuns);
}

}  // namespace
}  // namespace greta
