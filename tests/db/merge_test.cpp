#include "db/merge.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "common/temporary_folder.h"
#include "db/check.h"
#include "db/judge.h"
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

class MergeTest : public testing::Test {
 protected:
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }

  /// All tables but ids that merges may number otherwise, and the caches.
  static std::string everything(Warehouse& warehouse) {
    std::string text;
    for (const char* table :
         {"run",          "prompt",       "source",      "source_location", "row_context",
          "trace_row",    "trace_repeat", "sketch",      "sample",          "readout",
          "run_event",    "plan",         "attribute",   "run_metric",      "log_event",
          "document_row", "report",       "report_pair", "report_claim",    "ingest_error",
          "tensor",       "tensor_name",  "phase",       "traced_position"}) {
      text +=
          std::string(table) + ":\n" + warehouse.rows(std::string("SELECT * FROM ") + table) + "\n";
    }
    return text;
  }

  static std::string verdicts(Warehouse& warehouse,
                              const std::string& source = "source_file, source_line") {
    judge_rest(warehouse.db);
    return warehouse.rows(
               "SELECT run, date, mode, evidence, verdict, numeric_verdict, pairs, pass, fail, "
               "missing,"
               " first_fail, layer, tensor, prompt FROM run_verdict ORDER BY run") +
           "\n" +
           warehouse.rows(
               "SELECT run, prompt, first_fail, layer, tensor FROM first_fail ORDER BY run, "
               "prompt") +
           "\n" +
           warehouse.rows(
               "SELECT run, prompt, pos_id, layer, tensor, status, class, rel_l2 FROM pair ORDER "
               "BY 1, 2, 3, 4, 5") +
           "\n" +
           warehouse.rows(
               "SELECT run, prompt, phase, layer, tensor, hash, n, seen, route, extra, " + source +
               " FROM trace ORDER BY 1, 2, 3, 4, 5, 6") +
           "\n" +
           warehouse.rows(
               "SELECT run, report_file, claimed, conflict FROM report_conflict ORDER BY 1, 2");
  }

  TemporaryFolder folder_;
};

/// One of everything.
void fill(Warehouse& w, const std::string& run) {
  w.run({.name = run, .mode = "as_designed", .dtype = "bf16", .date = "2026-02-07"});
  w.match("x_in", 0);
  w.rounding("attn_out", 0);
  w.add(prefill("mine_" + run, 1, 18446744073709551615u).sampled({1, 2, 3}),
        decode("mine_" + run, 1, 5).sampled({1, 2, 4}));
  w.plan("p0", 0, 0, "x_in");
  int64_t report = w.report(
      run + ".tsv", 1, {{.prompt = "p1", .layer = 0, .tensor = "attn_out", .status = "DRIFT"}});
  w.claim(report, 3, "PASS");
  std::string id = std::to_string(w.current_run()), source = std::to_string(report);
  w.db.exec("INSERT INTO attribute(run_id, dim, value, rank, source_id) VALUES (" + id +
            ", 'dtype', 'bf16', 1, " + source +
            ");"
            "INSERT INTO run_metric(run_id, name, value, text, source_id) VALUES (" +
            id + ", 'wall', 1.5, '1.5', " + source +
            ");"
            "INSERT INTO log_event VALUES (" +
            source + ", 1, 0, " + id +
            ", 'p0', 'TAG', 0, '{}', 'TAG');"
            "INSERT INTO document_row VALUES (" +
            source +
            ", 1, 's', '{}');"
            "INSERT INTO ingest_error(source_id, file, line, severity, reason, raw) VALUES (" +
            source +
            ", 'f', 1, 'error', 'bad', x'ff');"
            "INSERT INTO ingest_error(file, line, severity, reason) VALUES ('g" +
            run +
            "', 0, 'warning', 'odd');"
            "INSERT INTO readout SELECT " +
            id + ", (SELECT min(id) FROM prompt WHERE run_id = " + id +
            "), 0, 0, 3, id, 79, 1.0, 5, 0.5, 0.5, 100, 'MFMA', 79, 1, 1e-6, NULL, " + source +
            ", 9 FROM tensor_name WHERE name = 'logits';"
            "INSERT INTO row_context(route, extra) VALUES ('MFMA', '{\"a\":1}');"
            "UPDATE trace_row SET context_id = last_insert_rowid() WHERE run_id = " +
            id +
            ";"
            "INSERT INTO trace_repeat SELECT run_id, prompt_id, side, pos_id, layer, tensor_id, "
            "nth, 2"
            "  FROM trace_row WHERE run_id = " +
            id + " LIMIT 1");
}

