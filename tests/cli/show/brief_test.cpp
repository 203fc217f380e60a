// The report that fits a screen.
#include <algorithm>

#include "cli/show/report.h"
#include "db/judge.h"
#include "tests/cli/show/report_rows.h"

namespace greta {
namespace {

class Brief : public ::testing::Test {
 protected:
  std::string text(const std::string& runs, Language language = Language::kEnglish) {
    judge_rest(w_.db);
    std::string text;
    QueryPool statements(w_.db);
    print_markdown(brief_report(statements, resolve_runs(w_.db, runs), Wording(language)),
                   [&](std::string_view piece) { text += piece; });
    return text;
  }
  /// A run of one experiment on a day of its commit, whose attn_out drifts or not.
  void add(int day, bool drifts, const std::string& commit) {
    const std::string date = "2026-01-0" + std::to_string(day);
    w_.run({.name = date + "/e/as_designed",
            .experiment = "e",
            .mode = "as_designed",
            .dtype = "f32",
            .date = date,
            .commit = commit,
            .status = "complete"});
    w_.match("x_in", 0);
    const float value = drifts ? 9.0f : 1.0f;
    w_.add(prefill("attn_out", 0, 1).sketched({1, 2, 3, 4}),
           decode("attn_out", 0, drifts ? 2 : 1).sketched({value, 2, 3, 4}));
  }

  Warehouse w_;
};

TEST_F(Brief, FitsAScreenAndSaysWhereWhyAndSinceWhen) {
  add(1, false, "aaaaaaaa");
  add(2, true, "cccccccc");
  add(3, true, "dddddddd");
  const std::string page = text("2026-01-03/e/as_designed");
  EXPECT_LE(std::count(page.begin(), page.end(), '\n'), 24) << page;
  expect_parts(
      page,
      {"# `2026-01-03/e/as_designed`: **FAIL**", "e, as_designed, commit dddddddd, 2026-01-03",
       "- **Where**: `attn_out`, layer 0, prompt `p0`, position 37: ATTN_OUT_DRIFT"
       " (ATTENTION_COMPUTATION_MISMATCH)",
       "- **Why**: it arises between residual_pre_attn and attn_out of layer 0",
       "- **Since**: run `2026-01-02/e/as_designed` (commit cccccccc, 2026-01-02);"
       " the last good one is `2026-01-01/e/as_designed` (commit aaaaaaaa,"
       " 2026-01-01); BROKEN",
       "- **Against 2026-01-02/e/as_designed**: SAME",
       "- **Next**: `greta-db bisect --repo DIR --good 'aaaaaaaa' --bad 'cccccccc'`"});
}

TEST_F(Brief, WhatWasMendedIsNoLongerSince) {
  add(1, false, "aaaaaaaa");
  add(2, true, "cccccccc");
  add(3, false, "dddddddd");
  const std::string page = text("2026-01-03/e/as_designed");
  expect_parts(page, {"**PASS**", "**: FIXED"}, {"**Since**"});
}

TEST_F(Brief, ARunThatFailsFromItsBeginningSaysSo) {
  add(1, true, "aaaaaaaa");
  EXPECT_TRUE(has(text("e"), "- **Since**: not known: no earlier run of its lineage"));
  add(2, true, "cccccccc");
  EXPECT_TRUE(
      has(text("2026-01-02/e/as_designed"),
          "its baseline `2026-01-01/e/as_designed` (commit aaaaaaaa, 2026-01-01) fails as well"));
}

TEST_F(Brief, OfAnExperimentHasWhatFailsOneByOneAndTheRestInATable) {
  add(1, false, "aaaaaaaa");
  add(2, true, "cccccccc");
  add(3, false, "dddddddd");
  const std::string page = text("e", Language::kSpanish);
  expect_parts(page, {"3 ejecuciones: 1 FAIL, 2 PASS.", "### `2026-01-02/e/as_designed`: **FAIL**",
                      "\n| 2026-01-01/e/as_designed | 2026-01-01 | aaaaaaaa | **PASS** | PASS | 2 |"
                      " - |\n| 2026-01-03/e/as_designed | 2026-01-03 | dddddddd | **PASS** | PASS"
                      " | 2 | FIXED |\n"});
}

TEST_F(Brief, ManyThatFailAreAllThere) {
  for (int i = 0; i < 14; ++i) {
    w_.run({.name = "r" + std::to_string(i), .experiment = "e"});
    w_.drift("attn_out", 0);
  }
  const std::string page = text("e");
  EXPECT_TRUE(has(page, "2 more runs fail; they are in the table below.")) << page;
  for (int i = 0; i < 14; ++i) {
    const std::string name = "r" + std::to_string(i);
    EXPECT_TRUE(has(page, "`" + name + "`:") || has(page, "| " + name + " |")) << name;
  }
}

}  // namespace
}  // namespace greta
