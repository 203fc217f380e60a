// What the importer makes of the lines that the engine writes, and of its events.
#include <gtest/gtest.h>

#include "tests/ingest/ingest_fixture.h"

namespace greta {
namespace {

struct EngineLines : testing::Test {
  /// Ingests one file of the run; its lines are separated by newlines.
  void take(const std::string& name, const std::string& lines) {
    folder.write("2026-02-07/b3_66/" + name, lines);
    summary = ingest_all(db, {folder / "2026-02-07"});
  }
  static std::string row(const std::string& phase, const std::string& more) {
    return R"({"event":"stage_trace","prompt_id":"p0","phase":")" + phase +
           R"(","point":"attn_out","layer":0,"step":0,"pos_id":5,)" + more + "}\n";
  }
  static std::string sketch(const std::string& first) {
    std::string text = R"("sum_sq":4,"sketch":[)" + first;
    for (size_t i = 1; i < 32; ++i) text += ",0";
    return text + "]";
  }
  std::string ask(const std::string& sql) { return queries.text_of(sql); }

  TemporaryFolder folder;
  SQLite::Database db = open_for_writing(folder / "g.db");
  KeptQueries queries{db};
  IngestSummary summary;
};

TEST_F(EngineLines, WholeRowHashesHaveFullScope) {
  const std::string same = R"("hash_algo":"greta-1","n":4096,"hash":18446744073709551615)";
  take("traces/p0_trace.jsonl", row("prefill_last", same) + row("decode0", same));
  EXPECT_EQ(ask("SELECT status, scope, compared_n FROM pair"), "MATCH|full|4096");
  EXPECT_EQ(ask("SELECT hash_algo FROM run"), "greta-1");
}

TEST_F(EngineLines, OwnSketchIsStoredAndMeasures) {
  const auto line = [](const char* phase, const char* hash, const char* first) {
    return row(phase,
               std::string(R"("hash_algo":"greta-1","n":4,"hash":)") + hash + "," + sketch(first));
  };
  take("traces/p0_trace.jsonl", line("prefill_last", "1", "2") + line("decode0", "2", "1"));
  EXPECT_EQ(ask("SELECT status, class, rel_l2 > 0.3 FROM pair"), "DRIFT|DIVERGENT|1");
  EXPECT_EQ(ask("SELECT DISTINCT n, derived, sum_sq FROM sketch"), "4|0|4.0");
  EXPECT_TRUE(summary.findings.empty());
}

TEST_F(EngineLines, ExtraHoldsItsMembersOnce) {
  take("traces/p0_trace.jsonl",
       row("prefill_last",
           R"("hash_algo":"greta-1","n":4,"hash":1,"extra":{"rms_eps":1e-05},"other":2)"));
  EXPECT_EQ(ask("SELECT extra FROM trace"), R"({"rms_eps":1e-05,"other":2})");
}

TEST_F(EngineLines, HashesOfTwoAlgorithmsNeverMeet) {
  take("traces/a_trace.jsonl", row("prefill_last", R"("sample_n":4,"hash":1)") +
                                   row("decode0", R"("hash_algo":"greta-1","n":4,"hash":1)"));
  EXPECT_EQ(ask("SELECT status FROM pair"), "INCOMPARABLE");
  EXPECT_EQ(ask("SELECT group_concat(hash) FROM trace"), "1,1");
}

TEST_F(EngineLines, WhichAlgorithmCameFirstDoesNotMatter) {
  const auto at = [](const char* phase, int layer, const std::string& more) {
    return R"({"event":"stage_trace","prompt_id":"p0","phase":")" + std::string(phase) +
           R"(","point":"attn_out","layer":)" + std::to_string(layer) + R"(,"step":0,"pos_id":5,)" +
           more + "}\n";
  };
  const std::string whole = R"("hash_algo":"greta-1","n":4,"hash":)",
                    legacy = R"("sample_n":4,"hash":)";
  const std::string greta = at("prefill_last", 0, whole + "77") + at("decode0", 0, whole + "78"),
                    old = at("prefill_last", 1, legacy + "7") + at("decode0", 1, legacy + "7");
  for (const auto& [first, second] : {std::pair(greta, old), std::pair(old, greta)}) {
    for (const char* table : {"trace_row", "source_location", "source"}) {
      db.exec(std::string("DELETE FROM ") + table);
    }
    db.exec("UPDATE run SET hash_algo = 'fnv-256'");
    take("traces/a_trace.jsonl", first);
    take("traces/b_trace.jsonl", second);
    take("traces/c_trace.jsonl", first + second);  // in one file
    EXPECT_EQ(summary.findings.size(), 0u);
    EXPECT_EQ(
        ask("SELECT layer, status, prefill_hash, decode_hash, scope FROM pair ORDER BY layer"),
        "0|DRIFT|77|78|full\n1|MATCH|7|7|prefix");
  }
}

