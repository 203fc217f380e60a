// Runs of which only reports are left: verdict tables as evidence, claims as claims.
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

/// The 48-pair table of B3.66, as its documents print it.
std::vector<ReportRow> b3_66_table() {
  std::vector<ReportRow> rows;
  for (const auto& [prompt, pos] :
       {std::pair{"p0_short", 37}, {"p6_len_16", 38}, {"p6_len_32", 38}}) {
    const auto add = [&, name = std::string(prompt)](int layer, const char* tensor,
                                                     const char* cause) {
      const bool has_place = tensor != std::string("attn_out") && tensor != std::string("mlp_out");
      ReportRow& row = rows.emplace_back(
          ReportRow{.prompt = name, .layer = layer, .tensor = tensor, .status = "MATCH"});
      if (*cause != '\0') row.status = "DRIFT", row.cause = cause;
      if (tensor == std::string("attn_out")) row.details = "{'hash_mismatch': True}";
      if (has_place) row.token_id = 116, row.pos_id = pos;
    };
    add(0, "embed_out", "");
    for (int layer : {0, 1, 2, 4, 8}) {
      add(layer, "x_in", layer == 0 ? "" : "X_IN_DRIFT");
      add(layer, "attn_out", "ATTN_OUT_DRIFT");
      add(layer, "mlp_out", "MLP_OUT_DRIFT");
    }
  }
  return rows;
}

constexpr int64_t kFinal = 1000000;

using Report = WarehouseTest;

TEST_F(Report, B366IsFailWithItsFiguresFromTheTableAlone) {
  w.run({.name = "2026-02-07/b3_66", .experiment = "b3_66", .date = "2026-02-07"});
  w.report("b3_66_final.tsv", kFinal, b3_66_table());
  EXPECT_EQ(
      w.rows("SELECT run, experiment, mode, date, evidence, verdict, numeric_verdict, coverage,"
             " pairs, pass, fail, missing, decode_only, incomparable, prompt, layer, tensor,"
             " first_fail, root_cause, numeric_first_fail FROM run_verdict"),
      "2026-02-07/b3_66|b3_66|-|2026-02-07|report|FAIL|NO_EVIDENCE|undeclared|48|6|42|0|0|0|"
      "p0_short|0|attn_out|ATTN_OUT_DRIFT|ATTENTION_COMPUTATION_MISMATCH|-");
  EXPECT_EQ(w.rows("SELECT cause, count, printf('%.2f', percent) FROM failure_breakdown"),
            "ATTN_OUT_DRIFT|15|31.25\nMLP_OUT_DRIFT|15|31.25\nX_IN_DRIFT|12|25.00");
  EXPECT_EQ(
      w.rows("SELECT prompt, token_id, pos_id, layer, tensor, first_fail, root_cause, details,"
             " first_drift_layer, first_drift_tensor, first_drift_cause, numeric_first_fail,"
             " evidence FROM first_fail ORDER BY prompt_id LIMIT 1"),
      "p0_short|-|-|0|attn_out|ATTN_OUT_DRIFT|ATTENTION_COMPUTATION_MISMATCH|"
      "{'hash_mismatch': True}|0|attn_out|ATTN_OUT_DRIFT|-|report");
  EXPECT_EQ(w.rows("SELECT count(*), count(DISTINCT prompt) FROM first_fail"), "3|3");
  EXPECT_EQ(w.rows("SELECT verdict, first_fail, layer, tensor, prompt FROM history"),
            "FAIL|ATTN_OUT_DRIFT|0|attn_out|p0_short");
  EXPECT_EQ(w.rows("SELECT * FROM report_conflict"), "");
}