std::string counts(Warehouse& w) {
  std::string text;
  for (const char* table : {"run", "source", "trace_row", "sample", "sketch", "readout", "plan",
                            "attribute", "run_metric", "log_event", "document_row", "report",
                            "report_pair", "report_claim", "ingest_error", "trace_repeat"}) {
    text += std::string(table) + "=" + w.rows(std::string("SELECT count(*) FROM ") + table) + " ";
  }
  return text;
}

TEST_F(MergeTest, LosesNothing) {
  Warehouse other(path("other.db"));
  fill(other, "b");
  std::string expected = verdicts(other);
  Warehouse into(path("into.db"));
  MergeSummary summary = merge(into.db, path("other.db"));
  EXPECT_EQ(summary.new_runs, 1);
  EXPECT_EQ(summary.new_sources, 2);
  EXPECT_EQ(summary.rows, 6);
  EXPECT_EQ(summary.duplicates, 0);
  EXPECT_EQ(counts(into), counts(other));
  EXPECT_EQ(verdicts(into), expected);
  EXPECT_TRUE(check_database(into.db).empty());
}

TEST_F(MergeTest, RemapsIntoWhatIsThere) {
  Warehouse other(path("other.db")), into(path("into.db"));
  fill(into, "a");
  fill(other, "b");
  merge(into.db, path("other.db"));
  EXPECT_TRUE(check_database(into.db).empty());
  Warehouse both;
  fill(both, "a");
  fill(both, "b");
  EXPECT_EQ(verdicts(into, "1"), verdicts(both, "1"));
}

TEST_F(MergeTest, OfADamagedFileMergesNothing) {
  for (const char* damage :
       {"UPDATE trace_row SET source_id = 99", "UPDATE trace_row SET prompt_id = 99 WHERE side = 0",
        "UPDATE trace_row SET phase_id = 99", "UPDATE trace_row SET name_id = 9999",
        "UPDATE trace_row SET sample_id = 99999", "UPDATE trace_row SET context_id = 99",
        "UPDATE source SET rows = 99", "DELETE FROM prompt", "DELETE FROM run",
        "UPDATE run_metric SET source_id = 99", "UPDATE report_claim SET run_id = 99",
        "UPDATE plan SET tensor_id = 9999",
        "DROP TABLE document_row; CREATE TABLE document_row(source_id, line, section, cells)"}) {
    std::filesystem::remove(path("other.db"));
    {
      Warehouse other(path("other.db"));
      fill(other, "b");
      other.db.exec(std::string("PRAGMA foreign_keys = OFF; ") + damage);
    }
    Warehouse into;
    fill(into, "a");
    const std::string before = everything(into);
    EXPECT_THROW(merge(into.db, path("other.db")), DatabaseError) << damage;
    EXPECT_EQ(everything(into), before) << damage;
  }
}

TEST_F(MergeTest, NeitherWritesToTheOtherFileNorRunsWhatItDefines) {
  std::filesystem::create_directories(folder_ / "file:x?mode=memory");
  const std::filesystem::path odd =
      folder_ / "file:x?mode=memory" / "o ?#%'; DROP TABLE run; --.db";
  {
    Warehouse other(odd);
    fill(other, "b");
    other.db.exec(
        "DROP VIEW stated_attribute; CREATE VIEW stated_attribute AS SELECT load_extension('x') AS "
        "y;"
        "CREATE TRIGGER theirs AFTER INSERT ON run BEGIN SELECT RAISE(FAIL, 'ran'); END");
    make_durable(other.db);
  }
  std::filesystem::permissions(odd, std::filesystem::perms::owner_read);
  Warehouse into(path("into.db"));
  EXPECT_EQ(merge(into.db, odd).rows, 6);
  EXPECT_TRUE(check_database(into.db).empty());
}

