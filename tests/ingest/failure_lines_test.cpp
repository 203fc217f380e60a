// Which lines claim a failure together, and numbers that are held against each other.
#include "ingest/failure_lines.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "ingest/failure_claim.h"
#include "ingest/text.h"

namespace greta {
namespace {

/// The numbers of the lines that claim one.
std::string claiming_lines(std::string_view text, bool is_of_one_run = true) {
  FailureLines lines(is_of_one_run);
  std::string claiming;
  int number = 0;
  for (std::string_view line; text::take_line(text, line);) {
    ++number;
    if (lines.claims(line)) claiming += (claiming.empty() ? "" : " ") + std::to_string(number);
  }
  return claiming;
}

void expect_each(std::initializer_list<const char*> lines, bool claims) {
  for (const char* line : lines) EXPECT_EQ(line_claims_failure(line), claims) << line;
}

TEST(FailureLines, WhatDiffPrintsOfTwoThingsIsAClaim) {
  EXPECT_EQ(claiming_lines("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"), "3");
  EXPECT_EQ(claiming_lines("--- a/out.txt\t2026\n+++ b/out2.txt\t2026\n@@ -1,2 +1 @@\n"), "3");
  EXPECT_EQ(claiming_lines("1,2d0\n< x\n< y\n"), "2");
  EXPECT_EQ(claiming_lines("3c3\n< x\n---\n> y\n"), "2 4");
  EXPECT_EQ(claiming_lines("0a1\n> y\n"), "2");
  EXPECT_EQ(claiming_lines("< x\n---\n> y\n"), "3");
}

TEST(FailureLines, AChangeOfOneFileAQuoteAndARuleAreNone) {
  for (const char* text :
       {"--- a/x.cpp\n+++ b/x.cpp\n@@ -1 +1 @@\n", "--- x.cpp.orig\n+++ x.cpp\n@@ -1 +1 @@\n",
        "--- /dev/null\n+++ b/x.cpp\n@@ -0,0 +1 @@\n", "@@ -1 +1 @@\n", "+++ b\n@@ -1 +1 @@\n",
        "> a quote\n---\n> another\n", "< 5 ms\n\n---\n> y\n", "3c3\n\n< x\n", "3cc\n< x\n",
        "1,d2\n< x\n", "c3\n< x\n"}) {
    EXPECT_EQ(claiming_lines(text), "") << text;
  }
}

TEST(FailureLines, ARowOfATableOfPipesIsJudgedByItsHead) {
  EXPECT_EQ(
      claiming_lines("| tensor | status |\n|---|---|\n| x_in | PASS |\n| attn_out | DRIFT |\n"),
      "4");
  EXPECT_EQ(claiming_lines("tensor | prefill_hash | decode_hash\nx_in | 1 | 1\nattn_out | 1 | 2\n"),
            "3");
  EXPECT_EQ(claiming_lines("| tensor | p0 | p1 |\n| x_in | PASS | FAIL |\n", false), "2");
  EXPECT_EQ(claiming_lines("| run | p0 | p1 |\n| b3_98 | PASS | PASS |\n| b3_99 | FAIL | PASS |\n",
                           false),
            "");
  EXPECT_EQ(claiming_lines("| op | max_diff | tolerance |\n| add | 0.5 | 0.01 |\n"), "2");
}

TEST(FailureLines, RowsOfOtherWidthAndLinesBetweenEndATable) {
  EXPECT_EQ(claiming_lines("| name | failed |\n| x_in | 0 |\n"), "");
  EXPECT_EQ(claiming_lines("| name | state | n |\n| a | b |\n"), "");
  EXPECT_EQ(claiming_lines("| name | passed |\ntext\n| a | 0 |\n"), "");
  EXPECT_EQ(claiming_lines("12:30 | INFO | result\n12:31 | INFO | fine\n"), "");
}

TEST(FailureLines, WhatIsNotEqualIsAClaimAndTextOfProgramsIsNone) {
  expect_each(
      {"5 != 7", "token 12: 5 != 7", "0x1f != 0x2a", "5 \u2260 7", "assert 5 == 7",
       "E       assert 5 == 7", "assert 0.5 < 0.01", "assert 'abc' == 'abd'", "assert 5 != 5",
       "123456789012345678901 != 123456789012345678902", "AssertionError: 5 != 7"},
      true);
  expect_each({"if a != b:", "if (3 != n) return;", "assert a == b", "assert 5 == 5",
               "assert 5 != 7", "assert 0.01 < 0.5", "assert 0.1 + 0.2 == 0.3", "x[3] == 5",
               "n % 2 == 0", "#if 0 == 1", "5 == 5.0", "5 == 0x5", "======", "f(3) != 5", "3 < 2",
               "5 -> 7", "where 1 != 2", "mode == \"decode\""},
              false);
}

TEST(FailureLines, ADifferenceBeyondTheToleranceBesideItIsAClaim) {
  expect_each(
      {"max_diff=0.5 tolerance=0.01", "max diff 0.5, tolerance 0.01", "max_abs_diff 0.5 > tol 0.01",
       "max diff 0.5 > 0.01", "max_diff: 0.5 (tolerance: 0.01)",
       "max diff is 0.5, the tolerance is 1e-3", "error 0.5 (must be < 0.01)",
       "rel_l2 = 3e-2 (rtol 1e-3)", "max_diff 5 %, tolerance 1 %", "layer 3 max_diff 0.5 tol 1e-2"},
      true);
  expect_each({"max_diff=0.005 tolerance=0.01", "max diff 0.001 < 0.01", "max_diff < 0.01",
               "max_diff 1e-5 (tol 1e-3)", "if max diff 0.5 > 0.01 fails",
               "max diff at layer 3, tolerance 0.01", "max_diff_index: 512 tolerance: 0.01",
               "diff_count: 3, tolerance 0.01", "time_limit 600 max_diff 1e-6",
               "tolerance 0.01, step 5, error 0.001", "diff 5ms, tolerance 0.01",
               "atol 1e-5 rtol 1e-3 max_abs_diff 2e-3", "max_diff 0.5 %, tolerance 0.01",
               "2026-11-26 12:00:00 max_diff 0.001 tolerance 0.01", "L2 norm 3 < 5"},
              false);
}

TEST(FailureLines, MembersOfAnObjectAreHeldAgainstEachOther) {
  const auto claims = [](const char* text) {
    bool any = false;
    for_each_failure("", nlohmann::json::parse(text), [&](const std::string&) { any = true; });
    return any;
  };
  for (const char* text :
       {R"({"max_diff":0.5,"tolerance":0.01})", R"({"max_diff":"50 %","tolerance":"1 %"})",
        R"({"tolerance":0.01,"tensors":[{"name":"x","max_diff":0.5}]})",
        R"({"metrics":{"max_abs_diff":0.5},"thresholds":{"max_abs_diff":0.01}})",
        R"({"max_diff":{"value":0.5,"tolerance":0.01}})", R"({"max_diff":"inf","tol":0.01})",
        R"({"max_abs_err":0.5,"atol":0.01})",
        R"({"logits_max_diff":0.5,"kv_max_diff":0.01,"logits_tol":0.1,"kv_tol":1})",
        R"({"expected_hash":"abcdef12","actual_hash":"abcdef13"})",
        R"({"expected":{"hash":5},"actual":{"hash":6}})", R"({"expected":"5","got":7})",
        R"({"expected_sha256":"ab12","sha256":"ab13"})", R"({"score":"3/4"})",
        R"({"logits":"nan"})", R"({"passed":47,"total":48})"}) {
    EXPECT_TRUE(claims(text)) << text;
  }
  for (const char* text :
       {R"({"max_diff":0.005,"tolerance":0.01})",
        R"({"max_abs_diff":2e-3,"atol":1e-5,"rtol":1e-3,"allclose":true})",
        R"({"max_ulp_diff":3,"max_abs_diff":1e-6,"tolerance":1e-5})",
        R"({"max_abs_diff":1e-6,"max_rel_diff":0.02,"tolerance":1e-3})",
        R"({"tolerance":1,"a":{"tolerance":9,"max_diff":5}})",
        R"({"limit":10,"offset":20,"count":30})", R"({"expected":"PASS","actual":"pass"})",
        R"({"expected":0.5,"actual":0.5000001})", R"({"expected_hash":"0x1f","actual_hash":"31"})",
        R"({"timeout_threshold":1,"max_diff":5})", R"({"rms_norm_eps":1e-5,"max_diff":1e-3})",
        R"({"expected_tokens":5,"got_layers":7})", R"({"nan_count":0,"first_fail":"nan"})"}) {
    EXPECT_FALSE(claims(text)) << text;
  }
}

TEST(FailureLines, ANumberThatIsNoneIsAClaimAndWhatLooksForOneIsNot) {
  expect_each({"logits: nan", "logits=-nan", "max_diff=inf tolerance=0.01", "min=nan max=nan",
               "loss is nan", "contains NaN", "logits contains NaN", "NaN at layer 3",
               "3 NaNs in logits", "the output is NaN"},
              true);
  expect_each(
      {"no NaN", "nan: 0", "nan_count=0", "no NaN in logits", "checks for NaN in the output",
       "a row that contains NaN is NONFINITE", "does not contain NaN", "whether it contains NaN",
       "if the sum is NaN, the row is nonfinite", "nan_check: off", "mask=-inf", "min: -inf",
       "max_diff_limit: inf", "fill_value=nan", "first_fail: nan"},
      false);
}

TEST(FailureLines, ASignalIsOneByWhatAShellSays) {
  expect_each({"Terminated", "Killed", "Hangup", "zsh: killed     ./engine",
               "[1]+  Killed                  ./engine", "[1]    1234 terminated  ./engine",
               "bash: line 1:  1234 Terminated              ./engine",
               "./run.sh: line 3: 1234 Bus error   (core dumped) ./engine"},
              true);
  expect_each({"quit", "[1] 5", "[12/40] linking", "Terminated normally", "zsh: killed it", "",
               "[1]+  Done                    ./engine", "Stopped"},
              false);
}

TEST(FailureLines, AnyBytesAreRead) {
  for (const std::string& bytes :
       {std::string(100'000, '|'), std::string(100'000, '9'), std::string("--- "),
        std::string("3c"), std::string("\xe2\x80"), std::string(3, '\0'), std::string("|\n|\n|"),
        std::string("!="), std::string("=="), std::string("5 !="), std::string("'!='"),
        std::string(100'000, '=') + "5", std::string("tol diff 1e999999 < 1e-99999"),
        std::string("diff .. tol ..5.5.5")}) {
    claiming_lines(bytes + "\n" + bytes);
  }
}

}  // namespace
}  // namespace greta