TEST_F(Report, PairsShowTheTable) {
  w.report("final.tsv", kFinal, b3_66_table());
  EXPECT_EQ(
      w.rows("SELECT token_id, pos_id, layer, tensor, canonical_tensor, status, class, origin,"
             " inputs_complete, scope, cause, prefill_hash, evidence FROM pair"
             " WHERE prompt = 'p0_short' AND layer < 2 ORDER BY layer, tensor_id"),
      "116|37|0|embed_out|embed_out|MATCH|-|-|0|-|-|-|report\n"
      "116|37|0|x_in|residual_pre_attn|MATCH|-|-|0|-|-|-|report\n"
      "-|-|0|attn_out|attn_out|DRIFT|UNKNOWN|ORIGIN|0|-|ATTN_OUT_DRIFT|-|report\n"
      "-|-|0|mlp_out|mlp_out|DRIFT|UNKNOWN|PROPAGATED|0|-|MLP_OUT_DRIFT|-|report\n"
      "116|37|1|x_in|residual_pre_attn|DRIFT|UNKNOWN|PROPAGATED|0|-|X_IN_DRIFT|-|report\n"
      "-|-|1|attn_out|attn_out|DRIFT|UNKNOWN|PROPAGATED|0|-|ATTN_OUT_DRIFT|-|report\n"
      "-|-|1|mlp_out|mlp_out|DRIFT|UNKNOWN|PROPAGATED|0|-|MLP_OUT_DRIFT|-|report");
  EXPECT_EQ(w.rows("SELECT tensor, layer, caused_by FROM propagation WHERE prompt = 'p0_short' AND"
                   " origin = 'PROPAGATED' AND layer IN (0, 4)"),
            "mlp_out|0|attn_out@0\nx_in|4|residual_pre_attn@2\nattn_out|4|residual_pre_attn@4\n"
            "mlp_out|4|residual_pre_attn@4");
}

TEST_F(Report, CauseComesFromTheTensorWhereTheTableNamesNone) {
  w.report("final.tsv", kFinal,
           {{.prompt = "p0", .layer = 2, .tensor = "ffn_norm", .status = "DRIFT"}});
  EXPECT_EQ(w.rows("SELECT cause, root_cause FROM pair"), "FFN_NORM_DRIFT|NORMALIZATION_MISMATCH");
  EXPECT_EQ(w.rows("SELECT first_fail FROM run_verdict"), "FFN_NORM_DRIFT");
}

TEST_F(Report, MissingRowsAreTraceOffset) {
  std::vector<ReportRow> rows(96, {.prompt = "p0", .status = "MISSING", .pos_id = 37});
  w.report("analysis_v2.tsv", 2, rows);
  EXPECT_EQ(
      w.rows("SELECT evidence, verdict, numeric_verdict, pairs, missing, first_fail, layer, tensor"
             " FROM run_verdict"),
      "report|FAIL|FAIL|0|96|TRACE_OFFSET|-|-");
  EXPECT_EQ(w.rows("SELECT layer, tensor, pos_id, first_fail FROM first_fail"),
            "-|-|37|TRACE_OFFSET");
}

TEST_F(Report, ATableOfMatchesIsNoEvidence) {
  w.report("final.tsv", kFinal,
           {{.prompt = "p0", .layer = 0, .tensor = "x_in", .status = "MATCH"}});
  EXPECT_EQ(w.rows("SELECT evidence, verdict, numeric_verdict, pairs FROM run_verdict"),
            "report|NO_EVIDENCE|NO_EVIDENCE|1");
}

TEST_F(Report, AnEmptyTableIsNoEvidenceWhateverItClaims) {
  w.claim(w.report("analysis_v3.tsv", 3, {}), 7, "PASS");
  EXPECT_EQ(w.rows("SELECT evidence, verdict, numeric_verdict FROM run_verdict"),
            "none|NO_EVIDENCE|NO_EVIDENCE");
  EXPECT_EQ(w.rows("SELECT report_file, claimed, verdict, evidence, pairs, pass, fail, missing,"
                   " conflict, claim_line, claim_text FROM report_conflict"),
            "analysis_v3.tsv|PASS|NO_EVIDENCE|none|0|0|0|0|claims PASS without a decided "
            "pair|7|RESULT: PASS");
}