TEST_F(EngineLines, UnknownHashIsNoHash) {
  take("traces/p0_trace.jsonl", row("prefill_last", R"("hash_algo":"md5","n":4,"hash":1)") +
                                    row("decode0", R"("hash_algo":"md5","n":4,"hash":1)"));
  EXPECT_EQ(summary.warnings, 2);
  EXPECT_EQ(ask("SELECT verdict FROM run_verdict"), "INCOMPARABLE");
}

TEST_F(EngineLines, RunThatStartedAndDidNotEndIsIncomplete) {
  const std::string same = R"("hash_algo":"greta-1","n":4,"hash":1)";
  const std::string start = R"({"event":"run_start","attributes":{"dtype":"f32","seed":"-3"}})"
                            "\n";
  take("traces/p0_trace.jsonl", row("prefill_last", same) + row("decode0", same));
  EXPECT_EQ(ask("SELECT verdict, status FROM run_verdict"), "PASS|unknown");
  take("run.jsonl", start);
  EXPECT_EQ(ask("SELECT verdict, status FROM run_verdict"), "INCOMPLETE|running");
  EXPECT_EQ(ask("SELECT dtype, seed FROM run"), "f32|-3");
  const std::string end = R"({"event":"run_end","status":"complete","rows":2})"
                          "\n";
  take("run.jsonl", start + end);
  EXPECT_EQ(ask("SELECT verdict, status FROM run_verdict"), "PASS|complete");
  take("run.jsonl", start);  // an older copy changes nothing
  EXPECT_EQ(ask("SELECT verdict, status FROM run_verdict"), "PASS|complete");
}

TEST_F(EngineLines, ARunThatFailedOnceHasFailedInAnyOrder) {
  const std::string same = R"("hash_algo":"greta-1","n":4,"hash":1)";
  const std::string complete = R"({"event":"run_end","status":"complete"})"
                               "\n";
  const std::string failed = R"({"event":"run_end","status":"failed"})"
                             "\n";
  take("traces/p0_trace.jsonl", row("prefill_last", same) + row("decode0", same));
  for (const std::string& lines : {complete + failed, failed + complete}) {
    take("run.jsonl", lines);
    EXPECT_EQ(ask("SELECT verdict, status FROM run_verdict"), "INCOMPLETE|failed");
  }
}

TEST_F(EngineLines, ALaterStartWithoutAnEndIsIncomplete) {
  const std::string same = R"("hash_algo":"greta-1","n":4,"hash":1)";
  const std::string end = R"({"event":"run_end","status":"complete"})"
                          "\n";
  const auto start = [](const std::string& when) {
    return R"({"event":"run_start","started_at":"2026-02-07T00:00:0)" + when + "Z\"}\n";
  };
  take("traces/p0_trace.jsonl", row("prefill_last", same) + row("decode0", same));
  take("run.jsonl", start("1") + end);
  EXPECT_EQ(ask("SELECT verdict FROM run_verdict"), "PASS");
  take("again.jsonl", start("2"));
  EXPECT_EQ(ask("SELECT verdict, status FROM run_verdict"), "INCOMPLETE|running");
}

/// A run_start, a row of one phase, and the end.
std::string started_part(const std::string& start, const std::string& phase) {
  return R"({"event":"run_start","attributes":{)" + start + "\n" +
         R"({"event":"stage_trace","prompt_id":"p0","phase":")" + phase +
         R"(","point":"attn_out","layer":0,"step":0,"pos_id":5,"hash_algo":"greta-1","n":4,"hash":1})"
         "\n"
         R"({"event":"run_end","status":"complete"})"
         "\n";
}

