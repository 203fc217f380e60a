#include <gtest/gtest.h>

#include <bit>
#include <cctype>
#include <cmath>

#include "db/check.h"
#include "db/judge.h"
#include "engine/record/run_queue.h"
#include "tests/cli/program.h"
#include "tests/engine/record/run_fixture.h"

// What the views say of runs that an engine wrote straight into the database.

// What greta-db tells of a suite that an engine ran in both modes.

namespace greta {
namespace {

constexpr float kRounding = 1.0f + 0x1p-20f;
constexpr const char* kVerdict =
    "SELECT verdict, numeric_verdict, coverage FROM verdict_now WHERE level = 'run'";

/// A database with one run of a made-up model.
class EngineRun : public testing::Test {
 protected:
  std::string write(const MadeUpRun& run, const std::string& mode = "batch_invariant",
                    bool complete = true) {
    RunQueue writer(store_in_database(file(), MadeUpRun::record(mode)));
    run.feed(writer);
    writer.end(complete);
    return writer.run_name();
  }
  fs::path file() const { return folder_ / "greta.db"; }
  SQLite::Database open() const { return open_for_writing(file()); }
  std::string ask(const std::string& sql) const {
    SQLite::Database db = open();
    return text_of(db, sql);
  }

 private:
  TemporaryFolder folder_;
};

void scale(MadeUpRow& row, float factor) {
  for (float& x : row.values) x *= factor;
}

/// What arithmetic makes: not a weight, nor a look-up.
bool is_computed(const MadeUpRow& row) {
  return row.record.point > TracePoint::kEmbedOut && row.record.point != TracePoint::kRmsWeight;
}

TEST_F(EngineRun, EqualRowsPassWithCompleteCoverage) {
  write({});
  EXPECT_EQ(ask("SELECT verdict, numeric_verdict, coverage, evidence, pairs, pass, fail, missing,"
                " decode_only, incomparable, unmet, status, first_fail FROM run_verdict"),
            "PASS|PASS|complete|trace|100|100|0|0|0|0|0|complete|-");
  EXPECT_EQ(ask("SELECT count(*), sum(scope = 'full'), sum(compared_n >= 2) FROM pair"),
            "100|100|100");
  EXPECT_EQ(ask("SELECT count(*) FROM first_fail"), "0");
}

TEST_F(EngineRun, WithoutAnyOneOfItsRowsItIsIncomplete) {
  MadeUpRun run{.prompts = {{"p0_short", 6}}};
  write(run);
  SQLite::Database db = open();
  const std::string passed = text_of(db, kVerdict);
  ASSERT_EQ(passed, "PASS|PASS|complete");
  SQLite::Statement keys(
      db,
      "SELECT printf('side = %d AND pos_id = %d AND layer = %d AND tensor_id = %d',"
      " side, pos_id, layer, tensor_id) FROM trace_row");
  std::vector<std::string> rows;
  while (keys.executeStep()) rows.push_back(keys.getColumn(0).getString());
  keys.reset();
  ASSERT_EQ(rows.size(), 100u);
  for (const std::string& row : rows) {
    db.exec("BEGIN");
    db.exec("DELETE FROM trace_row WHERE " + row);
    EXPECT_EQ(text_of(db, kVerdict), "INCOMPLETE|INCOMPLETE|unmet") << row;
    db.exec("ROLLBACK");
  }
  EXPECT_EQ(text_of(db, kVerdict), passed);
}

TEST_F(EngineRun, WithoutAnyOneRowOfLaterTokensItDoesNotPass) {
  // No plan lists positions: the number of rows tells.
  MadeUpRun run{.prompts = {{"p0_short", 6}},
                .layers = {0},
                .points = {TracePoint::kAttnOut},
                .decode_steps = 3};
  write(run);
  SQLite::Database db = open();
  const std::string now = " FROM verdict_now WHERE level = 'run'";
  ASSERT_EQ(text_of(db, "SELECT verdict, coverage, decode_only" + now), "PASS|partial|3");
  for (int pos : {6, 7, 8}) {
    db.exec("BEGIN");
    db.exec("DELETE FROM trace_row WHERE pos_id = " + std::to_string(pos));
    EXPECT_EQ(text_of(db, "SELECT verdict, numeric_verdict, coverage, unmet" + now),
              "INCOMPLETE|INCOMPLETE|unmet|1");
    EXPECT_EQ(check_database(db).size(), 1u);
    db.exec("ROLLBACK");
  }
  for (int side : {0, 1}) {  // the other side still has the tensor, elsewhere
    db.exec("BEGIN");
    db.exec("DELETE FROM trace_row WHERE pos_id = 5 AND side = " + std::to_string(side));
    EXPECT_NE(text_of(db, "SELECT verdict" + now), "PASS");
    EXPECT_NE(text_of(db, "SELECT numeric_verdict" + now), "PASS");
    db.exec("ROLLBACK");
  }
}

TEST_F(EngineRun, OneBitOfOneValueFailsWhereItFlipped) {
  const std::pair<TracePoint, int> places[] = {
      {TracePoint::kEmbedOut, 0},   {TracePoint::kQPreRope, 1}, {TracePoint::kKCache, 0},
      {TracePoint::kAttnScores, 1}, {TracePoint::kAttnOut, 1},  {TracePoint::kXOut, 0},
      {TracePoint::kHidden, -1},    {TracePoint::kLogits, -1},  {TracePoint::kLogitsTopk, -1}};
  std::string expected;
  for (const auto& [point, layer] : places) {
    for (Phase phase : {Phase::kPrefillLast, Phase::kDecode0}) {
      MadeUpRun run;
      run.alter = [&](MadeUpRow& row) {
        if (is(row, point, layer) && row.record.phase == phase && row.prompt == "p6_len_16") {
          float& x = row.values[row.values.size() / 2];
          x = std::bit_cast<float>(std::bit_cast<uint32_t>(x) ^ 1u);
        }
        return true;
      };
      expected += write(run) + "|FAIL|1|p6_len_16|" + std::to_string(layer) + "|" +
                  std::string(trace_point_name(point)) + "|15|115\n";
    }
  }
  EXPECT_EQ(ask("SELECT run, verdict, fail, prompt, layer, tensor, pos_id, token_id"
                " FROM run_verdict ORDER BY run_id") +
                "\n",
            expected);
}

TEST_F(EngineRun, OneValueThatIsNotFiniteFailsWhateverRowItIsIn) {
  // A prompt for each of its rows: prefill_last, decode0 and two steps that nothing is compared
  // with.
  constexpr int kRows = 4 * 50;
  MadeUpRun run{.prompts = {}, .decode_steps = 2};
  for (int i = 0; i <= kRows; ++i) run.prompts.emplace_back("p" + std::to_string(i), 6);
  const float bad[] = {NAN, INFINITY, -INFINITY};
  std::string expected;
  int n_rows = 0;
  run.alter = [&](MadeUpRow& row) {
    const int at = n_rows % kRows, prompt = n_rows / kRows;
    ++n_rows;
    if (at == prompt) {
      row.values[static_cast<size_t>(at) % row.values.size()] = bad[at % 3];
      expected += row.prompt + "|FAIL|FAIL|1|1|" + std::to_string(row.record.layer) + "|" +
                  std::string(trace_point_name(row.record.point)) + "|" +
                  std::to_string(row.record.pos_id) + "\n";
    }
    return true;
  };
  write(run);
  ASSERT_EQ(n_rows, (kRows + 1) * kRows);
  const std::string of_prompts =
      "SELECT p.name, v.verdict, v.numeric_verdict, v.fail, v.nonfinite, v.layer, v.tensor,"
      " v.pos_id FROM verdict v JOIN prompt p ON p.name = v.item WHERE v.level = 'prompt'"
      " AND v.verdict ";
  EXPECT_EQ(ask(of_prompts + "<> 'PASS' ORDER BY p.id") + "\n", expected);
  EXPECT_EQ(ask(of_prompts + "= 'PASS'"), "p200|PASS|PASS|0|0|-|-|-");
  EXPECT_EQ(ask("SELECT verdict, numeric_verdict, fail, nonfinite FROM run_verdict"),
            "FAIL|FAIL|200|200");
}

TEST_F(EngineRun, NonFiniteRowsFailOnBothSides) {
  for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
    MadeUpRun run;
    run.alter = [&](MadeUpRow& row) {  // equal on both sides, and still a failure
      if (is(row, TracePoint::kMlpOut, 1)) row.values[3] = bad;
      return true;
    };
    const std::string name = write(run);
    EXPECT_EQ(
        ask("SELECT verdict, numeric_verdict, fail, layer, tensor, first_fail FROM run_verdict"
            " WHERE run = '" +
            name + "'"),
        "FAIL|FAIL|2|1|mlp_out|MLP_OUT_DRIFT");
    EXPECT_EQ(
        ask("SELECT DISTINCT status FROM pair WHERE tensor = 'mlp_out' AND layer = 1 AND run = '" +
            name + "'"),
        "NONFINITE");
  }
}

TEST_F(EngineRun, RowWithoutAFiniteValueHasNoStatistics) {
  MadeUpRun run{.prompts = {{"p0_short", 6}}, .layers = {0}, .points = {TracePoint::kAttnOut}};
  run.alter = [](MadeUpRow& row) {
    row.values.assign(row.record.phase == Phase::kDecode0 ? 0 : 4, NAN);  // and an empty row
    return true;
  };
  write(run);
  EXPECT_EQ(ask("SELECT phase, n, min, max, mean, abs_sum, nan, inf, nz_count FROM trace"
                " ORDER BY phase"),
            "decode0|0|-|-|-|0.0|0|0|0\nprefill_last|4|-|-|-|0.0|4|0|4");
  EXPECT_EQ(ask("SELECT status FROM pair"), "NONFINITE");
}

TEST_F(EngineRun, WhatDidNotEndOrFailedIsIncomplete) {
  write({}, "as_designed", false);
  EXPECT_EQ(ask(std::string(kVerdict)), "INCOMPLETE|INCOMPLETE|complete");
  EXPECT_EQ(ask("SELECT status, finished_at IS NOT NULL FROM run"), "failed|1");
  {
    RunQueue writer(store_in_database(file(), MadeUpRun::record("kv_aligned")));
    MadeUpRun().feed(writer);
  }
  EXPECT_EQ(ask("SELECT status, verdict FROM run_verdict WHERE mode = 'kv_aligned'"),
            "failed|INCOMPLETE");
  EXPECT_EQ(ask("SELECT count(*) FROM trace WHERE mode = 'kv_aligned'"), "200")
      << "what was given before is evidence";
}

TEST_F(EngineRun, PlanWithASideThatWasNotTracedIsIncomplete) {
  MadeUpRun run{.prompts = {{"p0_short", 6}}};
  run.alter = [](MadeUpRow& row) { return row.record.phase != Phase::kDecode0; };
  write(run);
  EXPECT_EQ(ask("SELECT verdict, coverage, unmet, missing, pairs FROM run_verdict"),
            "INCOMPLETE|unmet|50|50|0");
}

TEST_F(EngineRun, WithoutAPlanCoverageIsUndeclared) {
  write({.planned = false});
  EXPECT_EQ(ask(kVerdict), "PASS|PASS|undeclared");
}

TEST_F(EngineRun, DriftWithinRoundingFailsStrictlyAndPassesNumerically) {
  MadeUpRun run;
  run.alter = [](MadeUpRow& row) {
    const bool later = row.record.point >= TracePoint::kAttnOut || row.record.layer != 0;
    if (row.record.phase == Phase::kDecode0 && later && is_computed(row)) scale(row, kRounding);
    return true;
  };
  write(run, "as_designed");
  EXPECT_EQ(ask("SELECT verdict, strict_verdict, numeric_verdict, first_fail, strict_layer,"
                " strict_tensor, rounding = fail FROM run_verdict"),
            "PASS|FAIL|PASS|-|0|attn_out|1");
  EXPECT_EQ(ask("SELECT tensor, origin, inputs_complete FROM pair WHERE status = 'DRIFT'"
                " ORDER BY prompt_id, layer < 0, layer, tensor_id LIMIT 1"),
            "attn_out|ORIGIN|1");
}

TEST_F(EngineRun, BugBehindRoundingIsTheNumericFirstFail) {
  MadeUpRun run;
  run.alter = [](MadeUpRow& row) {
    if (row.record.phase != Phase::kDecode0) return true;
    if (is_computed(row)) scale(row, kRounding);
    if (is(row, TracePoint::kWoOut, 1)) scale(row, 1.5f);
    return true;
  };
  write(run, "as_designed");
  EXPECT_EQ(ask("SELECT verdict, numeric_verdict, first_fail, layer, tensor, numeric_origin"
                " FROM run_verdict"),
            "FAIL|FAIL|WO_OUT_DRIFT|1|wo_out|ORIGIN");
}

struct Alignment {
  std::set<TracePoint> rounding, divergent;
  const char* as_designed;  // interpretation and status
  const char* kv_aligned;
};

TEST_F(EngineRun, KvAlignmentReadsAsTheGuideSays) {
  using enum TracePoint;
  const Alignment cases[] = {
      {{}, {}, "ALIGNED|PASS", "ALIGNED|PASS"},
      {{kQPostRope, kAttnOut}, {}, "ALIGNED|PASS", "ALIGNED|PASS"},
      {{kKPostRope, kVProj, kAttnOut}, {}, "STRUCTURAL_DRIFT|KV_MISMATCH", "STRUCTURAL_DRIFT|PASS"},
      {{kKPostRope}, {kAttnOut}, "REAL_MISMATCH|KV_MISMATCH", "REAL_MISMATCH|PASS"},
      {{}, {kVProj, kAttnOut}, "REAL_MISMATCH|KV_MISMATCH", "REAL_MISMATCH|PASS"},
      {{}, {kAttnScores}, "KV_MISALIGNMENT|PASS", "KV_MISALIGNMENT|PASS"},
      {{kAttnScores}, {kAttnOut}, "KV_MISALIGNMENT|PASS", "KV_MISALIGNMENT|PASS"},
      {{}, {kQPostRope}, "Q_MISMATCH|PASS", "Q_MISMATCH|PASS"},
      {{}, {kKCacheRows}, "KV_MISALIGNMENT|KV_MISMATCH", "KV_MISALIGNMENT|KV_MISMATCH"},
      {{kKPostRope, kKCache}, {}, "STRUCTURAL_DRIFT|KV_MISMATCH", "STRUCTURAL_DRIFT|KV_MISMATCH"}};
  for (const Alignment& expected : cases) {
    for (const char* mode : {"as_designed", "kv_aligned"}) {
      MadeUpRun run{.prompts = {{"p0_short", 6}}, .layers = {2}};
      run.alter = [&](MadeUpRow& row) {
        if (row.record.phase != Phase::kDecode0) return true;
        if (expected.rounding.contains(row.record.point)) scale(row, kRounding);
        if (expected.divergent.contains(row.record.point)) scale(row, 1.5f);
        return true;
      };
      const std::string name = write(run, mode);
      EXPECT_EQ(ask("SELECT interpretation, status FROM kv_alignment WHERE run = '" + name + "'"),
                mode == std::string("kv_aligned") ? expected.kv_aligned : expected.as_designed)
          << name;
    }
  }
}

TEST_F(EngineRun, ARowOfAnEarlierTokenThatIsNotFiniteFailsTheCacheRows) {
  MadeUpRun run{.prompts = {{"p0_short", 6}}};
  run.alter = [](MadeUpRow& row) {
    const bool decode = row.record.phase == Phase::kDecode0;
    if (decode && is(row, TracePoint::kKCacheRows, 1)) row.values[0] = NAN;
    return true;
  };
  write(run);
  EXPECT_EQ(ask("SELECT verdict, numeric_verdict, first_fail, layer, tensor FROM run_verdict"),
            "FAIL|FAIL|K_CACHE_ROWS_DRIFT|1|k_cache_rows");
  EXPECT_EQ(ask("SELECT tensor, status, origin FROM pair WHERE status <> 'MATCH'"),
            "k_cache_rows|NONFINITE|ORIGIN");
  EXPECT_EQ(ask("SELECT layer, cache_match, cache_rows_match, interpretation, status"
                " FROM kv_alignment"),
            "0|1|1|ALIGNED|PASS\n1|1|0|KV_MISALIGNMENT|KV_MISMATCH");
}

TEST_F(EngineRun, KvAlignmentKeepsALayerThatOneSideLost) {
  MadeUpRun run{.prompts = {{"p0_short", 6}}};
  run.alter = [](MadeUpRow& row) {
    return row.record.phase != Phase::kDecode0 || row.record.layer != 1;
  };
  write(run, "kv_aligned");
  EXPECT_EQ(ask("SELECT layer, interpretation, status FROM kv_alignment"),
            "0|ALIGNED|PASS\n1|UNKNOWN|KV_MISMATCH");
}

TEST_F(EngineRun, TwoRunsCompareRowByRow) {
  const std::string a = write({.decode_steps = 1});
  MadeUpRun changed{.decode_steps = 1};
  changed.alter = [](MadeUpRow& row) {
    if (is(row, TracePoint::kVProj, 1) && row.prompt == "p0_short") scale(row, 1.25f);
    return !(is(row, TracePoint::kHidden, -1) && row.record.phase == Phase::kDecode);
  };
  const std::string b = write(changed);
  EXPECT_EQ(b, a + "#2");
  EXPECT_EQ(ask("SELECT prompt, phase, pos_id, layer, tensor, status, class FROM run_diff"
                " WHERE run_a = '" +
                a + "' AND run_b = '" + b +
                "' AND status <> 'MATCH'"
                " ORDER BY prompt, pos_id, phase DESC, tensor"),
            "p0_short|prefill_last|5|1|v_proj|DRIFT|DIVERGENT\n"
            "p0_short|decode0|5|1|v_proj|DRIFT|DIVERGENT\n"
            "p0_short|decode|6|-1|hidden|ONLY_A|-\n"
            "p0_short|decode|6|1|v_proj|DRIFT|DIVERGENT\n"
            "p6_len_16|decode|16|-1|hidden|ONLY_A|-");
  const std::string again = write({.decode_steps = 1});
  EXPECT_EQ(ask("SELECT status, count(*) FROM run_diff WHERE run_a = '" + a + "' AND run_b = '" +
                again + "' GROUP BY 1"),
            "MATCH|300");
}

TEST_F(EngineRun, LmHeadDeltaNamesTheRouteThatTheCpuContradicts) {
  MadeUpRun run{.cpu_probe = true};
  run.alter_readout = [](ReadoutRecord& readout) {
    if (readout.phase == Phase::kPrefillLast) readout.cpu_top1_id = 12;
  };
  write(run);
  EXPECT_EQ(ask("SELECT prompt, prefill_route, decode_route, prefill_top1, decode_top1,"
                " printf('%.4f', prefill_gap), cpu_probe_agrees_prefill, cpu_probe_agrees_decode,"
                " suspect, cpu_probe_prefill_top1 FROM lm_head_delta"),
            "p0_short|GEMM|DOT|7|7|1.4000|0|1|GEMM|12\np6_len_16|GEMM|DOT|7|7|1.4000|0|1|GEMM|12");
}

TEST_F(EngineRun, ItsVerdictIsKept) {
  MadeUpRun run;
  run.alter = [](MadeUpRow& row) {
    if (is(row, TracePoint::kAttnOut, 1) && row.record.phase == Phase::kDecode0) scale(row, 2.0f);
    return true;
  };
  write(run);
  SQLite::Database db = open();
  ASSERT_EQ(text_of(db, "SELECT count(*) FROM run WHERE id NOT IN (SELECT run_id FROM verdict)"),
            "0");
  const std::string kept = view(db, "verdict", "level, item");
  db.exec("DELETE FROM verdict");
  judge_rest(db);
  EXPECT_EQ(view(db, "verdict", "level, item"), kept);
}

class RunReport : public ProgramTest {
 protected:
  /// Decode rounds otherwise than prefill, but for weights and what nothing has computed yet.
  void write_suite() const {
    for (const std::string mode : {"as_designed", "kv_aligned"}) {
      MadeUpRun run{.prompts = {{"p0_short", 2}, {"p6_len_16", 16}, {"p6_len_32", 32}},
                    .layers = {0, 1, 2, 4, 8},
                    .cpu_probe = true};
      run.alter = [&mode](MadeUpRow& row) {
        const TracePoint point = row.record.point;
        const bool exact = point <= TracePoint::kEmbedOut || point == TracePoint::kRmsWeight ||
                           (row.record.layer == 0 && point < TracePoint::kQPreRope);
        const bool cache = point >= TracePoint::kKCache && point <= TracePoint::kVCacheRows;
        if (!is_decode(row.record.phase) || exact || (cache && mode == "kv_aligned")) return true;
        for (float& x : row.values) x *= 1.0f + 0x1p-20f;
        return true;
      };
      RunRecord record = MadeUpRun::record(mode);
      record.attributes = {{"host", "node7"}, {"model", "tiny.gguf"}, {"inject", "none@decode"}};
      RunQueue writer(store_in_database(database(), record));
      run.feed(writer);
      writer.end(true);
    }
  }
  static int count(const std::string& text, const std::string& part) {
    int n = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
    return n;
  }
};

TEST_F(RunReport, FinalReportOfBothModesLeavesNothingOpen) {
  write_suite();
  const Result result = run({"--db", "greta.db", "report", "--run", "b3_66_v2", "--out", "out/"});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::string text = read(path("out/B3_66_V2_FINAL_REPORT.md"));
  for (const char* part :
       {"## Results by Mode", "| as_designed | 2026-02-07/b3_66_v2/as_designed | **PASS** | FAIL |",
        "| kv_aligned | 2026-02-07/b3_66_v2/kv_aligned | **PASS** | FAIL |",
        "| 15 KV_MISMATCH | 15 STRUCTURAL_DRIFT |", "| 15 PASS | 15 STRUCTURAL_DRIFT |",
        "**Host**: node7", "**Model**: tiny.gguf", "**Injected faults**: none@decode",
        "**Commit**: c0ffee1", "**Run Status**: complete", "was traced.",
        "| **Coverage** | complete |", "| Cache rows bitwise equal | 15 of 15 match |",
        "| Cache rows bitwise equal | 0 of 15 match |", "| **✔ 15 of 15 rows** |",
        "Nothing speaks against H₀: none of the 15 rows", "The CPU probe contradicts no route."}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  // of each mode: 5 layers, 3 prompts, before and after softmax, prefill and decode
  EXPECT_EQ(count(text, "| before softmax |"), 2 * 5 * 3 * 2);
  EXPECT_EQ(count(text, "| after softmax |"), 2 * 5 * 3 * 2);
  EXPECT_EQ(count(text, "| consistent | STRUCTURAL_DRIFT |"), 2 * 5);
  for (const char* open :
       {"TBD", "PREPARED", "**: not recorded", "| not recorded", "| not comparable"}) {
    EXPECT_EQ(text.find(open), std::string::npos) << open;
  }
}

TEST_F(RunReport, AnalysisTableListsEveryComparison) {
  write_suite();
  for (const char* mode : {"as_designed", "kv_aligned"}) {
    const std::string name = std::string("2026-02-07/b3_66_v2/") + mode;
    const Result result = run({"--db", "greta.db", "--format", "tsv", "report", "--run", name});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(
        result.out.starts_with("PROMPT\tTOKEN_ID\tPOS_ID\tLAYER\tTENSOR\tFIRST_FAIL\tROOT_CAUSE\n"
                               "p0_short\t101\t1\t0\tembd_w_hash\t\t\n"));
    EXPECT_EQ(count(result.out, "\n"), 1 + 3 * 113);
    const bool designed = std::string(mode) == "as_designed";
    EXPECT_EQ(count(result.out, "\tK_CACHE_DRIFT\tATTENTION_COMPUTATION_MISMATCH\n"),
              designed ? 15 : 0);
    EXPECT_EQ(count(result.out, "\tK_POST_ROPE_DRIFT\tATTENTION_COMPUTATION_MISMATCH\n"), 15);
  }
}

TEST_F(RunReport, CommandsReadAnEnginesRun) {
  write_suite();
  const Result check = run({"--db", "greta.db", "check"});
  EXPECT_EQ(check.status, 0) << check.out << check.err;
  const Result verdict = run({"--db", "greta.db", "--format", "json", "firstfail", "--run",
                              "2026-02-07/b3_66_v2/kv_aligned"});
  EXPECT_EQ(verdict.status, 0) << verdict.err;
  EXPECT_EQ(verdict.json()[0]["verdict"], "PASS");
  EXPECT_EQ(verdict.json()[0]["coverage"], "complete");
  EXPECT_EQ(verdict.json()[0]["strict_first_fail"]["tensor"], "q_pre_rope");
  const Result said = run({"--db", "greta.db", "--format", "csv", "runs", "--attributes", "--run",
                           "2026-02-07/b3_66_v2/kv_aligned"});
  EXPECT_NE(said.out.find("host,node7,1,0,engine"), std::string::npos) << said.out;
}

}  // namespace

}  // namespace greta
