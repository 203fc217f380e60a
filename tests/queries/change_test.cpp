// What changed against the run before it.
#include "common/temporary_folder.h"
#include "db/check.h"
#include "db/database.h"
#include "tests/queries/change_fixture.h"

namespace greta {
namespace {

constexpr const char* kBaselines = "SELECT run, baseline FROM lineage ORDER BY run_id";
constexpr const char* kChanges =
    "SELECT run, baseline, change, layer, tensor FROM change ORDER BY run_id";

TEST_F(Change, IsToldOfTheRunBefore) {
  add_run("01", {});
  add_run("02", {});
  add_run("03", {.x_out = 1.0001f});
  add_run("04", {.x_out = 3});
  add_run("05", {.x_out = 3, .decoded_attn_out = 5});
  add_run("06", {.x_out = 3});
  const std::string changes =
      "2026-01-02/e/as_designed|2026-01-01/e/as_designed|SAME|-|-\n"
      "2026-01-03/e/as_designed|2026-01-02/e/as_designed|ROUNDING|1|x_out\n"
      "2026-01-04/e/as_designed|2026-01-03/e/as_designed|CHANGED|1|x_out\n"
      "2026-01-05/e/as_designed|2026-01-04/e/as_designed|BROKEN|0|attn_out\n"
      "2026-01-06/e/as_designed|2026-01-05/e/as_designed|FIXED|0|attn_out";
  EXPECT_EQ(ask(kChanges), changes);
  judge_all();
  EXPECT_EQ(kept("SELECT count(*) FROM run_change"), "5");
  EXPECT_EQ(ask(kChanges), changes);
}

TEST_F(Change, HasNoAnswerUntilSomebodyJudges) {
  add_run("01", {});
  add_run("02", {.x_out = 3});
  const char* const all = "SELECT run_id, change, verdict, baseline_verdict FROM change";
  EXPECT_EQ(kept(all), "2|-|UNJUDGED|UNJUDGED");
  EXPECT_EQ(ask(all), "2|CHANGED|PASS|PASS");
}

TEST_F(Change, GoesWhenARowOfEitherRunChanges) {
  add_run("01", {});
  add_run("02", {});
  for (const char* run : {"1", "2"}) {
    judge_all();
    ASSERT_EQ(kept("SELECT count(*) FROM run_change"), "1");
    const std::string of_run = " WHERE layer = 1 AND run_id = " + std::string(run);
    w_.db.exec("UPDATE trace_row SET hash = hash + 1" + of_run);
    EXPECT_EQ(kept("SELECT count(*) FROM run_change"), "0") << run;
    EXPECT_EQ(ask("SELECT change FROM change"), "ROUNDING") << run;  // equal sketches, other bits
    w_.db.exec("UPDATE trace_row SET hash = hash - 1" + of_run);
    EXPECT_EQ(ask("SELECT change FROM change"), "SAME") << run;
  }
}

TEST_F(Change, InjectedRunsHaveNoBaselineAndAreNone) {
  add_run("01", {});
  attribute(add_run("02", {.x_out = 9}), "inject", "rope_theta@decode");
  add_run("03", {});
  EXPECT_EQ(ask(kChanges), "2026-01-03/e/as_designed|2026-01-01/e/as_designed|SAME|-|-");
  EXPECT_EQ(ask("SELECT run, injected FROM history"),
            "2026-01-01/e/as_designed|0\n2026-01-02/e/as_designed|1\n2026-01-03/e/as_designed|0");
}

TEST_F(Change, OfAnotherLineageIsNone) {
  add_run("01", {});
  attribute(add_run("02", {}), "model", "other");
  attribute(add_run("03", {}), "backend", "hip");
  attribute(add_run("04", {}), "suite", "b3_66");
  add_run("05", {}, "", "kv_aligned");
  EXPECT_EQ(ask("SELECT count(*), count(baseline) FROM lineage"), "5|0");
  EXPECT_EQ(ask("SELECT lineage FROM lineage WHERE run_id = 4"), "e/as_designed/-/f32/-/b3_66");
}

TEST_F(Change, ADirectoryLevelIsInNoLineage) {
  w_.run({.name = "2026-01-01/e", .dtype = "f32"});
  add_run("01", {});
  EXPECT_EQ(ask("SELECT run FROM lineage"), "2026-01-01/e/as_designed");
}

TEST_F(Change, IsOfTheSameSeedAndKindOfModel) {
  add_commits();
  const auto add = [this](const char* day, const char* commit, const std::string& fact = "") {
    const int64_t id = add_run(day, {}, commit);
    if (!fact.empty()) w_.db.exec("UPDATE run SET " + fact + " WHERE id = " + std::to_string(id));
  };
  for (const bool by_commits : {false, true}) {
    add(by_commits ? "11" : "01", by_commits ? "c000000" : "");
    add(by_commits ? "12" : "02", by_commits ? "c100000" : "", "seed = 7");
    add(by_commits ? "13" : "03", by_commits ? "c100000" : "", "synthetic = 1");
    add(by_commits ? "14" : "04", by_commits ? "c200000" : "");
  }
  EXPECT_EQ(ask("SELECT substr(run, 9, 2), substr(baseline, 9, 2) FROM lineage ORDER BY run"),
            "01|-\n02|-\n03|-\n04|01\n11|-\n12|-\n13|-\n14|11");
}

TEST_F(Change, RunsOfADayStandInTheOrderOfTheirStarts) {
  const auto add = [this](const char* name, const char* started, float x_out) {
    const int64_t id = add_run("01", {.x_out = x_out}, "", name);
    w_.db.exec("UPDATE run SET mode = 'm', date = NULL, started_at = " + std::string(started) +
               " WHERE id = " + std::to_string(id));
  };
  add("late", "'2026-01-01T10:00:00.5Z'", 1);
  add("early", "'2026-01-01T10:00:00Z'", 1);
  add("unsaid", "NULL", 1);  // nor a day: before all others
  w_.db.exec("UPDATE run SET date = '2026-01-01' WHERE name LIKE '%unsaid'");  // behind its day
  EXPECT_EQ(ask("SELECT substr(run, 14), substr(baseline, 14) FROM lineage ORDER BY run"),
            "early|-\nlate|early\nunsaid|late");
}

TEST_F(Change, AnotherTypeOfTheCacheIsAnotherLineage) {
  add_run("01", {});
  attribute(add_run("02", {}), "kv_cache", "f16");
  attribute(add_run("03", {}), "kv_cache", "f32");  // what saying nothing means
  attribute(add_run("04", {}), "kv_cache", "f16");
  EXPECT_EQ(ask("SELECT run, lineage, baseline FROM lineage"),
            "2026-01-01/e/as_designed|e/as_designed/-/f32/-/-|-\n"
            "2026-01-02/e/as_designed|e/as_designed/-/f32/-/-/kv_cache=f16|-\n"
            "2026-01-03/e/as_designed|e/as_designed/-/f32/-/-|2026-01-01/e/as_designed\n"
            "2026-01-04/e/as_designed|e/as_designed/-/f32/-/-/kv_cache=f16|"
            "2026-01-02/e/as_designed");
  w_.db.exec("UPDATE attribute SET value = 'f32' WHERE dim = 'kv_cache' AND run_id = 2");
  w_.db.exec("DELETE FROM attribute WHERE dim = 'kv_cache' AND run_id = 4");
  EXPECT_EQ(ask("SELECT DISTINCT lineage FROM lineage"), "e/as_designed/-/f32/-/-");
}

TEST_F(Change, AnUnfinishedRunIsNoBaseline) {
  add_run("01", {});
  w_.db.exec("UPDATE run SET status = 'failed' WHERE id = " + std::to_string(add_run("02", {})));
  w_.db.exec("UPDATE run SET status = 'running' WHERE id = " + std::to_string(add_run("03", {})));
  add_run("04", {});
  EXPECT_EQ(ask("SELECT baseline FROM lineage WHERE run LIKE '2026-01-04%'"),
            "2026-01-01/e/as_designed");
}

TEST_F(Change, TimeDecidesNotTheOrderOfArrival) {
  add_run("03", {});
  add_run("01", {});
  add_run("02", {});
  EXPECT_EQ(ask(kBaselines),
            "2026-01-03/e/as_designed|2026-01-02/e/as_designed\n"
            "2026-01-01/e/as_designed|-\n"
            "2026-01-02/e/as_designed|2026-01-01/e/as_designed");
}

TEST_F(Change, CommitsDecideWhereTheyAreKnown) {
  add_commits();
  add_run("05", {}, "c000000");
  add_run("04", {}, "c200000");  // its commit is later, though it ran before
  add_run("06", {}, "b200000");  // a branch: held against what it began with
  add_run("07", {}, "c300000");
  add_run("08", {}, "c300000");  // again: held against what the first was
  EXPECT_EQ(ask(kBaselines),
            "2026-01-05/e/as_designed|-\n"
            "2026-01-04/e/as_designed|2026-01-05/e/as_designed\n"
            "2026-01-06/e/as_designed|2026-01-05/e/as_designed\n"
            "2026-01-07/e/as_designed|2026-01-04/e/as_designed\n"
            "2026-01-08/e/as_designed|2026-01-04/e/as_designed");
}

TEST_F(Change, OfSeveralRunsOfACommitTheLastIsTheBaseline) {
  add_commits();
  add_run("02", {}, "c000000");
  add_run("01", {}, "c000000");
  add_run("03", {}, "c100000");
  EXPECT_EQ(ask("SELECT substr(baseline, 9, 2) FROM lineage WHERE run_id = 3"), "02");
}

TEST_F(Change, AnotherTryOfACommitIsNotHeldAgainstTheFirst) {
  add_run("01", {}, "aaaaaaaa");
  add_run("02", {.x_out = 3}, "bbbbbbbb");
  add_run("03", {.x_out = 3}, "bbbbbbbb");
  add_run("04", {.x_out = 3}, "bbbbbbbbb");  // as far as both say
  add_run("05", {.x_out = 3}, "");           // of nobody knows which
  add_run("06", {.x_out = 3}, "bbb");
  add_run("07", {.x_out = 3}, "bbb");
  EXPECT_EQ(ask("SELECT substr(run, 9, 2), substr(baseline, 9, 2), change FROM change"
                " ORDER BY run_id"),
            "02|01|CHANGED\n03|01|CHANGED\n04|01|CHANGED\n05|04|SAME\n06|05|SAME\n07|05|SAME");
  EXPECT_EQ(ask("SELECT first_bad, last_good FROM regression"),  // told once
            "2026-01-02/e/as_designed|2026-01-01/e/as_designed\n"
            "2026-01-04/e/as_designed|2026-01-01/e/as_designed");
  judge_all();
  EXPECT_EQ(kept("SELECT count(*) FROM run_change"), "6");
  add_run("08", {}, "cccccccc1");
  add_run("09", {}, "cccccccc");  // that is less to say than before
  EXPECT_EQ(ask("SELECT substr(baseline, 9, 2) FROM lineage WHERE run_id > 7"), "07\n07");
}

TEST_F(Change, AMergeIsNotHeldAgainstWhatItMergedWhereItsOwnLineHasARun) {
  add_commits();
  w_.db.exec(
      "INSERT INTO commit_node VALUES ('d000000', 6, '2026-01-01T00:00:00Z', 's');"
      "INSERT INTO commit_parent VALUES ('d000000', 0, 'c100000'), ('d000000', 1, 'b200000')");
  add_run("02", {.x_out = 3}, "b200000");  // nearer, and what it brings
  add_run("03", {.x_out = 3}, "d000000");
  EXPECT_EQ(ask(kBaselines),
            "2026-01-02/e/as_designed|-\n2026-01-03/e/as_designed|2026-01-02/e/as_designed");
  add_run("01", {}, "c000000");
  EXPECT_EQ(ask("SELECT substr(run, 9, 2), substr(baseline, 9, 2), change FROM change"
                " ORDER BY run_id"),
            "02|01|CHANGED\n03|01|CHANGED");
}

TEST_F(Change, OfWhatWasMergedTheNearestIsTheBaseline) {
  add_commits();
  w_.db.exec(
      "INSERT INTO commit_node VALUES ('d000000', 6, '2026-01-01T00:00:00Z', 's'),"
      " ('e000000', 7, '2026-01-01T00:00:00Z', 's');"
      "INSERT INTO commit_parent VALUES ('d000000', 0, 'b200000'), ('d000000', 1, 'c300000'),"
      " ('e000000', 0, 'b100000'), ('e000000', 1, 'd000000')");
  add_run("02", {}, "b200000");
  add_run("01", {}, "c300000");
  add_run("03", {}, "e000000");
  EXPECT_EQ(ask("SELECT substr(baseline, 9, 2) FROM lineage WHERE run_id = 3"), "01");
}

TEST_F(Change, WhatCannotBeComparedDoesNotHideTheRunBeforeIt) {
  const int64_t a = add_run("01", {}), b = add_run("02", {}), c = add_run("03", {.x_out = 3});
  attribute(b, "model_sha256", "bb");
  attribute(c, "model_sha256", "aa");
  const char* const changes =
      "SELECT substr(baseline, 9, 2), change FROM change ORDER BY run_id DESC LIMIT 1";
  EXPECT_EQ(ask(changes), "01|CHANGED");
  judge_all();
  EXPECT_EQ(ask(changes), "01|CHANGED");
  attribute(a, "model_sha256", "bb");  // nothing is left that it can be compared with
  EXPECT_EQ(ask(changes), "02|INCOMPARABLE");
  add_commits();
  w_.db.exec("UPDATE run SET commit_sha = 'c' || (id - 1) || '00000'");
  EXPECT_EQ(ask(changes), "02|INCOMPARABLE");
  w_.db.exec("DELETE FROM attribute WHERE run_id = 1");
  EXPECT_EQ(ask(changes), "01|CHANGED");
}

TEST_F(Change, RowsThatWereLackingAndAreThereAreAFixAndNoChange) {
  add_run("01", {});
  w_.db.exec("DELETE FROM trace_row WHERE layer = 1");
  add_run("02", {});
  add_run("03", {.x_out = 3});
  EXPECT_EQ(ask("SELECT change, baseline_numeric_verdict, numeric_verdict FROM change"
                " ORDER BY run_id"),
            "FIXED|INCOMPLETE|PASS\nCHANGED|PASS|PASS");
  w_.db.exec("UPDATE trace_row SET hash = 17 WHERE run_id = 1");  // and what was there did change
  w_.db.exec("UPDATE trace_row SET sketch_id = NULL WHERE run_id = 1");
  EXPECT_EQ(ask("SELECT change FROM change WHERE run_id = 2"), "CHANGED");
}

TEST_F(Change, APinnedBaselineStands) {
  add_run("01", {});
  add_run("02", {.x_out = 3});
  add_run("03", {.x_out = 3});
  w_.db.exec(
      "INSERT INTO pinned_baseline SELECT lineage, 1, '' FROM lineage_member WHERE run_id = 1");
  EXPECT_EQ(ask("SELECT change FROM change ORDER BY run_id"), "CHANGED\nCHANGED");
  EXPECT_EQ(ask("SELECT pinned FROM lineage ORDER BY run_id"), "0\n1\n1");
}

TEST_F(Change, WhatCannotBeComparedIsSaidAndNotCompared) {
  const int64_t a = add_run("01", {}), b = add_run("02", {.x_out = 3});
  const auto verdict = [&] {
    return ask(
        "SELECT verdict, numeric_verdict, comparable, why_not, divergent FROM diff_verdict"
        " WHERE run_a_id = 1 AND run_b_id = 2");
  };
  EXPECT_EQ(verdict(), "FAIL|FAIL|1|-|2");
  w_.db.exec("UPDATE prompt SET token_ids = '[1]' WHERE run_id = " + std::to_string(a));
  w_.db.exec("UPDATE prompt SET token_ids = '[2]' WHERE run_id = " + std::to_string(b));
  EXPECT_EQ(verdict(), "INCOMPARABLE|INCOMPARABLE|0|other tokens in prompt p0|0");
  attribute(a, "trace.layers", "0,1");
  attribute(b, "trace.layers", "all");
  EXPECT_EQ(ask("SELECT why_not FROM change"), "traced otherwise: trace.layers 0,1, not all");
  attribute(a, "model_sha256", "aa");
  attribute(b, "model_sha256", "bb");
  EXPECT_EQ(ask("SELECT change, why_not FROM change"), "INCOMPARABLE|another model");
}

TEST_F(Change, AModelIsToldByItsRootWhereBothRunsSayItElseByItsFile) {
  const int64_t a = add_run("01", {}), b = add_run("02", {.x_out = 3});
  const char* const changes = "SELECT change, why_not FROM change";
  attribute(a, "model_sha256", "aa");
  attribute(b, "model_root", "rb");
  EXPECT_EQ(ask(changes), "CHANGED|-") << "nothing that both say";
  attribute(b, "model_sha256", "bb");
  EXPECT_EQ(ask(changes), "INCOMPARABLE|another model") << "an earlier run, and one that says both";
  attribute(a, "model_root", "rb");
  EXPECT_EQ(ask(changes), "CHANGED|-") << "another file of the same model";
  judge_all();
  EXPECT_EQ(ask(changes), "CHANGED|-");
  w_.db.exec("UPDATE attribute SET value = 'ra' WHERE dim = 'model_root' AND run_id = " +
             std::to_string(a));
  EXPECT_EQ(ask(changes), "INCOMPARABLE|another model");
  w_.db.exec("DELETE FROM attribute WHERE dim = 'model_sha256'");
  EXPECT_EQ(ask(changes), "INCOMPARABLE|another model");
}

TEST_F(Change, PromptsAreTheSameByAllThatBothSay) {
  add_run("01", {});
  add_run("02", {.x_out = 3});
  for (const std::string said : {"token_ids = '[1]'", "text_sha256 = 'aa'", "n_tokens = 3"}) {
    const std::string column = said.substr(0, said.find(' '));
    w_.db.exec("UPDATE prompt SET " + said + " WHERE run_id = 1");
    EXPECT_EQ(ask("SELECT change FROM change"), "CHANGED") << said;
    w_.db.exec("UPDATE prompt SET " + column + " = 9 WHERE run_id = 2");
    EXPECT_EQ(ask("SELECT why_not FROM change"), "other tokens in prompt p0") << said;
    w_.db.exec("UPDATE prompt SET " + column + " = NULL");
  }
}

TEST_F(Change, TheFirstIsWhatIsGoneThenTheEarliestInForwardOrder) {
  const auto first = [this](const char* where) {
    return ask(std::string("SELECT ") + where +
               " FROM diff_verdict WHERE run_a_id = 1 AND run_b_id = 2");
  };
  for (const float value : {1.0f, 2.0f}) {
    w_.run({.name = "r" + std::to_string(value), .dtype = "f32", .status = "complete"});
    const auto valued = [&](Row row) {
      row.hash = static_cast<uint64_t>(value) + 10;
      return row.sketched({value, 2, 3, 4}).token(7);
    };
    w_.use_prompt("q");
    w_.add(valued(prefill("mlp_out", 0)), valued(prefill("attn_out", 0).at(9)));
    w_.use_prompt("p");
    w_.add(valued(prefill("attn_out", 0).at(11)));
  }
  EXPECT_EQ(first("tensor, pos_id, prompt, numeric_tensor, numeric_pos_id"),
            "attn_out|9|q|attn_out|9");
  w_.db.exec(
      "DELETE FROM trace_row WHERE run_id = 2 AND tensor_id = (SELECT id FROM tensor WHERE name = "
      "'mlp_out')");
  EXPECT_EQ(first("tensor, numeric_tensor, only_a, only_b"), "attn_out|attn_out|1|0");
  w_.db.exec("DELETE FROM trace_row WHERE run_id = 2 AND pos_id = 9");
  w_.db.exec("UPDATE trace_row SET hash = 11 WHERE pos_id = 11");
  w_.db.exec("UPDATE trace_row SET sketch_id = NULL");
  EXPECT_EQ(first("tensor, pos_id, verdict, match, only_a"), "attn_out|9|FAIL|1|2");
}

TEST_F(Change, ANaNIsNeverTheSame) {
  for (const char* day : {"01", "02"}) {
    add_run(day, {});
    w_.db.exec("UPDATE trace_row SET nan = 1 WHERE layer = 1");
  }
  EXPECT_EQ(ask("SELECT numeric_verdict, nonfinite, match FROM diff_verdict"
                " WHERE run_a_id = 1 AND run_b_id = 2"),
            "FAIL|2|2");
  EXPECT_EQ(ask("SELECT change FROM change"), "CHANGED");
}

TEST_F(Change, WhatIsKeptWronglyIsFound) {
  add_run("01", {});
  add_run("02", {});
  add_run("03", {.x_out = 3});
  judge_all();
  const TemporaryFolder folder;
  int copies = 0;
  const auto wrong = [&] {
    const std::string copy = folder / ("copy" + std::to_string(copies++));
    w_.db.exec("VACUUM INTO '" + copy + "'");
    SQLite::Database reader = open_unchanged(copy);
    return runs_kept_wrong(reader);
  };
  EXPECT_EQ(wrong(), std::vector<int64_t>());
  w_.db.exec(
      "UPDATE run_change SET verdict = 'PASS', strict_verdict = 'PASS', numeric_verdict = 'PASS'"
      " WHERE run_id = 3");
  EXPECT_EQ(kept("SELECT change FROM change WHERE run_id = 3"), "SAME");
  ASSERT_EQ(wrong(), std::vector<int64_t>{3});
  repair_database(w_.db, {3});
  EXPECT_EQ(ask("SELECT change FROM change WHERE run_id = 3"), "CHANGED");
}

TEST_F(Change, IsKeptOfEveryRunWhenOtherRunsAreTheBaselines) {
  add_run("01", {}, "c200000");
  add_run("02", {}, "c000000");
  judge_all();
  EXPECT_EQ(kept("SELECT baseline_id, run_id FROM run_change"), "1|2");
  add_commits();
  EXPECT_EQ(ask("SELECT baseline_id, run_id FROM change"), "2|1");
}

TEST_F(Change, EqualHashesOverOtherSamplesAreNotTheSame) {
  for (const float value : {1.0f, 2.0f}) {
    w_.run({.name = "r" + std::to_string(value), .dtype = "f32", .status = "complete"});
    w_.add(prefill("x_out", 0, 1).sampled({value, 2, 3, 4}),
           decode("x_out", 0, 1).sampled({value, 2, 3, 4}));
  }
  EXPECT_NE(ask("SELECT verdict FROM diff_verdict WHERE run_a_id = 1 AND run_b_id = 2"), "PASS");
}

TEST_F(Change, WhatFollowsFromAnotherTokenIsNotItsOrigin) {
  for (const char* day : {"01", "02"}) {
    const bool second = std::string(day) == "02";
    const int64_t id = add_run(day, {});
    (void)id;
    // the logits differ and choose another token; what the layers make of that one comes later
    w_.add(
        decode("logits", -1, second ? 5 : 4).at(37).sketched({second ? 9.f : 1.f, 0, 0, 0}),
        decode("embed_out", 0, second ? 7 : 6).at(38).token(second ? 2 : 1),
        decode("x_out", 0, second ? 9 : 8).at(39).token(3).sketched({second ? 5.f : 1.f, 0, 0, 0}));
  }
  EXPECT_EQ(ask("SELECT numeric_tensor, numeric_pos_id, incomparable, caused_by FROM diff_verdict"
                " WHERE run_a_id = 1 AND run_b_id = 2"),
            "logits|37|1|-");
  w_.db.exec("DELETE FROM trace_row WHERE layer = -1");  // what chose it was not traced
  EXPECT_EQ(ask("SELECT numeric_tensor, numeric_pos_id, caused_by FROM diff_verdict"
                " WHERE run_a_id = 1 AND run_b_id = 2"),
            "x_out|39|another token at position 38");
}

TEST_F(Change, RowsThatContradictEachOtherFailAsTheyDoInOneRun) {
  for (const int run : {1, 2}) {
    w_.run({.name = "r" + std::to_string(run), .dtype = "f32", .status = "complete"});
    w_.add(prefill("x_out", 0, 1));
    if (run == 2) w_.add(prefill("x_out", 0, 5));  // of the same place
  }
  EXPECT_EQ(ask("SELECT verdict, numeric_verdict, unknown, numeric_tensor FROM diff_verdict"
                " WHERE run_a_id = 1 AND run_b_id = 2"),
            "FAIL|FAIL|1|x_out");
}

TEST_F(Change, HasAnOriginAsPairsHave) {
  // layers 0 and 2 traced; rounding in layer 0 of both, and beyond it in layer 2
  for (const float value : {1.0f, 2.0f}) {
    w_.run({.name = "r" + std::to_string(value), .dtype = "f32", .status = "complete"});
    const auto valued = [&](const char* tensor, int64_t layer, float first) {
      Row row = prefill(tensor, layer);
      row.hash = static_cast<uint64_t>(value * 1e6f) + static_cast<uint64_t>(first);
      return row.sketched({first, 2, 3, 4}).token(7);
    };
    const float close = value == 1.0f ? 1.0f : 1.0001f;
    w_.add(valued("attn_out", 0, close), valued("x_out", 0, close), valued("attn_out", 2, value),
           valued("x_out", 2, value));
  }
  const std::string kRuns = " WHERE run_a_id = 1 AND run_b_id = 2";
  EXPECT_EQ(
      ask("SELECT layer, tensor, numeric_layer, numeric_tensor, origin FROM diff_verdict" + kRuns),
      "0|attn_out|2|attn_out|UNSAMPLED");
  EXPECT_EQ(ask("SELECT layer, tensor, class, origin, numeric_origin, caused_by, untraced_layers"
                " FROM run_diff" +
                kRuns + " ORDER BY forward_layer, tensor"),
            "0|attn_out|ROUNDING|UNSAMPLED|UNSAMPLED|-|-\n"
            "0|x_out|ROUNDING|PROPAGATED|PROPAGATED|attn_out@0|-\n"
            "2|attn_out|DIVERGENT|PROPAGATED|UNSAMPLED|x_out@0|1\n"
            "2|x_out|DIVERGENT|PROPAGATED|PROPAGATED|attn_out@2|1");
}

/// The canned query for two runs by the digits that their names end in.
std::string by_tensor(char a, char b) {
  std::string sql = sql_of_file("queries/canned/diff_by_tensor.sql");
  sql.erase(0, sql.find("SELECT"));
  sql.erase(sql.rfind(';'));
  for (const auto& [parameter, digit] : {std::pair{std::string(":run_a"), a}, {":run_b", b}}) {
    const std::string name = std::string("'2026-01-0") + digit + "/e/as_designed'";
    for (size_t at; (at = sql.find(parameter)) != std::string::npos;)
      sql.replace(at, parameter.size(), name);
  }
  return sql;
}

TEST_F(Change, CountsByTensorAddUpToTheWhole) {
  add_run("01", {});
  add_run("02", {.x_out = 3});
  add_run("03", {.x_out = 3});
  w_.add(prefill("mlp_out", 0));
  for (const char* runs : {"1|2", "2|1", "1|3", "3|1"}) {
    const std::string of_both =
        std::string(" WHERE run_a_id = ") + runs[0] + " AND run_b_id = " + runs[2];
    EXPECT_EQ(
        ask("SELECT sum(match), sum(rounding), sum(divergent), sum(unknown), sum(nonfinite),"
            " sum(incomparable), sum(only_a), sum(only_b) FROM (" +
            by_tensor(runs[0], runs[2]) + ")"),
        ask("SELECT match, rounding, divergent, unknown, nonfinite, incomparable, only_a, only_b"
            " FROM diff_verdict" +
            of_both))
        << runs;
  }
  EXPECT_EQ(ask("SELECT * FROM (" + by_tensor('1', '1') + ")"), "")
      << "a run and itself are not two";
}

}  // namespace
}  // namespace greta