TEST_F(MergeTest, TwiceChangesNothing) {
  Warehouse other(path("other.db")), into(path("into.db"));
  fill(into, "a");
  fill(other, "b");
  fill(other, "c");
  merge(into.db, path("other.db"));
  std::string once = everything(into);
  MergeSummary again = merge(into.db, path("other.db"));
  EXPECT_EQ(everything(into), once);
  EXPECT_EQ(again.new_runs, 0);
  EXPECT_EQ(again.new_sources, 0);
  EXPECT_EQ(again.known_sources, 4);
  EXPECT_EQ(again.rows, 0);
}

TEST_F(MergeTest, OrderDoesNotMatterToTheViews) {
  Warehouse a(path("a.db")), b(path("b.db")), ab(path("ab.db")), ba(path("ba.db"));
  fill(a, "common");
  fill(a, "a");
  fill(b, "common");
  fill(b, "b");
  a.db.exec("UPDATE run SET dtype = 'fp16', seed = 3 WHERE name = 'common'");  // said otherwise
  merge(ab.db, path("a.db"));
  merge(ab.db, path("b.db"));
  merge(ba.db, path("b.db"));
  merge(ba.db, path("a.db"));
  EXPECT_EQ(verdicts(ab), verdicts(ba));
  EXPECT_EQ(counts(ab), counts(ba));
  std::string said = "SELECT dtype, seed FROM run WHERE name = 'common'";
  EXPECT_EQ(ab.rows(said), "bf16|3");
  EXPECT_EQ(ba.rows(said), "bf16|3");
}

TEST_F(MergeTest, SameSourceIsSkippedButItsPathIsKept) {
  Warehouse other(path("other.db")), into(path("into.db"));
  fill(into, "a");
  fill(other, "a");
  other.db.exec("UPDATE source_location SET path = 'elsewhere/' || path");
  MergeSummary summary = merge(into.db, path("other.db"));
  EXPECT_EQ(summary.new_sources, 0);
  EXPECT_EQ(summary.known_sources, 2);
  EXPECT_EQ(into.rows("SELECT count(*) FROM trace_row"), "6");
  EXPECT_EQ(into.rows("SELECT count(*) FROM run_metric"), "1");
  EXPECT_EQ(into.rows("SELECT count(*) FROM source_location"), "4");
}

TEST_F(MergeTest, RowsOfAnotherSourceAreDuplicatesOrConflicts) {
  Warehouse other(path("other.db")), into(path("into.db"));
  into.run();
  into.match("x_in", 0);
  into.match("attn_out", 0);
  other.run();
  other.match("x_in", 0);
  other.drift("attn_out", 0);
  other.db.exec("UPDATE source SET sha256 = 'another', rows = 4");
  MergeSummary summary = merge(into.db, path("other.db"));
  EXPECT_EQ(summary.new_sources, 1);
  EXPECT_EQ(summary.rows, 1);
  EXPECT_EQ(summary.duplicates, 3);
  EXPECT_EQ(summary.conflicts, 1);
  EXPECT_EQ(into.rows("SELECT verdict, first_fail FROM run_verdict"), "FAIL|AMBIGUOUS_TRACE");
  EXPECT_EQ(into.rows("SELECT sum(seen) FROM trace"), "8");
  EXPECT_EQ(into.rows("SELECT rows, duplicates, conflicts FROM source ORDER BY id"),
            "0|0|0\n4|3|1");
}

TEST_F(MergeTest, APromptOfOtherTokensIsNotMergedInSilence) {
  const std::string tokens = "UPDATE prompt SET n_tokens = 2, token_ids = ";
  for (const bool swapped : {false, true}) {
    Warehouse other(path(swapped ? "other2.db" : "other.db"));
    Warehouse into(path(swapped ? "into2.db" : "into.db"));
    for (Warehouse* w : {&other, &into}) {
      w->run();
      w->match("x_in", 0);
      w->plan_what_is_there();
      w->db.exec(tokens + ((w == &into) == swapped ? "'[1,2]'" : "'[1,3]'"));
    }
    judge_rest(into.db);
    ASSERT_EQ(into.rows("SELECT verdict FROM run_verdict"), "PASS");
    merge(into.db, path(swapped ? "other2.db" : "other.db"));
    EXPECT_EQ(into.rows("SELECT verdict, rejected FROM run_verdict"), "INCOMPLETE|1");
    EXPECT_EQ(into.rows("SELECT n_tokens, token_ids FROM prompt"), "2|[1,3]");
  }
}

