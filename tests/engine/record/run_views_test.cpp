#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "db/check.h"
#include "engine/record/run_queue.h"
#include "tests/engine/record/run_fixture.h"

// Answers of the views about runs that an engine wrote straight into the database.

namespace greta {
namespace {

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

TEST_F(EngineRun, EqualRowsPassWithCompleteCoverage) {
  write({});
  EXPECT_EQ(ask("SELECT verdict, numeric_verdict, coverage, evidence, pairs, pass, fail, missing,"
                " decode_only, incomparable, unmet, status, first_fail FROM run_verdict"),
            "PASS|PASS|complete|trace|100|100|0|0|0|0|0|complete|-");
  EXPECT_EQ(ask("SELECT count(*), sum(scope = 'full'), sum(compared_n >= 2) FROM pair"),
            "100|100|100");
  EXPECT_EQ(ask("SELECT count(*) FROM first_fail"), "0");
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

}  // namespace

}  // namespace greta
