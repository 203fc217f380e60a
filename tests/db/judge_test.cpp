// Many runs are judged on several threads as one by one, and a turn that fails keeps nothing.
#include "db/judge.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "db/database.h"
#include "db/early_judge.h"
#include "db/kept_tally.h"
#include "db/transaction.h"
#include "tests/db/database_file.h"

namespace greta {
namespace {

namespace fs = std::filesystem;

constexpr int kRuns = 240;  // enough for four threads

struct Judging : DatabaseFile {
  Judging() {
    SQLite::Database db = open_for_writing(file);
    // Runs of two to six pairs each; of every third the last one differs.
    db.exec(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " +
        std::to_string(kRuns) +
        ") INSERT INTO run(name, experiment, hash_algo) SELECT 'r' || i, 'e', 'greta-1' FROM n;"
        "INSERT INTO prompt(run_id, name) SELECT id, 'p' FROM run;"
        "INSERT INTO source(run_id, sha256, shape, bytes) SELECT id, 'x', 'stage_trace', 0 FROM "
        "run;"
        "WITH layer(l) AS (VALUES (0), (1), (2), (3), (4), (5)), side(s) AS (VALUES (0), (1))"
        " INSERT INTO trace_row(run_id, prompt_id, side, pos_id, layer, tensor_id, nth, crowded,"
        "  phase_id, step, name_id, token_id, n, hash, flags, source_id, line)"
        " SELECT r.id, p.id, s, 7, l, t.tensor_id, 0, 0,"
        "  (SELECT id FROM phase WHERE name = CASE s WHEN 0 THEN 'prefill_last' ELSE 'decode0' "
        "END),"
        "  s, t.id, 1, 64, 100 * l + (l = 1 + r.id % 5 AND r.id % 3 = 0) * s, 0, r.id, 2 * l + s"
        " FROM run r JOIN prompt p ON p.run_id = r.id JOIN layer JOIN side"
        " JOIN tensor_name t ON t.name = 'attn_out' WHERE l <= 1 + r.id % 5;"
        "INSERT INTO traced_position SELECT DISTINCT run_id, prompt_id, side, pos_id, side = 0"
        " FROM trace_row");
  }