TEST_F(MergeTest, RepeatsAddUpWithoutACommonSource) {
  Warehouse other(path("other.db")), into(path("into.db"));
  for (Warehouse* w : {&other, &into}) {
    w->run();
    w->add(prefill("x_in", 0, 1));
    w->db.exec(
        "INSERT INTO trace_repeat SELECT run_id, prompt_id, side, pos_id, layer, tensor_id, "
        "nth, 2 FROM trace_row");
  }
  other.db.exec("UPDATE source SET sha256 = 'another'");
  merge(into.db, path("other.db"));
  EXPECT_EQ(into.rows("SELECT seen FROM trace"), "6");
}

TEST_F(MergeTest, UnknownTensorsMeetByName) {
  Warehouse other(path("other.db")), into(path("into.db"));
  into.run({.name = "a"});
  into.add(prefill("zeta", 0, 1), prefill("alpha", 0, 1));
  other.run({.name = "b"});
  other.add(prefill("alpha", 0, 1), decode("alpha", 0, 1), prefill("beta", 0, 2),
            decode("beta", 0, 2));
  merge(into.db, path("other.db"));
  EXPECT_EQ(into.rows("SELECT tensor, status FROM pair WHERE run = 'b' ORDER BY tensor"),
            "alpha|MATCH\nbeta|MATCH");
  EXPECT_EQ(into.rows("SELECT count(*) FROM tensor_name WHERE name IN ('alpha', 'beta', 'zeta')"),
            "3");
}

TEST_F(MergeTest, AnotherReadoutOfTheSameKeyIsKeptAsAWarning) {
  Warehouse other(path("other.db")), into(path("into.db"));
  fill(into, "a");
  fill(other, "a");
  other.db.exec("UPDATE source SET sha256 = sha256 || '2'; UPDATE readout SET top1_id = 5");
  merge(into.db, path("other.db"));
  EXPECT_EQ(into.rows("SELECT top1_id FROM readout"), "79");
  EXPECT_EQ(into.rows("SELECT severity, line, raw ->> 'top1_id' FROM ingest_error WHERE reason "
                      "LIKE 'another readout%'"),
            "warning|9|5");
}

TEST_F(MergeTest, RunsAreJudgedAfterwards) {
  Warehouse other(path("other.db")), into(path("into.db"));
  fill(other, "b");
  fill(other, "c");
  fill(into, "a");
  merge(into.db, path("other.db"));
  EXPECT_EQ(into.rows("SELECT count(*) FROM run WHERE id NOT IN (SELECT run_id FROM verdict)"),
            "0");
  EXPECT_EQ(runs_kept_wrong(into.db), std::vector<int64_t>());
}

TEST_F(MergeTest, WhatChangesARunForgetsItsVerdict) {
  const auto passes = [](Warehouse& w) { return w.rows("SELECT verdict FROM run_verdict"); };
  const char* const kChanges[] = {
      "INSERT INTO plan SELECT run_id, prompt_id, 0, 5, tensor_id FROM trace_row LIMIT 1",
      "INSERT INTO ingest_error(file, line, severity, reason, about)"
      " VALUES ('f', 0, 'error', 'bad', 'level')",
      "INSERT INTO ingest_error(file, line, severity, reason, about)"
      " VALUES ('f', 0, 'error', 'bad', 'level/r')",
      "INSERT INTO run(name, experiment) VALUES ('level', 'e');"
      "INSERT INTO ingest_error(file, line, severity, reason, about)"
      " VALUES ('f', 0, 'error', 'bad', 'level')",
      "UPDATE run SET status = 'failed'"};
  int number = 0;
  for (const char* change : kChanges) {
    const std::string name = std::to_string(++number) + ".db";
    Warehouse other(path("other" + name)), into(path("into" + name));
    for (Warehouse* w : {&other, &into}) {
      w->run({.name = "level/r"});
      w->match("x_in", 0);
    }
    other.db.exec(change);
    if (number == 2) other.db.exec("UPDATE run SET name = 'other'");  // then r is of one file only
    judge(into.db, std::vector<int64_t>{1});
    EXPECT_EQ(passes(into), "PASS");
    merge(into.db, path("other" + name));
    EXPECT_EQ(into.rows("SELECT verdict FROM run_verdict WHERE run = 'level/r'"), "INCOMPLETE")
        << change;
    EXPECT_EQ(runs_kept_wrong(into.db), std::vector<int64_t>());
    EXPECT_TRUE(check_database(into.db).empty());
  }
}