TEST_F(EngineLines, StartsOfTwoRunsInOneFileOrFolderDoNotPass) {
  const char* const kStarts[][2] = {{R"(},"experiment":"b3_66"})", R"(},"experiment":"b3_67"})"},
                                    {R"(},"date":"2026-02-07"})", R"(},"date":"2026-02-08"})"},
                                    {R"("model":"a"}})", R"("model":"b"}})"},
                                    {R"("model_sha256":"1"}})", R"("model_sha256":"2"}})"},
                                    {R"("commit":"1111111"}})", R"("commit":"2222222"}})"},
                                    {R"("dtype":"f32"}})", R"("dtype":"bf16"}})"}};
  for (size_t i = 0; i < std::size(kStarts); ++i) {
    const auto& [one, other] = kStarts[i];
    const std::string a = started_part(one, "prefill_last"), b = started_part(other, "decode0");
    const std::string run = "2026-02-07/b3_66/seed_" + std::to_string(i);
    folder.write(run + "/trace.jsonl", a + b);
    folder.write(run + "_files/a.jsonl", a);
    folder.write(run + "_files/b.jsonl", b);
    folder.write(run + "_same/a.jsonl", started_part(other, "prefill_last"));
    folder.write(run + "_same/b.jsonl", started_part(other, "decode0"));
  }
  ingest_all(db, {folder / "2026-02-07"});
  EXPECT_EQ(
      ask("SELECT verdict, numeric_verdict, rejected, count(*) FROM run_verdict WHERE run NOT "
          "LIKE '%same' GROUP BY 1, 2, 3"),
      "INCOMPLETE|INCOMPLETE|1|12");
  EXPECT_EQ(ask("SELECT verdict, count(*) FROM run_verdict WHERE run LIKE '%same' GROUP BY 1"),
            "PASS|6");
  EXPECT_EQ(ask("SELECT DISTINCT rejected_why FROM run_verdict WHERE run LIKE '%seed_0%' AND "
                "rejected"),
            "run_start lines of several runs: experiment b3_66 and b3_67");
}

TEST_F(EngineLines, APromptThatIsAnnouncedAndNotTracedDoesNotPass) {
  const std::string same = R"("hash_algo":"greta-1","n":4,"hash":1)";
  const std::string start = "{\"event\":\"run_start\"}\n",
                    end = R"({"event":"run_end","status":"complete"})"
                          "\n",
                    traced = R"({"event":"run_prompt","prompt_id":"p0","n_tokens":6})"
                             "\n";
  const std::string rows = row("prefill_last", same) + row("decode0", same);
  take("run.jsonl", start + traced + rows + end);
  EXPECT_EQ(ask("SELECT verdict, unmet FROM run_verdict"), "PASS|0");
  int n = 0;
  for (const char* more : {"", R"(,"n_tokens":5)", R"(,"token_ids":[1,2])"}) {
    const std::string name = "2026-02-07/b3_7" + std::to_string(n++) + "/";
    folder.write(name + "trace.jsonl", start + traced + rows + end);
    ingest_all(db, {folder / "2026-02-07"});
    // what comes later is asked as well
    folder.write(name + "more.jsonl",
                 std::string(R"({"event":"run_prompt","prompt_id":"p1")") + more + "}\n");
    ingest_all(db, {folder / "2026-02-07"});
  }
  EXPECT_EQ(ask("SELECT verdict, numeric_verdict, unmet, count(*) FROM run_verdict"
                " WHERE experiment LIKE 'b3_7%' GROUP BY 1, 2, 3"),
            "INCOMPLETE|INCOMPLETE|1|3");
}

TEST_F(EngineLines, FewerRowsThanTheRunWroteIsIncomplete) {
  const std::string same = R"("hash_algo":"greta-1","n":4,"hash":1)";
  take("run.jsonl", R"({"event":"run_start"})"
                    "\n"
                    R"({"event":"run_end","status":"complete","rows":3})");
  take("traces/p0_trace.jsonl", row("prefill_last", same) + row("decode0", same));
  EXPECT_EQ(ask("SELECT verdict, numeric_verdict, unmet FROM run_verdict"),
            "INCOMPLETE|INCOMPLETE|1");
}

TEST_F(EngineLines, ReadoutsStandAlone) {
  const auto line = [](const char* phase, int step, const char* agrees) {
    return std::string(R"({"event":"readout","prompt_id":"p0","phase":")") + phase +
           R"(","step":)" + std::to_string(step) +
           R"(,"pos_id":5,"top1_id":7,"top1_logit":2.5,"top2_id":8,"top2_logit":1.5,)"
           R"("gap":1,"vocab":10,"lm_head_route":"MFMA","cpu_probe_top1_id":9,"cpu_probe_agrees_gpu":)" +
           agrees + "}\n";
  };
  take("traces/p0_trace.jsonl", line("prefill_last", 0, "false") + line("decode0", 1, "true") +
                                    R"({"event":"readout","prompt_id":"p0"})");
  EXPECT_EQ(
      ask("SELECT prompt, prefill_top1, decode_top1, prefill_gap, suspect FROM lm_head_delta"),
      "p0|7|7|1.0|MFMA");
  ASSERT_EQ(summary.findings.size(), 1u);
  EXPECT_EQ(summary.findings[0].reason, "readout without phase");
}

