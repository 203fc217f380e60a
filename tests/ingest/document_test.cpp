#include "ingest/document.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ingest/report_pairs.h"

namespace greta {
namespace {

// "kind=value@line" of every claim.
std::vector<std::string> claims_of(const std::string& text) {
  std::vector<std::string> out;
  for (const DocumentClaim& claim : read_document(text).claims) {
    out.push_back(claim.kind + "=" + claim.value + "@" + std::to_string(claim.line));
  }
  return out;
}

using Strings = std::vector<std::string>;

struct TitleCase {
  std::string text, experiment;
};
TEST(Document, TitlesNameTheExperiment) {
  const std::vector<TitleCase> cases = {{"# B3.66 Prefill vs Decode Drift Probe\n", "b3_66"},
                                        {"# B3.66 v2 kv_aligned Probe Report\n", "b3_66_v2"},
                                        {"# B3.13 — Prefill vs Decode0 Delta\n", "b3_13"},
                                        {"# RCA Summary (B3.85–B3.88)\n", "b3_85"},
                                        {"# B3.70-71-72 Sweep Report\n", "b3_70_71_72"},
                                        {"# B3.10A Landscape\n", "b3_10A"},
                                        {"=====\n   B3.65 AUDIT - ANALYSIS\n=====\n", "b3_65"},
                                        {"B3_66_v2 report", "b3_66_v2"},
                                        {"# B3.66 vs B3.67\n", "b3_66"},
                                        {"# Report\n\nabout B3.66\n", ""},
                                        {"# AB3.66 and B3.x\n", ""},
                                        {"PROMPT | B3.66\n-----\np | 1\n", ""},
                                        {"", ""}};
  for (const TitleCase& c : cases) {
    SCOPED_TRACE(c.text.substr(0, 80));
    EXPECT_EQ(read_document(c.text).experiment, c.experiment);
  }
}

TEST(Document, ReadsTitleDateAndCommit) {
  const Document d = read_document(
      "# B3.66 Drift Probe\n\n**Date / Fecha**: 2026-02-07  \n**Commit**: `56b755a`\n"
      "**Date:** 2026-02-08\n");
  EXPECT_EQ(d.title, "B3.66 Drift Probe");
  EXPECT_EQ(d.date, "2026-02-07");
  EXPECT_EQ(d.commit, "56b755a");
  EXPECT_TRUE(d.valid_utf8);
}

struct CommitCase {
  std::string text, commit;
};
TEST(Document, CommitsAreFound) {
  const std::vector<CommitCase> cases = {
      {"- **Hash**: 99d60d5\n", "99d60d5"},
      {"Commit: e09989c B3.63: D2H fix (13 copies)\n", "e09989c"},
      {"## Commit Hash del Binary\n`3c6a4bd` - B3.64 DIAG\n", "3c6a4bd"},
      {"## Commit Hash\n\n0123456789abcdef0123456789abcdef01234567\n",
       "0123456789abcdef0123456789abcdef01234567"},
      {"Hash: 4144761570523161186\n", ""},
      {"| **Hash** | 4144761 |\n|---|---|\n", ""},
      {"El binary con commit `3c6a4bd` incluye\n", ""},
      {"Commit: pending\n", ""}};
  for (const CommitCase& c : cases) {
    SCOPED_TRACE(c.text.substr(0, 80));
    EXPECT_EQ(read_document(c.text).commit, c.commit);
  }
}

struct ClaimCase {
  std::string text;
  Strings claims;
};
TEST(Document, ClaimsAreFound) {
  const std::vector<ClaimCase> cases = {
      {"**RESULT**: PASS - All tensors match\n", {"verdict=PASS@1"}},
      {"## Verdict: **FAIL** + ROOT_CAUSE: **ATTENTION_COMPUTATION_MISMATCH**\n",
       {"verdict=FAIL@1", "root_cause=ATTENTION_COMPUTATION_MISMATCH@1"}},
      {"**Global Verdict:** INCONCLUSIVE - No conclusive results\n", {"verdict=INCONCLUSIVE@1"}},
      {"## Global Verdict\n\n**PASS**\n", {"verdict=PASS@3"}},
      {"====\n  VERDICT\n====\n\nVERDICT: BLOCKED\n", {"verdict=BLOCKED@5"}},
      {"**Veredicto Final:** NOT_REPRODUCED\n", {"verdict=NOT_REPRODUCED@1"}},
      {"- **Veredicto**: **PASS_32K_FEASIBLE**. El motor\n", {"verdict=PASS_32K_FEASIBLE@1"}},
      {"**Status / Estado**: PREPARED\n", {"status=PREPARED@1"}},
      {"STATUS: OK \xe2\x9c\x93\n", {"status=OK@1"}},
      {"Result: \xe2\x9d\x8c FAIL\n", {"verdict=FAIL@1"}},
      {"conclusion: B\n", {"conclusion=B@1"}},
      {"ROOT_CAUSE: El fix B3.63 resuelve\n", {"root_cause=@1"}},
      {"## FIRST_FAIL\n- **Location**: remote\n", {"first_fail=@2"}},
      {"## Conclusion\n\n**ROOT_CAUSE**: TBD\n", {}},
      {"## Verdict\n\n| a | b |\n|---|---|\n", {}},
      {"## Verdict\n", {}},
      {"Expected outcome: FAIL\n", {}},
      {"```\n- Status: PASS | KV_MISMATCH\n```\n", {}},
      {"| Status: PASS | x |\n|---|---|\n| Status: FAIL | y |\n", {}}};
  for (const ClaimCase& c : cases) {
    SCOPED_TRACE(c.text.substr(0, 80));
    EXPECT_EQ(claims_of(c.text), c.claims);
  }
}

TEST(Document, ClaimKeepsItsText) {
  const Document d = read_document("**RESULT**: PASS - All **tensors** match\n");
  EXPECT_EQ(d.claims.at(0).text, "PASS - All tensors match");
}

TEST(Document, CountsComeFromLinesAndMetricTables) {
  const Document lines = read_document(
      "**Total Pairs**: 48\n**Pass**: 6\n**Fail**: 42 (87.5%)\n**Missing Pairs**: 0\n"
      "- PASS_EQUIV: 1,018\n**Pass**: 7\nFail: many\nTime: 3\n");
  EXPECT_EQ(
      lines.counts,
      (std::map<std::string, int64_t>{
          {"total_pairs", 48}, {"pass", 6}, {"fail", 42}, {"missing", 0}, {"pass_equiv", 1018}}));
  const Document table = read_document(
      "| Metric | Value |\n|---|---|\n| **Total Pairs** | 48 |\n| **Pass** | 6 (12.5%) |\n"
      "| Fail | 42.5 |\n");
  EXPECT_EQ(table.counts, (std::map<std::string, int64_t>{{"total_pairs", 48}, {"pass", 6}}));
  const Document other = read_document("| Metric | Threshold |\n|---|---|\n| Pass | 6 |\n");
  EXPECT_TRUE(other.counts.empty());
}

TEST(Document, APassWithinRoundingSaysSo) {
  const auto value_of = [](const std::string& text) {
    const Document d = read_document(text);
    return d.claims.empty() ? "" : d.claims[0].value;
  };
  EXPECT_EQ(value_of("## Verdict: **PASS** within rounding\n"), kPassWithinRounding);
  EXPECT_EQ(value_of("**RESULTADO**: PASS dentro del redondeo; estrictamente FAIL\n"),
            kPassWithinRounding);
  EXPECT_EQ(value_of("**RESULT**: PASS, all within rounding\n"), "PASS");
  EXPECT_EQ(value_of("**RESULT**: FAIL though within rounding\n"), "FAIL");
}

TEST(Document, ObjectsOfOneLineAreLinesAndExcerptsAreNot) {
  const Document d = read_document(
      "{\"outside\":1}\n```\n{\"phase\":\"prefill_last\",\"step\":0}\r\n  {\"phase\":\"decode0\"}  "
      "\n"
      "```\n```json\n{\n  \"event\": \"stage_trace\",\n  \"layer\": 0\n}\n```\n~~~\n{} \n");
  ASSERT_EQ(d.json_lines.size(), 4u);
  EXPECT_EQ(d.json_lines[0].text, "{\"outside\":1}");
  EXPECT_EQ(d.json_lines[1].line, 3);
  EXPECT_EQ(d.json_lines[1].text, "{\"phase\":\"prefill_last\",\"step\":0}");
  EXPECT_EQ(d.json_lines[2].text, "{\"phase\":\"decode0\"}");
  EXPECT_EQ(d.json_lines[3].text, "{}");
}

TEST(Document, PromptNamesComeFromTheFirstPromptTable) {
  const Document d = read_document(
      "| Test | x |\n|---|---|\n| A | 1 |\n\n| Prompt | top1 |\n|---|---:|\n| p4_sys | 79 |\n"
      "| p5_ba  | 79 |\n| p4_sys | 1 |\n\n| Prompt | top1 |\n|---|---|\n| p9 | 1 |\n");
  EXPECT_EQ(d.prompt_names, (Strings{"p4_sys", "p5_ba"}));
  EXPECT_EQ(d.tables.size(), 3u);
}

TEST(Document, ATemplateIsNoPair) {
  const Document d = read_document(
      "# B3.66\n| PROMPT | LAYER | FIRST_FAIL |\n|---|---|---|\n| TBD | TBD | TBD |\n");
  ASSERT_EQ(d.tables.size(), 1u);
  EXPECT_TRUE(report_pairs(d.tables[0]).value().empty());
  EXPECT_TRUE(d.prompt_names.empty());
}

TEST(Document, BomCrlfAndInvalidBytes) {
  const Document d = read_document("\xef\xbb\xbf# B3.7 Summary\r\nDate: 2026-02-03\r\n\xc6\r\n");
  EXPECT_EQ(d.title, "B3.7 Summary");
  EXPECT_EQ(d.date, "2026-02-03");
  EXPECT_FALSE(d.valid_utf8);
  EXPECT_EQ(read_document("Date: 2026-13-03\n").date, "");
}

TEST(DocumentHostile, AnyBytesAreReadInLinearTime) {
  const size_t n = 1 << 20;
  for (const char c : {'|', '"', '[', '{', '#', '`', '-', '=', '*', ':', '+', 'A', '\0', '\xff'}) {
    read_document(std::string(n, c));
  }
  for (const std::string& piece :
       Strings{"## Verdict\n", "Verdict: A + ", "B3.", "B3-1 ", "```\n", "a|b\n---\n", "====\nx\n",
               "Commit: ", "1. ", "Date: 2026-"}) {
    std::string text;
    while (text.size() < n) text += piece;
    read_document(text);
  }
}

}  // namespace
}  // namespace greta