TEST_F(MergeTest, ARunIsOfTheLineageThatBothFilesState) {
  Warehouse other(path("other.db")), into(path("into.db"));
  into.run({.name = "r"});
  other.run({.name = "r", .mode = "kv_aligned", .date = "2026-02-07"});
  other.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (1, 'backend', 'hip', 0)");
  merge(into.db, path("other.db"));
  EXPECT_EQ(into.rows("SELECT lineage, date FROM lineage_member"),
            "e/kv_aligned/hip/-/-/-|2026-02-07");
}

TEST_F(MergeTest, MoreThanOneBatchOfRows) {
  Warehouse other(path("other.db")), into(path("into.db"));
  other.run();
  SQLite::Transaction transaction(other.db);
  for (int layer = 0; layer < 1500; ++layer) other.match("x_in", layer);
  transaction.commit();
  EXPECT_EQ(merge(into.db, path("other.db")).rows, 3000);
  EXPECT_EQ(into.rows("SELECT pairs, pass FROM run_verdict"), "1500|1500");
}

TEST_F(MergeTest, RefusesAndChangesNothing) {
  Warehouse into(path("into.db"));
  fill(into, "a");
  std::string before = everything(into);
  EXPECT_THROW(merge(into.db, path("into.db")), DatabaseError);
  EXPECT_THROW(merge(into.db, path("missing.db")), DatabaseError);
  SQLite::Database(path("foreign.db").string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("CREATE TABLE t(x)");
  EXPECT_THROW(merge(into.db, path("foreign.db")), DatabaseError);
  Warehouse(path("newer.db")).db.exec("PRAGMA user_version = 99");
  EXPECT_THROW(merge(into.db, path("newer.db")), DatabaseError);
  Warehouse hashed(path("hashed.db"));
  hashed.run({.name = "a", .hash_algo = "fnv-256"});
  hashed.match("x_in", 0);
  EXPECT_THROW(merge(into.db, path("hashed.db")), DatabaseError);
  Warehouse fewer(path("fewer.db"));
  fill(fewer, "a");
  fewer.db.exec("UPDATE source SET rows = 7");
  EXPECT_THROW(merge(into.db, path("fewer.db")), DatabaseError);
  EXPECT_EQ(everything(into), before);
  EXPECT_FALSE(std::filesystem::exists(path("missing.db")));
  fill(hashed, "z");  // the file is still usable after a refusal
  EXPECT_EQ(into.rows("SELECT count(*) FROM pragma_database_list WHERE name = 'other'"), "0");
}

TEST_F(MergeTest, ARunThatEndedHasEndedAndOneThatFailedHasFailed) {
  for (const auto& [here, there] : {std::pair("running", "complete"), {"complete", "failed"}}) {
    const std::string name = std::string(there) + ".db";
    Warehouse into(path("into_" + name)), other(path(name));
    for (const auto& [w, status] : {std::pair(&into, here), {&other, there}}) {
      w->run({.name = "e/x", .status = status});
      w->db.exec("INSERT INTO source(run_id, sha256, shape, bytes) VALUES (1, '" +
                 std::string(status) +
                 "', 'run', 1);"
                 "INSERT INTO run_event SELECT id, replace(sha256, 'running', 'start'), 1, 1, ''"
                 " FROM source");
    }
    merge(into.db, path(name));
    EXPECT_EQ(into.rows("SELECT status FROM run"), there);
  }
}

TEST_F(MergeTest, AFileOfAnUnfinishedIngestIsRefused) {
  Warehouse into(path("into.db")), other(path("other.db"));
  other.db.exec("INSERT INTO ingest VALUES (1, '', 'h', 1, '', '', '[]')");
  EXPECT_THROW(merge(into.db, path("other.db")), DatabaseError);
}

TEST_F(MergeTest, CommitsOfBothFilesStandInOrder) {
  const auto add_commit = [](Warehouse& w, const char* sha, const char* parent, int ord) {
    w.db.exec("INSERT INTO commit_node VALUES ('" + std::string(sha) + "', " + std::to_string(ord) +
              ", '2026-01-0" + std::to_string(ord + 1) + "T00:00:00Z', 's')");
    if (*parent == '\0') return;
    w.db.exec("INSERT INTO commit_parent VALUES ('" + std::string(sha) + "', 0, '" +
              std::string(parent) + "')");
  };
  Warehouse a(path("a.db"));
  add_commit(a, "c3", "c2", 0);  // of a shallow clone
  add_commit(a, "c4", "c3", 1);
  {
    Warehouse b(path("b.db"));
    add_commit(b, "c1", "", 4);
    add_commit(b, "c2", "c1", 5);
    add_commit(b, "c3", "c2", 6);
  }
  merge(a.db, path("b.db"));
  EXPECT_EQ(a.rows("SELECT sha, ord FROM commit_node ORDER BY ord"), "c1|0\nc2|1\nc3|2\nc4|3");
  EXPECT_EQ(a.rows("SELECT sha, parent FROM commit_parent ORDER BY sha"), "c2|c1\nc3|c2\nc4|c3");
}

TEST_F(MergeTest, ACircleOfCommitsEnds) {
  Warehouse a(path("a.db"));
  {
    Warehouse b(path("b.db"));
    b.db.exec(
        "INSERT INTO commit_node VALUES ('c1', 7, 't', 's'), ('c2', 7, 't', 's'), ('c0', 7, 't', "
        "'s');"
        "INSERT INTO commit_parent VALUES ('c1', 0, 'c2'), ('c2', 0, 'c1')");
  }
  merge(a.db, path("b.db"));
  EXPECT_EQ(a.rows("SELECT sha, ord FROM commit_node ORDER BY ord"), "c0|0\nc1|1\nc2|2");
}

TEST_F(MergeTest, APinOrAWaiverOfTheOtherFileDoesNotComeAlong) {
  const auto pin = [](Warehouse& w, const std::string& run) {
    w.run({.name = run, .status = "complete"});
    w.match("x_in", 0);
    w.db.exec(
        "INSERT INTO pinned_baseline SELECT lineage, run_id, '2999-01-01T00:00:00Z'"
        " FROM lineage_member WHERE run_id = " +
        std::to_string(w.current_run()));
  };
  {
    Warehouse b(path("b.db"));
    pin(b, "two");
    b.db.exec(
        "INSERT INTO waiver(tensor, until, reason, created_at, created_by)"
        " VALUES ('attn_out', '2999-01-01', 'r', '', '')");
  }
  for (const bool pinned : {false, true}) {
    Warehouse a(path(pinned ? "a.db" : "a2.db"));
    if (pinned) pin(a, "one");
    const MergeSummary summary = merge(a.db, path("b.db"));
    EXPECT_EQ(summary.pins_left, 1);
    EXPECT_EQ(summary.waivers_left, 1);
    EXPECT_EQ(a.rows("SELECT r.name FROM pinned_baseline p JOIN run r ON r.id = p.run_id"),
              pinned ? "one" : "");
    EXPECT_EQ(a.rows("SELECT count(*) FROM waiver"), "0");
  }
}

TEST_F(MergeTest, OfTwoNoiseFloorsTheSmallerStandsSoThatNoMergeExcusesMore) {
  const auto floor_of = [](Warehouse& w, double rel_l2, const std::string& at, int layer = 0) {
    SQLite::Statement insert(w.db,
                             "INSERT INTO noise_floor(tensor_id, layer, model_sha256, dtype, "
                             "backend, rel_l2, pairs, measured_at)"
                             " VALUES (70, ?, 'm', 'f32', 'cpu', ?, 500, ?)");
    insert.bind(1, layer);
    insert.bind(2, rel_l2);
    insert.bind(3, at);
    insert.exec();
  };
  const std::string kFloors = "SELECT layer, rel_l2 FROM noise_floor ORDER BY layer";
  for (const bool first_is_later : {false, true}) {
    const std::string suffix = first_is_later ? "2.db" : ".db";
    Warehouse a(path("a" + suffix));
    floor_of(a, 0.25, first_is_later ? "2026-02-02T00:00:00Z" : "2026-02-01T00:00:00Z");
    {
      Warehouse b(path("b" + suffix));
      floor_of(b, 0.5, first_is_later ? "2026-02-01T00:00:00Z" : "2026-02-02T00:00:00Z");
      floor_of(b, 0.125, "2026-02-01T00:00:00Z", 1);
    }
    merge(a.db, path("b" + suffix));
    EXPECT_EQ(a.rows(kFloors), "0|0.25\n1|0.125");
  }
}

}  // namespace
}  // namespace greta