TEST_F(Report, TracesOutweighReportsButDoNotPassAgainstThem) {
  w.match("attn_out", 0);
  w.claim(w.report("final.tsv", kFinal, b3_66_table()), 3, "FAIL");
  EXPECT_EQ(w.rows("SELECT evidence, verdict, pairs FROM run_verdict"), "trace|INCOMPARABLE|1");
  EXPECT_EQ(w.rows("SELECT count(*) FROM pair WHERE evidence = 'report'"), "0");
  EXPECT_EQ(w.rows("SELECT report_file, claimed, verdict, evidence, pairs, fail, conflict FROM"
                   " report_conflict"),
            "final.tsv|FAIL|INCOMPARABLE|trace|48|42|claims another verdict");
}

std::string evidence_file(Warehouse& w) {
  return w.rows(
      "SELECT (SELECT path FROM source_location l WHERE l.source_id = e.report_source_id)"
      " FROM run_state e");
}

std::vector<ReportRow> rows_of(size_t decided, size_t missing) {
  std::vector<ReportRow> rows(decided,
                              {.prompt = "p0", .layer = 0, .tensor = "x_in", .status = "MATCH"});
  rows.resize(decided + missing,
              {.prompt = "p0", .layer = 0, .tensor = "x_in", .status = "MISSING"});
  return rows;
}

TEST_F(Report, TheTableWithMostDecidedPairsIsTheEvidence) {
  w.report("final.tsv", kFinal, rows_of(3, 50));
  w.report("v2.tsv", 2, rows_of(4, 0));
  w.report("v1.tsv", 1, rows_of(0, 99));
  EXPECT_EQ(evidence_file(w), "v2.tsv");
  EXPECT_EQ(w.rows("SELECT pairs, missing FROM run_verdict"), "4|0");
}

TEST_F(Report, TiesGoToTheLatestStage) {
  w.report("v2.tsv", 2, rows_of(4, 0));
  w.report("v10.tsv", 10, rows_of(4, 0));
  w.report("plain.txt", 0, rows_of(4, 0));
  EXPECT_EQ(evidence_file(w), "v10.tsv");
  w.report("a_final.tsv", kFinal, rows_of(4, 2));
  EXPECT_EQ(evidence_file(w), "a_final.tsv");
}

TEST_F(Report, OneTableThatListsADriftCountsHoweverManyDoNot) {
  w.report("v1.tsv", 1, {{.prompt = "p0", .layer = 0, .tensor = "x_in", .status = "DRIFT"}});
  w.report("v2.tsv", 2, rows_of(2, 0));
  w.report("final.tsv", kFinal, rows_of(9, 0));
  EXPECT_EQ(w.rows("SELECT verdict, pairs, fail FROM run_verdict"), "FAIL|1|1");
  EXPECT_EQ(w.rows("SELECT count(*) FROM pair"), "1");  // tables are never merged
}

using ReportConflict = WarehouseTest;

TEST_F(ReportConflict, TheOtherTablesAndWhatTheyClaim) {
  w.report("b3_66_final.tsv", kFinal, b3_66_table());
  const int64_t v2 = w.report("b3_66_v2.txt", 2, rows_of(0, 96));
  w.claim(v2, 5, "PASS");
  const int64_t v3 = w.report("b3_66_v3.txt", 3, {});
  w.claim(v3, 5, "PASS");
  w.claim(w.report("b3_66_final.txt", kFinal, b3_66_table()), 10, "INCONCLUSIVE");
  w.claim(w.report("b3_66.md", 0, {}), 10, "FAIL");
  w.report("b3_66_v4.tsv", 4, rows_of(1, 0));
  w.report("b3_66_v5.tsv", 5, rows_of(0, 3));
  w.report("b3_66_v6.tsv", 6, {});
  EXPECT_EQ(
      w.rows("SELECT report_file, claimed, verdict, pairs, missing, conflict FROM report_conflict"
             " ORDER BY report_file"),
      "b3_66.md|FAIL|FAIL|0|0|agrees, but is not the evidence\n"
      "b3_66_final.txt|INCONCLUSIVE|FAIL|48|0|undecided where the rows decide\n"
      "b3_66_v2.txt|PASS|FAIL|0|96|claims PASS without a decided pair\n"
      "b3_66_v3.txt|PASS|FAIL|0|0|claims PASS without a decided pair\n"
      "b3_66_v4.tsv|-|FAIL|1|0|another table is the evidence\n"
      "b3_66_v5.tsv|-|FAIL|0|3|its table pairs nothing\n"
      "b3_66_v6.tsv|-|FAIL|0|0|its table is empty");
}