  std::string kept(SQLite::Database& db) const {
    std::string text;
    for (const char* table : {"kept_tally", "kept_verdict"}) {
      SQLite::Statement rows(
          db, std::string("SELECT * FROM ") + table + " ORDER BY 1, 2, 3, 4, 5, 6, 7");
      while (rows.executeStep()) {
        for (int i = 0; i < rows.getColumnCount(); ++i) text += rows.getColumn(i).getString() + "|";
        text += "\n";
      }
    }
    return text;
  }
};

TEST_F(Judging, OnSeveralThreadsKeepsWhatIsKeptOneByOne) {
  SQLite::Database db = open_for_writing(file);
  const std::vector<int64_t> runs = runs_without_tally(db);
  ASSERT_EQ(runs.size(), size_t{kRuns});
  in_transaction(db, [&] {
    TallyReader reader(db);
    TallyKeeper keeper(db);
    for (int64_t run : runs) keeper.keep(reader.read(run));
  });
  const std::string one_by_one = kept(db);
  EXPECT_EQ(number_of(db, "SELECT sum(fail > 0) FROM kept_verdict WHERE prompt_id = 0"), kRuns / 3);
  for (int threads : {1, 2, 4}) {
    db.exec("DELETE FROM kept_tally");
    judge(db, runs, threads);
    EXPECT_EQ(kept(db), one_by_one) << threads;
  }
  judge(db, runs, 4);
  EXPECT_EQ(kept(db), one_by_one) << "kept ones stay";
}

/// One more run, 1000, of 30 prompts: rows that match, differ, are missing, are alone, and are not
/// finite.
void add_large_run(SQLite::Database& db) {
  db.exec(
      "INSERT INTO run(id, name, experiment, hash_algo) VALUES (1000, 'many', 'e', 'greta-1');"
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30)"
      " INSERT INTO prompt(id, run_id, name) SELECT 1000 + i, 1000, 'p' || i FROM n;"
      "INSERT INTO source(id, run_id, sha256, shape, bytes)"
      " VALUES (1000, 1000, 'x', 'stage_trace', 0);"
      "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9),"
      " side(s) AS (VALUES (0), (1))"
      " INSERT INTO trace_row(run_id, prompt_id, side, pos_id, layer, tensor_id, nth, crowded,"
      "  phase_id, step, name_id, token_id, n, hash, nan, flags, source_id, line)"
      " SELECT 1000, p.id, s, pos.i, layer.i, t.tensor_id, 0, 0,"
      "  (SELECT id FROM phase WHERE name = CASE s WHEN 0 THEN 'prefill_last' ELSE 'decode0' END),"
      "  s, t.id, 1, 64, 100 * layer.i + pos.i + (p.id % 4 = 0 AND layer.i > p.id % 7) * s,"
      "  p.id % 11 = 0 AND s AND layer.i = 5, 0, 1000, 0"
      " FROM prompt p JOIN n layer JOIN n pos JOIN side"
      " JOIN tensor_name t ON t.name = 'attn_out' WHERE p.run_id = 1000"
      "  AND NOT (p.id % 5 = 0 AND pos.i = 3 AND s = 1) AND NOT (p.id % 6 = 0 AND pos.i = 4 AND s "
      "= 0);"
      "INSERT INTO traced_position SELECT DISTINCT run_id, prompt_id, side, pos_id, side = 0"
      " FROM trace_row WHERE run_id = 1000;"
      "INSERT INTO attribute(run_id, dim, value, rank) VALUES (1000, 'trace_rows', '9999', 0)");
}

TEST_F(Judging, OfOneRunIsTheSameWhenThreadsShareItsPrompts) {
  SQLite::Database db = open_for_writing(file);
  add_large_run(db);
  in_transaction(db, [&] { keep_tally(db, 1000); });
  const std::string by_one = kept(db);
  EXPECT_GT(number_of(db, "SELECT count(DISTINCT status) FROM kept_tally"), 4);
  EXPECT_GT(number_of(db, "SELECT count(*) FROM kept_tally WHERE prompt_id = 0"), 0);
  for (const int threads : {1, 2, 3, 16}) {
    db.exec("DELETE FROM kept_tally");
    judge_run(db, 1000, threads);
    EXPECT_EQ(kept(db), by_one) << threads;
  }
  judge_run(db, 1000, 2);
  EXPECT_EQ(kept(db), by_one) << "it was kept already";
}

/// What is kept of the run when it is judged at once.
std::string kept_at_once(const Judging& test, SQLite::Database& db) {
  db.exec("DELETE FROM kept_tally");
  in_transaction(db, [&] { keep_tally(db, 1000); });
  const std::string kept = test.kept(db);
  db.exec("DELETE FROM kept_tally");
  return kept;
}

/// Adds prompts, and waits until their tallies are known.
void add_and_wait(EarlyJudge& judge, int64_t first, int64_t last) {
  const size_t before = judge.n_known();
  for (int64_t prompt = first; prompt <= last; ++prompt) judge.add(prompt);
  while (judge.n_known() < before + static_cast<size_t>(last - first + 1)) {
    std::this_thread::yield();
  }
}

constexpr int64_t kAnyRows = 1 << 20;

TEST_F(Judging, OfPromptsWhileOthersAreWrittenIsTheSame) {
  SQLite::Database db = open_for_writing(file);
  add_large_run(db);
  const std::string at_once = kept_at_once(*this, db);
  for (const int64_t last : {1030, 1017, 1001}) {
    EarlyJudge judge(db, 1000, 3);
    add_and_wait(judge, 1001, last);
    judge.finish(2, kAnyRows);
    EXPECT_EQ(kept(db), at_once) << last;
    db.exec("DELETE FROM kept_tally");
  }
  EarlyJudge none(db, 1000, 0);
  none.add(1001);
  none.finish(2, kAnyRows);
  EXPECT_EQ(kept(db), at_once);
}

TEST_F(Judging, WhatTheRunChangesIsJudgedAgain) {
  SQLite::Database db = open_for_writing(file);
  add_large_run(db);
  db.exec(
      "INSERT INTO attribute(run_id, dim, value, rank) VALUES (1000, 'backend', 'cpu', 0);"
      "UPDATE run SET dtype = 'f32' WHERE id = 1000");
  EarlyJudge judge(db, 1000, 2);
  add_and_wait(judge, 1001, 1020);
  const std::string before = kept_at_once(*this, db);
  // of a prompt that had ended: all of its rows are as on the other side
  db.exec("UPDATE trace_row SET hash = 5, nan = 0 WHERE run_id = 1000 AND prompt_id = 1004");
  judge.forget(1004);
  judge.add(1004);
  // of the run
  db.exec("DELETE FROM attribute WHERE run_id = 1000 AND dim = 'trace_rows'");
  judge.forget();
  judge.finish(2, kAnyRows);
  const std::string after = kept(db);
  EXPECT_NE(after, before);
  EXPECT_EQ(after, kept_at_once(*this, db));
}

TEST_F(Judging, WhatOthersChangeIsJudgedAgain) {
  SQLite::Database db = open_for_writing(file);
  add_large_run(db);
  const std::string before = kept_at_once(*this, db);
  EarlyJudge judge(db, 1000, 2);
  add_and_wait(judge, 1001, 1030);
  {
    SQLite::Database other = open_for_writing(file);
    other.exec("UPDATE trace_row SET hash = 5, nan = 0 WHERE run_id = 1000 AND prompt_id = 1004");
  }
  judge.finish(2, kAnyRows);
  const std::string after = kept(db);
  EXPECT_NE(after, before);
  EXPECT_EQ(after, kept_at_once(*this, db));

  EarlyJudge again(db, 1000, 2);
  add_and_wait(again, 1001, 1010);
  SQLite::Database other = open_for_writing(file);
  other.exec("UPDATE trace_row SET hash = 6 WHERE run_id = 1000 AND prompt_id = 1005");
  again.add(1011);  // sees it
  again.finish(2, kAnyRows);
  const std::string then = kept(db);
  EXPECT_EQ(then, kept_at_once(*this, db));
}

TEST_F(Judging, MoreThanIsAllowedIsLeftToWhoeverAsks) {
  SQLite::Database db = open_for_writing(file);
  add_large_run(db);
  const std::string at_once = kept_at_once(*this, db);
  {
    EarlyJudge judge(db, 1000, 2);
    add_and_wait(judge, 1001, 1010);
    judge.finish(2, 100);
    EXPECT_EQ(kept(db), "");
  }
  EarlyJudge judge(db, 1000, 2);
  add_and_wait(judge, 1001, 1030);
  judge.finish(2, 0);  // nothing is left
  EXPECT_EQ(kept(db), at_once);
}

// Who closes a file drops every lock of its process on it, and another process that is the last to
// close a database without locks removes its log.
TEST_F(Judging, LeavesTheWriterItsLockOnTheFile) {
  SQLite::Database db = open_for_writing(file);
  judge(db, runs_without_tally(db), 4);
  const int fd = ::open(file.c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_start = 0x40000002;  // SQLite's shared lock
  lock.l_len = 510;
  EXPECT_EQ(::fcntl(fd, F_OFD_GETLK, &lock), 0);
  EXPECT_EQ(lock.l_type, F_RDLCK);
  ::close(fd);
}

TEST_F(Judging, ThatFailsKeepsWholeVerdictsOnly) {
  SQLite::Database db = open_for_writing(file);
  const std::vector<int64_t> runs = runs_without_tally(db);
  db.exec(
      "CREATE TEMP TRIGGER refuse BEFORE INSERT ON main.kept_verdict WHEN NEW.run_id = 200"
      " BEGIN SELECT RAISE(ABORT, 'refused'); END");
  EXPECT_THROW(judge(db, runs, 4), SQLite::Exception);
  EXPECT_EQ(
      number_of(db,
                "SELECT count(*) FROM run r WHERE (SELECT count(*) FROM kept_tally WHERE run_id"
                " = r.id) > 0 <> (SELECT count(*) FROM kept_verdict WHERE run_id = r.id) > 0"),
      0);
  db.exec("DROP TRIGGER refuse");
  judge(db, runs_without_tally(db), 4);
  EXPECT_EQ(number_of(db, "SELECT count(DISTINCT run_id) FROM kept_verdict"), kRuns);
}

}  // namespace
}  // namespace greta
