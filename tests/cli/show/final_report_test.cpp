#include <algorithm>

#include "cli/show/report.h"
#include "db/judge.h"
#include "ingest/document.h"
#include "ingest/report_pairs.h"
#include "ingest/table.h"
#include "tests/cli/program.h"
#include "tests/cli/show/report_rows.h"

namespace greta {
namespace {

using testing::Test;

std::string markdown(Warehouse& warehouse, const std::string& runs,
                     Language language = Language::kEnglish) {
  judge_rest(warehouse.db);
  std::string text;
  QueryPool statements(warehouse.db);
  print_markdown(final_report(statements, resolve_runs(warehouse.db, runs), Wording(language)),
                 [&](std::string_view piece) { text += piece; });
  return text;
}

std::string analysis_table(Warehouse& warehouse, const std::string& run) {
  std::string text;
  QueryPool statements(warehouse.db);
  write_analysis_table(statements, resolve_run(warehouse.db, run),
                       [&](std::string_view piece) { text += piece; });
  return text;
}

/// Q, K, V, cache, scores and output of one layer, all of which match but K and V where they drift.
void add_attention(Warehouse& warehouse, int64_t layer, bool kv_drifts) {
  for (const char* tensor : {"q_post_rope", "k_cache", "v_cache", "attn_scores", "attn_probs"}) {
    warehouse.match(tensor, layer);
  }
  for (const char* tensor : {"k_post_rope", "v_proj"}) {
    if (kv_drifts) {
      warehouse.rounding(tensor, layer);
    } else {
      warehouse.match(tensor, layer);
    }
  }
}

TEST(Report, B366HasTheFiguresOfItsAnalysis) {
  Warehouse warehouse;
  add_b3_66(warehouse);
  std::string text = markdown(warehouse, "b3_66");
  expect_parts(
      text,
      {"# b3_66 Final Report - Prefill vs Decode Drift Analysis\n",
       "## Verdict: **FAIL** + ROOT_CAUSE: **ATTENTION_COMPUTATION_MISMATCH**\n",
       "| **Total Pairs** | 48 |\n| **Pass** | 6 (12.50%) |\n| **Fail** | 42 (87.50%) |\n",
       "| ATTN_OUT_DRIFT | 15 | 31.25% |\n| MLP_OUT_DRIFT | 15 | 31.25% |\n"
       "| X_IN_DRIFT | 12 | 25.00% |\n",
       "`attn_out` tensor, Layer 0, Prompt `p0_short`",
       "| PROMPT | TOKEN_ID | POS_ID | LAYER | TENSOR | FIRST_FAIL | ROOT_CAUSE | DETAILS |",
       "The trace rows are not recorded"},
      {"KV Alignment"});
}

TEST(Report, LayersThatBehaveAlikeAreOneBranchOfTheTree) {
  Warehouse warehouse;
  add_b3_66(warehouse);
  std::string text = markdown(warehouse, "b3_66");
  expect_parts(text, {"**Prompt**: `p0_short`, `p6_len_16`, `p6_len_32`  \n",
                      "  ├── embed_out: ✓ MATCH (identical in what was compared)\n"
                      "  ├── x_in: ✓ MATCH (identical in what was compared)\n"
                      "  ├── attn_out: ✗ DRIFT (origin: its nearest traced inputs match)\n"
                      "  └── mlp_out: ✗ DRIFT (propagated from attn_out)\n",
                      "Layers 2, 4, 8:\n  ├── x_in: ✗ DRIFT (propagated from x_in of the previous "
                      "traced layer)\n"});
}

TEST(Report, AConflictIsNoMatchInItsBranch) {
  Warehouse warehouse;
  warehouse.match("attn_out", 0);
  warehouse.db.exec("UPDATE trace_row SET min = side, max = 1 + side");
  ASSERT_EQ(warehouse.rows("SELECT status FROM pair"), "CONFLICT");
  const std::string text = markdown(warehouse, "r");
  EXPECT_TRUE(has(text, "attn_out: ✗ CONFLICT")) << text;
}

TEST(Report, FirstFailureShowsBothRowsAsTraced) {
  Warehouse warehouse;
  warehouse.match("x_in", 0);
  warehouse.add(prefill("attn_out", 0, 9223372036854775808u).sketched({2, 0, 0, 0}),
                decode("attn_out", 0, 18446744073709551615u).sketched({1, 0, 0, 0}));
  std::string text = markdown(warehouse, "r");
  expect_parts(text,
               {"| Metric | Prefill (step=0) | Decode (step=1) |",
                "| **Hash** | 9223372036854775808 | 18446744073709551615 |",
                "### prefill_last - attn_out, Layer 0 (p0)", "\"hash\": 18446744073709551615,",
                "It is larger than rounding: relative L2"});
  size_t json = text.find("```json\n") + 8;
  nlohmann::json row = nlohmann::json::parse(text.substr(json, text.find("```", json) - json));
  EXPECT_EQ(row["hash"], 9223372036854775808u);
  EXPECT_EQ(row["point"], "attn_out");
}

TEST(Report, MissingPartnerIsShownWhereTheOtherSideHasIt) {
  Warehouse warehouse;
  warehouse.add(prefill("attn_out", 0, 1), decode("attn_out", 0, 1).at(38));
  std::string text = markdown(warehouse, "r");
  expect_parts(text, {"ROOT_CAUSE: **PAIRING_MISMATCH**", "no row here", "at positions 38 to 38"});
}

TEST(Report, NoEvidenceSaysSoAndWhy) {
  Warehouse warehouse;
  warehouse.run();
  for (Language language : {Language::kEnglish, Language::kSpanish, Language::kBoth}) {
    std::string text = markdown(warehouse, "r", language);
    EXPECT_TRUE(has(text, "**NO_EVIDENCE**"));
    EXPECT_TRUE(has(text, "absence of evidence, not a PASS") ||
                has(text, "ausencia de evidencia, no un PASS"));
    expect_parts(text, {}, {"**PASS**", "TBD"});
  }
  EXPECT_EQ(analysis_table(warehouse, "r"),
            "PROMPT\tTOKEN_ID\tPOS_ID\tLAYER\tTENSOR\tFIRST_FAIL\tROOT_CAUSE\n");
}

TEST(Report, ReasonFollowsTheVerdict) {
  Warehouse warehouse;
  warehouse.run({.name = "unfinished", .status = "running"});
  warehouse.match("attn_out", 0);
  warehouse.run({.name = "undecided"});
  warehouse.incomparable("attn_out", 0);
  warehouse.run({.name = "offside"});
  warehouse.add(decode("attn_out", 0, 1));
  warehouse.run({.name = "good"});
  warehouse.match("attn_out", 0);
  EXPECT_TRUE(
      has(markdown(warehouse, "unfinished"), "The run did not finish: its status is running."));
  EXPECT_TRUE(has(markdown(warehouse, "undecided"), "1 of 1 pairs could not be decided"));
  EXPECT_TRUE(has(markdown(warehouse, "offside"),
                  "the 1 decode rows lie at positions where prefill was not traced"));
  EXPECT_TRUE(has(markdown(warehouse, "offside"), "Not listed: 1 decode-only rows"));
  EXPECT_TRUE(has(markdown(warehouse, "good"), "## Verdict: **PASS**\n"));
}

TEST(Report, RoundingBeforeABugSaysWhereTheBugIs) {
  Warehouse warehouse;
  warehouse.rounding("attn_out", 0);
  warehouse.divergent("mlp_out", 3);
  std::string text = markdown(warehouse, "r");
  expect_parts(text, {"Beyond rounding, the first is `mlp_out` at layer 3",
                      "**Start at the first difference beyond rounding**: `mlp_out`, layer 3"});
}

TEST(Report, RoundingAloneHasNoRootCause) {
  Warehouse warehouse;
  warehouse.run({.mode = "as_designed"});
  warehouse.match("x_in", 0);
  warehouse.rounding("attn_out", 0);
  std::string text = markdown(warehouse, "r");
  expect_parts(
      text,
      {"## Verdict: **PASS** (rounding only; bitwise equal: no, as expected in"
       " as_designed)\n",
       "Strict verdict: FAIL. The first pair that is not bitwise equal is"
       " `attn_out` (layer 0, prompt `p0`, position 37), as expected in"
       " `as_designed`",
       "| **Strict verdict** | FAIL |\n| **Numeric verdict** | PASS |"},
      {"**Decide which verdict counts**", "ROOT_CAUSE: ", "Root Cause Analysis", "masking"});
  EXPECT_TRUE(has(markdown(warehouse, "r", Language::kSpanish),
                  "## Veredicto: **PASS** (sólo redondeo; iguales bit a bit: no, como se espera"
                  " en as_designed)\n"));
  warehouse.run({.name = "invariant", .mode = "batch_invariant"});
  warehouse.rounding("attn_out", 0);
  const std::string invariant = markdown(warehouse, "invariant");
  expect_parts(invariant,
               {"## Verdict: **FAIL** though within rounding", "**Decide which verdict counts**"});
}

TEST(Report, AdviceBeginsAtWhatIsBeyondRoundingAndKeepsToIt) {
  Warehouse warehouse;
  warehouse.run({.mode = "as_designed"});
  warehouse.rounding("q_pre_rope", 0);
  warehouse.match("residual_pre_attn", 2);
  warehouse.divergent("attn_norm_out", 2);
  std::string text = markdown(warehouse, "r");
  expect_parts(text,
               {"## Verdict: **FAIL** beyond rounding + ROOT_CAUSE:"
                " **NORMALIZATION_MISMATCH**\n",
                "**Location**: `attn_norm_out` tensor, Layer 2, Prompt `p0`, Position 37",
                "\n1. **Start at the first difference beyond rounding**: `attn_norm_out`,"
                " layer 2"},
               {"Force one route", "batch_invariant"});
}

TEST(Report, AnOriginThatWasNotTracedIsNotBlamed) {
  Warehouse warehouse;
  warehouse.match("x_out", 4);
  warehouse.divergent("x_in", 8);
  std::string text = markdown(warehouse, "r");
  expect_parts(text, {"## Verdict: **FAIL**\n",
                      "**Trace what was not traced**: `greta-infer probe … --layers 5,6,7`",
                      "x_in: ✗ DRIFT DIVERGENT (layers 5,6,7 before it were not traced)"});
}

TEST(Report, PositionsOfATensorAreCountedInItsBranch) {
  Warehouse warehouse;
  for (int64_t pos : {5, 6, 7}) {
    warehouse.add(prefill("attn_out", 0, 1).at(pos),
                  decode("attn_out", 0, pos == 6 ? 2 : 1).at(pos));
  }
  EXPECT_TRUE(has(markdown(warehouse, "r"),
                  "└── attn_out: ✗ DRIFT (none of its inputs was traced), 1 of 3 positions"));
}

TEST(Report, BothModesShowKvSectionsSideBySide) {
  Warehouse warehouse;
  for (const char* mode : {"as_designed", "kv_aligned"}) {
    bool designed = std::string_view(mode) == "as_designed";
    warehouse.run({.name = std::string("2026-02-07/b3_66_v2/") + mode,
                   .experiment = "b3_66_v2",
                   .mode = mode,
                   .date = "2026-02-07"});
    for (const char* prompt : {"p0_short", "p6_len_16"}) {
      warehouse.use_prompt(prompt);
      add_attention(warehouse, 0, true);
      if (designed) {
        warehouse.divergent("attn_out", 0);
      } else {
        warehouse.rounding("attn_out", 0);
      }
    }
  }
  std::string text = markdown(warehouse, "b3_66_v2");
  expect_parts(
      text,
      {"## Results by Mode\n", "| as_designed | 2026-02-07/b3_66_v2/as_designed | **FAIL** |",
       "2 REAL_MISMATCH", "| 2 PASS | 2 STRUCTURAL_DRIFT |", "### KV Alignment Indicators\n",
       "| K hash consistency | 0 of 2 match | May vary across prompts | Should be consistent |",
       "| 0 | 2 | 0 of 2 match | 0 of 2 match | 2 of 2 match | 2 of 2 match | consistent |",
       "| before softmax | prefill_last |", "| after softmax | decode0 |", "| **✔ 2 of 2 rows** |",
       "H₀ does not hold: 2 of 2 rows", "Nothing speaks against H₀: none of the 2 rows",
       "**kv_aligned**: decode attends over exactly the K/V rows that prefill wrote"},
      {"TBD"});
  EXPECT_TRUE(has(markdown(warehouse, "2026-02-07/b3_66_v2/kv_aligned"), "## Results by Mode\n"))
      << "one run is shown beside the other mode of its experiment and date";
}

TEST(Report, KvRowsThatAreNotThereAreUnknown) {
  Warehouse warehouse;
  warehouse.run({.mode = "kv_aligned"});
  warehouse.match("k_post_rope", 0);
  std::string text = markdown(warehouse, "r");
  expect_parts(text, {"Undecided: 1 of 1 rows are UNKNOWN", "not comparable",
                      "no attn_scores or attn_probs rows", "(KV_MISMATCH)"});
}

TEST(Report, AdviceFollowsTheStageThatDiffersFirst) {
  Warehouse warehouse;
  warehouse.run({.name = "it's"});
  warehouse.match("x_in", 0);
  warehouse.drift("v_proj", 0);
  std::string text = markdown(warehouse, "it's");
  expect_parts(
      text,
      {"**Force one route for the q, k and v projections**",
       "**Trace the direct inputs** of `v_proj` (layer 0): `attn_norm_out`.", "**Run both modes**"},
      {"masking"});
  warehouse.run({.name = "it's missing"});
  warehouse.add(prefill("attn_out", 0, 1));
  EXPECT_TRUE(has(markdown(warehouse, "it's missing"),
                  "`greta-db pairs --run 'it'\\''s missing' --status MISSING`"));
}

TEST(Report, LmHeadNamesTheRouteThatTheCpuContradicts) {
  Warehouse warehouse;
  warehouse.run({.name = "2026-02-03/b3_13"});
  std::string source = std::to_string(warehouse.trace_source());
  for (const char* prompt : {"p4_sys", "p5_ba"}) {
    std::string key =
        "INSERT INTO readout(run_id, prompt_id, side, step, pos_id, name_id, top1_id, gap,"
        " route, cpu_agrees, source_id, line) SELECT 1, " +
        std::to_string(warehouse.prompt_id(prompt)) + ", ";
    std::string from = ", " + source + ", 1 FROM tensor_name WHERE name = 'logits'";
    warehouse.db.exec(key + "0, 0, 204, id, 79, 0.993584, 'MFMA', 0" + from);
    warehouse.db.exec(key + "1, 1, 205, id, 96965, 1.41033, 'VALU', 1" + from);
  }
  std::string text = markdown(warehouse, "b3_13");
  expect_parts(text, {"| p4_sys | 79 | 96965 | 0.9936 | 1.4103 | MFMA → VALU | no, yes | MFMA |",
                      "contradicts the top-1 of MFMA and of no other route (2 of 2 prompts)"});
}

TEST(Report, ClaimsOfDocumentsAreListedAndChangeNothing) {
  Warehouse warehouse;
  add_b3_66(warehouse);
  int64_t other = warehouse.report("a/2026-02-07/b3_66/v3|x.txt", 3, {});
  warehouse.claim(other, 10, "PASS");
  std::string text = markdown(warehouse, "b3_66");
  expect_parts(text, {"## Verdict: **FAIL**",
                      "| a/2026-02-07/b3_66/v3\\|x.txt | PASS (line 10) | FAIL | 0, 0, 0 |"});
}

TEST(Report, BothLanguagesStandSideBySide) {
  Warehouse warehouse;
  add_b3_66(warehouse);
  std::string text = markdown(warehouse, "b3_66", Language::kBoth);
  expect_parts(text,
               {"## Verdict / Veredicto: **FAIL**", "**Date / Fecha**: 2026-02-07", "**(ES)**",
                "Investigate the attention masking logic", "Investigar la máscara de atención"});
  std::string spanish = markdown(warehouse, "b3_66", Language::kSpanish);
  expect_parts(spanish, {"## Veredicto: **FAIL**"}, {"Investigate"});
}

TEST(Report, OurOwnDocumentReadsBackAsTheSameReport) {
  Warehouse warehouse;
  add_b3_66(warehouse);
  for (Language language : {Language::kEnglish, Language::kSpanish, Language::kBoth}) {
    std::string text = markdown(warehouse, "b3_66", language);
    Document document = read_document(text);
    EXPECT_EQ(document.experiment, "b3_66");
    EXPECT_EQ(document.date, "2026-02-07");
    size_t tables = 0;
    for (const Table& table : document.tables) {
      auto pairs = report_pairs(table);
      if (!pairs) continue;
      tables++;
      EXPECT_EQ(pairs->size(), 48u);
    }
    EXPECT_EQ(tables, 1u) << "no other table may read as one of verdicts";
    ASSERT_FALSE(document.claims.empty());
    EXPECT_EQ(document.claims[0].kind, "verdict");
    EXPECT_EQ(document.claims[0].value, "FAIL");
    EXPECT_TRUE(document.json_lines.empty());
  }
}

TEST(Report, OfAHealthyRunItReadsBackAsAPassWithinRounding) {
  Warehouse warehouse;
  warehouse.run({.mode = "as_designed"});
  warehouse.rounding("attn_out", 0);
  for (Language language : {Language::kEnglish, Language::kSpanish, Language::kBoth}) {
    int verdicts = 0;
    for (const DocumentClaim& claim : read_document(markdown(warehouse, "r", language)).claims) {
      if (claim.kind != "verdict" || claim.value.empty()) continue;
      ++verdicts;
      EXPECT_EQ(claim.value, kPassWithinRounding) << claim.text;
    }
    EXPECT_GT(verdicts, 0);
  }
}

TEST(Report, AnalysisTableReadsBackWithTheSameCounts) {
  Warehouse warehouse;
  add_b3_66(warehouse);
  std::string text = analysis_table(warehouse, "b3_66");
  expect_parts(text, {"\np0_short\t\t\t0\tembed_out\t\t\n"}, {"\r"});
  auto pairs = report_pairs(read_delimited(text, '\t'));
  ASSERT_TRUE(pairs);
  auto count = [&](ReportPair::Status status) {
    return std::count_if(pairs->begin(), pairs->end(),
                         [=](auto& pair) { return pair.status == status; });
  };
  EXPECT_EQ(pairs->size(), 48u);
  EXPECT_EQ(count(ReportPair::kMatch), 6);
  EXPECT_EQ(count(ReportPair::kDrift), 42);
}

TEST(Report, AnalysisTableNeverTurnsAnUndecidedRowIntoAMatch) {
  Warehouse warehouse;
  warehouse.incomparable("attn_out", 0);
  warehouse.add(prefill("mlp_out", 0, 1), decode("x_in", 0, 1).at(90));
  auto pairs = report_pairs(read_delimited(analysis_table(warehouse, "r"), '\t'));
  ASSERT_TRUE(pairs);
  ASSERT_EQ(pairs->size(), 2u);
  EXPECT_EQ((*pairs)[0].cause, "INCOMPARABLE");
  EXPECT_EQ((*pairs)[1].status, ReportPair::kMissing);
}

TEST(Report, HostileNamesStayInTheirCells) {
  Warehouse warehouse;
  const std::string name = "p|0\n## Verdict: **PASS**\t\x1b[31m`<b>\\";
  warehouse.run({.name = name, .experiment = "../e\n|x"});
  warehouse.use_prompt(name);
  warehouse.drift("attn|out\n```\n# PASS", 0);
  warehouse.use_prompt("\"quoted\ttab");
  warehouse.match("attn_out", 0);
  for (Language language : {Language::kEnglish, Language::kBoth}) {
    std::string text = markdown(warehouse, name, language);
    expect_parts(text, {}, {"\x1b", "\n## Verdict: **PASS**", "\n# PASS"});
    for (const Table& table : read_document(text).tables) {
      for (const TableRow& row : table.rows) EXPECT_EQ(row.cells.size(), table.columns.size());
    }
  }
  auto pairs = report_pairs(read_delimited(analysis_table(warehouse, name), '\t'));
  ASSERT_TRUE(pairs);
  EXPECT_EQ(pairs->size(), 2u);
  EXPECT_EQ((*pairs)[1].prompt, "\"quoted\\ttab");
}

}  // namespace
}  // namespace greta