TEST_F(EngineLines, APartThatHasNotEndedIsIncompleteThoughItStartedAsOthersDid) {
  const std::string same = R"("hash_algo":"greta-1","n":4,"hash":1)";
  const std::string end = R"({"event":"run_end","status":"complete"})"
                          "\n";
  const std::string rows = row("prefill_last", same) + row("decode0", same);
  for (const std::string& at :
       {std::string(), std::string(R"(,"started_at":"2026-02-07T00:00:00Z")")}) {
    SCOPED_TRACE(at);
    const std::string start = R"({"event":"run_start")" + at + "}\n";
    folder.write("2026-02-07/b3_66" + at.substr(0, 3) + "/part_0.jsonl", start + rows + end);
    folder.write("2026-02-07/b3_66" + at.substr(0, 3) + "/part_1.jsonl", start + rows + "\n");
    ingest_all(db, {folder / "2026-02-07"});
    EXPECT_EQ(ask("SELECT DISTINCT verdict, status FROM run_verdict"), "INCOMPLETE|running");
  }
}

TEST_F(EngineLines, WhatADocumentQuotesNeitherEndsARunNorExcusesIt) {
  const std::string of = R"("hash_algo":"greta-1","n":4,"hash":)";
  const std::string difference =
      R"({"event":"difference","prompt_id":"p0","point":"attn_out","layer":0,"pos_id":5,"n":4,)"
      R"("prefill_hash":1,"decode_hash":2,"differing":4,"first_at":0,"last_at":3,"rel_l2":1e-9,)"
      R"("max_abs":1e-9,"max_abs_at":0,"max_ulp":1,"heads":0,"shares":[1]})"
      "\n";
  const std::string end = R"({"event":"run_end","status":"complete"})"
                          "\n";
  take("traces/p0_trace.jsonl", R"({"event":"run_start"})"
                                "\n" +
                                    row("prefill_last", of + "1") + row("decode0", of + "2"));
  take("run.log", "[GRETA] begins\n" + difference + end);
  take("report.md", "# B3.66\n\n```\n" + difference + end + "```\n");
  EXPECT_EQ(ask("SELECT verdict, numeric_verdict, status FROM run_verdict"),
            "FAIL|INCOMPLETE|running");
  EXPECT_EQ(ask("SELECT count(*) FROM difference"), "0");
  take("end.jsonl", end);
  EXPECT_EQ(ask("SELECT numeric_verdict, status FROM run_verdict"), "INCOMPARABLE|complete");
  take("late.log", "[GRETA] ends\n{\"event\":\"run_end\",\"status\":\"failed\"}\n");
  EXPECT_EQ(ask("SELECT status FROM run"), "failed");
}

TEST_F(EngineLines, ARunWithoutAGoodLineIsNotHiddenByOneBelowIt) {
  const std::string same = R"("hash_algo":"greta-1","n":4,"hash":1)";
  folder.write("2026-02-07/b3_66/trace.jsonl", "{\"event\":\"stage_trace\",\n");
  folder.write("2026-02-07/b3_66/seed_1/trace.jsonl",
               row("prefill_last", same) + row("decode0", same));
  ingest_all(db, {folder / "2026-02-07"});
  EXPECT_EQ(ask("SELECT verdict, rejected FROM run_verdict ORDER BY run"), "NO_EVIDENCE|1\nPASS|0");
}

TEST_F(EngineLines, RowsOfAJsonDocumentAreNotReadAndTheRunDoesNotPass) {
  const std::string same = R"("hash_algo":"greta-1","n":4,"hash":1)";
  const std::string first = row("prefill_last", same);
  take("trace.jsonl", first + row("decode0", same));
  take("more.json", R"({"rows":[)" + first + "]}");
  EXPECT_EQ(ask("SELECT verdict FROM run_verdict"), "INCOMPLETE");
}

}  // namespace
}  // namespace greta