TEST_F(ReportConflict, TheEvidenceItselfShowsOnlyWhenItClaimsAnotherVerdict) {
  const int64_t source = w.report("final.txt", kFinal, b3_66_table());
  EXPECT_EQ(w.rows("SELECT * FROM report_conflict"), "");
  w.claim(source, 9, "FAIL");
  EXPECT_EQ(w.rows("SELECT * FROM report_conflict"), "");
  w.claim(source, 12, "PASS");  // whatever it says elsewhere
  EXPECT_EQ(w.rows("SELECT claimed, verdict, conflict, claim_line FROM report_conflict"),
            "PASS|FAIL|claims PASS|12");
}

TEST_F(ReportConflict, AQualifiedPassAgreesWithPass) {
  w.match("x_in", 0);
  w.claim(w.report("final.txt", kFinal, rows_of(1, 0)), 1, "PASS_GUARDRAIL");
  EXPECT_EQ(w.rows("SELECT verdict, conflict FROM report_conflict"),
            "PASS|agrees, but is not the evidence");
}

TEST_F(ReportConflict, APassWithinRoundingIsHeldAgainstTheNumericVerdict) {
  const std::string conflict =
      "SELECT run, claimed, verdict, conflict FROM report_conflict WHERE run = ";
  w.run({.name = "rounding"});
  w.rounding("x_in", 0);
  w.claim(w.report("own.md", 0, rows_of(1, 0)), 1, "PASS_WITHIN_ROUNDING");
  EXPECT_EQ(w.rows(conflict + "'rounding'"),
            "rounding|PASS_WITHIN_ROUNDING|FAIL|agrees with the numeric verdict, but is not the"
            " evidence");
  w.run({.name = "beyond"});
  w.divergent("x_in", 0);
  w.claim(w.report("other.md", 0, rows_of(1, 0)), 1, "PASS_WITHIN_ROUNDING");
  EXPECT_EQ(w.rows(conflict + "'beyond'"), "beyond|PASS_WITHIN_ROUNDING|FAIL|claims PASS");
}

TEST_F(ReportConflict, ClaimWithoutATableIsShown) {
  w.run();
  w.claim(w.add_source("summary.json", "summary"), 4, "PASS_GUARDRAIL");
  EXPECT_EQ(w.rows("SELECT report_file, claimed, verdict, evidence, conflict FROM report_conflict"),
            "summary.json|PASS_GUARDRAIL|NO_EVIDENCE|none|claims PASS without a decided pair");
}

TEST_F(ReportConflict, ClaimAboutADirectoryLevelIsNotLost) {
  w.run({.name = "2026-02-07/b3_67"});
  w.claim(w.add_source("2026-02-07/b3_67/summary.json", "summary"), 4, "PASS_GUARDRAIL_LOCAL");
  w.run({.name = "2026-02-07/b3_67/seed_0"});
  w.add(prefill("x_in", 0, 1), decode("x_in", 0, 1).at(0));
  EXPECT_EQ(w.rows("SELECT run, claimed, verdict, evidence, conflict FROM report_conflict"),
            "2026-02-07/b3_67|PASS_GUARDRAIL_LOCAL|-|none|claims PASS without a decided pair");
}

TEST_F(ReportConflict, OtherKindsOfClaimsAreNoVerdict) {
  const int64_t source = w.report("final.txt", kFinal, b3_66_table());
  w.claim(source, 1, "FAIL");
  w.db.exec("UPDATE report_claim SET kind = 'status', value = 'PASS'");
  EXPECT_EQ(w.rows("SELECT * FROM report_conflict"), "");
}

}  // namespace
}  // namespace greta
