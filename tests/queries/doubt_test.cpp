// Doubt never passes: what claims success without being evidence of it.
#include <gtest/gtest.h>

#include "tests/queries/warehouse.h"

namespace greta {
namespace {

std::string strict(Warehouse& w) { return w.rows("SELECT strict_verdict FROM run_verdict"); }
std::string judged(Warehouse& w) { return w.rows("SELECT tensor, status, cause FROM pair"); }

constexpr int kClaimed = 8;  // trace_row.flags: only a document states the row

TEST(Verdict, RowsOfADocumentAreNoEvidence) {
  Warehouse w;
  w.add(prefill("x_in", 0, 1).flagged(kClaimed), decode("x_in", 0, 1).flagged(kClaimed));
  EXPECT_EQ(
      w.rows("SELECT evidence, strict_verdict, numeric_verdict, pairs, claimed FROM run_verdict"),
      "report|NO_EVIDENCE|NO_EVIDENCE|1|1");
}

TEST(Verdict, ARowOfADocumentIsNoPartnerThatPasses) {
  Warehouse w;
  w.match("x_in", 0);
  w.add(prefill("attn_out", 0, 1), decode("attn_out", 0, 1).flagged(kClaimed));
  EXPECT_EQ(w.rows("SELECT evidence, strict_verdict, numeric_verdict FROM run_verdict"),
            "trace|INCOMPARABLE|INCOMPARABLE");
}

TEST(Verdict, RowsOfADocumentCanFail) {
  Warehouse w;
  w.add(prefill("x_in", 0, 1).flagged(kClaimed), decode("x_in", 0, 2).flagged(kClaimed));
  EXPECT_EQ(strict(w), "FAIL");
}

TEST(Verdict, EmptyRowsAreNoEvidence) {
  Warehouse w;
  w.add(prefill("x_in", 0, 1).length(0), decode("x_in", 0, 1).length(0));
  EXPECT_EQ(strict(w), "INCOMPARABLE");
}

TEST(Verdict, EmptySamplesAreNoEvidence) {
  Warehouse w;
  w.add(prefill("x_in", 0).length({}), decode("x_in", 0).length({}));
  w.db.exec(
      "INSERT INTO sample VALUES (71, 0, x''), (72, 0, x'');"
      "INSERT INTO sketch SELECT value, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,"
      " 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM json_each('[71, 72]');"
      "UPDATE trace_row SET sample_id = 71 + side, sketch_id = 71 + side");
  EXPECT_EQ(strict(w), "INCOMPARABLE");
  EXPECT_EQ(judged(w), "x_in|INCOMPARABLE|-");
}

TEST(Verdict, EqualHashesOfOtherLengthsDoNotPass) {
  Warehouse w;
  w.add(prefill("x_in", 0, 1).length(4), decode("x_in", 0, 1).length(5));
  EXPECT_EQ(judged(w), "x_in|INCOMPARABLE|-");
  EXPECT_EQ(w.rows("SELECT verdict, strict_verdict, first_fail FROM run_verdict"),
            "INCOMPARABLE|INCOMPARABLE|-");
}

TEST(Verdict, EqualHashesOfOtherStatisticsAreAConflict) {
  for (const char* statistic : {"min", "max", "nz_count"}) {
    SCOPED_TRACE(statistic);
    Warehouse w;
    w.match("x_in", 0);
    w.db.exec("UPDATE trace_row SET min = -1, max = 2, nz_count = 4");
    EXPECT_EQ(strict(w), "PASS");
    w.db.exec("UPDATE trace_row SET " + std::string(statistic) + " = 1 WHERE side = 1");
    EXPECT_EQ(judged(w), "x_in|CONFLICT|EVIDENCE_CONFLICT");
    EXPECT_EQ(
        w.rows("SELECT verdict, strict_verdict, numeric_verdict, root_cause FROM run_verdict"),
        "FAIL|FAIL|FAIL|CONTRADICTORY_EVIDENCE");
  }
}

TEST(Verdict, EqualHashesOfOtherStatisticsAreAConflictWhereNobodySaysTheLength) {
  Warehouse w;
  w.add(prefill("x_in", 0, 1).length({}).up_to(1), decode("x_in", 0, 1).length(4).up_to(2));
  EXPECT_EQ(judged(w), "x_in|CONFLICT|EVIDENCE_CONFLICT");
  w.db.exec("UPDATE trace_row SET n = 5 WHERE side = 0");
  EXPECT_EQ(judged(w), "x_in|INCOMPARABLE|-") << "of other lengths";
  w.db.exec("UPDATE run SET hash_algo = 'fnv-256'; UPDATE trace_row SET n = NULL WHERE side = 0");
  EXPECT_EQ(judged(w), "x_in|INCOMPARABLE|-") << "which may not cover what differs";
}

TEST(Verdict, EqualHashesOfOtherSumsMatchForSumsHaveAnOrder) {
  Warehouse w;
  w.match("x_in", 0);
  w.db.exec("UPDATE trace_row SET min = -1, max = 2, mean = 0.25, abs_sum = 6");
  for (const char* sums : {"mean = 0.250012, abs_sum = 6.00003",  // six digits
                           "mean = 0.251, abs_sum = 6.03"}) {     // summed as bf16
    w.db.exec(std::string("UPDATE trace_row SET ") + sums + " WHERE side = 1");
    EXPECT_EQ(w.rows("SELECT status, measure FROM pair"), "MATCH|hash") << sums;
    EXPECT_EQ(strict(w), "PASS") << sums;
  }
}

TEST(Verdict, EqualHashesOfOtherNumbersOfZerosAreAConflict) {
  Warehouse w;
  w.match("x_in", 0);
  w.db.exec("UPDATE trace_row SET nz_count = 4 - side");
  EXPECT_EQ(judged(w), "x_in|CONFLICT|EVIDENCE_CONFLICT");
  w.db.exec("UPDATE trace_row SET nz_count = NULL WHERE side = 1");
  EXPECT_EQ(strict(w), "PASS") << "what was not counted contradicts nothing";
}

TEST(Verdict, EqualSketchesOfOtherStatisticsAreAConflictWithoutHashes) {
  for (const char* statistic : {"min", "max", "nz_count"}) {
    SCOPED_TRACE(statistic);
    Warehouse w;
    w.add(prefill("x_in", 0).sketched({2, 4, -1, 1}), decode("x_in", 0).sketched({2, 4, -1, 1}));
    w.db.exec("UPDATE trace_row SET min = -1, max = 4, mean = 1.5, abs_sum = 8, nz_count = 4");
    w.db.exec("UPDATE trace_row SET max = 4.00001 WHERE side = 1");  // as far as it was printed
    EXPECT_EQ(w.rows("SELECT numeric_verdict FROM run_verdict"), "PASS");
    w.db.exec("UPDATE trace_row SET " + std::string(statistic) + " = 3 WHERE side = 1");
    EXPECT_EQ(judged(w), "x_in|CONFLICT|EVIDENCE_CONFLICT");
    EXPECT_EQ(w.rows("SELECT strict_verdict, numeric_verdict FROM run_verdict"), "FAIL|FAIL");
  }
}

TEST(Verdict, AnEqualSampleOfPartOfARowIsNoMatchOfRowsOfOtherStatistics) {
  Warehouse w;
  w.add(prefill("x_in", 0).length(9).sampled({2, 4, -1, 1}),
        decode("x_in", 0).length(9).sampled({2, 4, -1, 1}));
  EXPECT_EQ(judged(w), "x_in|MATCH|-");
  w.db.exec("UPDATE trace_row SET max = 5 + side");
  EXPECT_EQ(w.rows("SELECT status, class, measure FROM pair"), "DRIFT|UNKNOWN|-");
  EXPECT_EQ(w.rows("SELECT verdict FROM run_verdict"), "FAIL");
}

TEST(Verdict, OtherStatisticsOfOtherSketchesAreADifferenceAndNoConflict) {
  Warehouse w;
  w.add(prefill("x_in", 0).sketched({2, 4, -1, 1}), decode("x_in", 0).sketched({2, 5, -1, 1}));
  w.db.exec("UPDATE trace_row SET max = 4 + side");
  EXPECT_EQ(judged(w), "x_in|DRIFT|X_IN_DRIFT");
}

TEST(Verdict, DigitsThatWereNotWrittenAreNoConflict) {
  Warehouse w;
  w.match("x_in", 0);
  w.db.exec("UPDATE trace_row SET min = -0.1234567, max = 2.000001, mean = 1e-9, abs_sum = 6");
  w.db.exec(
      "UPDATE trace_row SET min = -0.123457, max = 2, mean = 3e-9, abs_sum = 6.00001"
      " WHERE side = 1");
  EXPECT_EQ(strict(w), "PASS");
}

TEST(Verdict, AnEqualPrefixOfRowsOfOtherLengthIsNoConflict) {
  Warehouse w;
  w.run({.hash_algo = "fnv-256"});
  w.add(prefill("x_in", 0, 1).length(4096), decode("x_in", 0, 1).length(8192));
  w.add(prefill("attn_out", 0, 1).length(4096).averaging(1),
        decode("attn_out", 0, 1).length(4096).averaging(2));
  w.add(prefill("mlp_out", 0, 1).length(4), decode("mlp_out", 0, 1).length(5));
  EXPECT_EQ(judged(w), "x_in|INCOMPARABLE|-\nattn_out|MATCH|-\nmlp_out|INCOMPARABLE|-");
}

TEST(Verdict, AnEqualSampleOfTheWholeRowAndAnotherHashIsAConflict) {
  Warehouse w;
  w.add(prefill("x_in", 0, 1).length(2).sampled({1, 2}),
        decode("x_in", 0, 2).length(2).sampled({1, 2}));
  w.add(prefill("attn_out", 0, 1).length(9).sampled({1, 2}),
        decode("attn_out", 0, 2).length(9).sampled({1, 2}));
  EXPECT_EQ(judged(w), "x_in|CONFLICT|EVIDENCE_CONFLICT\nattn_out|DRIFT|ATTN_OUT_DRIFT");
}

TEST(Verdict, EqualSamplesOfRowsOfOtherLengthsDoNotPass) {
  Warehouse w;
  w.add(prefill("x_in", 0).length(4).sampled({1, 2}), decode("x_in", 0).length(5).sampled({1, 2}));
  EXPECT_EQ(judged(w), "x_in|INCOMPARABLE|-");
  EXPECT_EQ(w.rows("SELECT strict_verdict, numeric_verdict FROM run_verdict"),
            "INCOMPARABLE|INCOMPARABLE");
}

TEST(Verdict, StatisticsOfRowsOfOtherLengthsTellNothing) {
  Warehouse w;
  w.add(prefill("x_in", 0).length(4).sampled({1, 2}).up_to(2),
        decode("x_in", 0).length(5).sampled({1, 2}).up_to(3));
  EXPECT_EQ(judged(w), "x_in|INCOMPARABLE|-");
}

TEST(Verdict, AlmostEqualSamplesOfRowsOfOtherLengthsAreNoRounding) {
  Warehouse w;
  w.add(prefill("x_in", 0).length(4).sampled({1000, 0}),
        decode("x_in", 0).length(5).sampled({999, 0}));
  EXPECT_EQ(w.rows("SELECT status, class, rel_l2 FROM pair"), "DRIFT|UNKNOWN|-");
  EXPECT_EQ(w.rows("SELECT numeric_verdict FROM run_verdict"), "INCOMPARABLE");
}

TEST(Verdict, TheLengthOfASampleIsNotThatOfItsRow) {
  Warehouse w;
  w.add(prefill("x_in", 0).length(2).sampled({1, 2}).flagged(2),
        decode("x_in", 0).length(9).sampled({1, 2}));
  EXPECT_EQ(strict(w), "PASS");
}

TEST(Verdict, EqualSamplesOfRowsOfOtherHashesDoNotPass) {
  Warehouse w;  // of which nobody knows what the hashes cover
  w.add(prefill("x_in", 0, 1).length({}).sampled({1, 2}),
        decode("x_in", 0, 2).length({}).sampled({1, 2}));
  EXPECT_EQ(strict(w), "INCOMPARABLE");
}

TEST(Verdict, ASampleThatWasCutShowsAllTheSameThatItsRowsDiffer) {
  Warehouse w;  // though their hashes say that they do not
  w.add(prefill("x_in", 0, 1).sampled({1, 2, 3}), decode("x_in", 0, 1).sampled({1, 9}),
        prefill("mlp_out", 0, 1).sampled({1, 2, 3}), decode("mlp_out", 0, 1).sampled({1, 2}),
        prefill("x_out", 0).sampled({1, 2, 3}), decode("x_out", 0).sampled({2}));
  EXPECT_EQ(w.rows("SELECT tensor, status, class, compared_n FROM pair ORDER BY tensor_id"),
            "x_in|DRIFT|UNKNOWN|4\nmlp_out|MATCH|-|4\nx_out|DRIFT|UNKNOWN|1");
}

TEST(Verdict, EqualSamplesOfRowsOfOtherSketchesDoNotPass) {
  Warehouse w;
  w.add(prefill("x_in", 0).sampled({1, 2}), decode("x_in", 0).sampled({1, 2}));
  EXPECT_EQ(strict(w), "PASS");
  w.db.exec(
      "UPDATE sketch SET derived = 0; CREATE TEMP TABLE other AS SELECT * FROM sketch;"
      "ALTER TABLE other DROP COLUMN sum_bb;"
      "UPDATE other SET id = 99, b0 = b0 - 1000; INSERT INTO sketch SELECT * FROM other;"
      "DROP TABLE other; UPDATE trace_row SET sketch_id = 99 WHERE side = 1");
  EXPECT_EQ(judged(w), "x_in|DRIFT|X_IN_DRIFT");
}

TEST(Verdict, EqualSketchesAreNotEqualRows) {
  Warehouse w;
  w.match("x_in", 0);
  w.add(prefill("mlp_out", 0).sketched({1, 2}), decode("mlp_out", 0).sketched({1, 2}));
  EXPECT_EQ(
      w.rows("SELECT strict_verdict, numeric_verdict, pairs, pass, incomparable, rounding FROM"
             " run_verdict"),
      "INCOMPARABLE|PASS|2|1|1|1");
  EXPECT_EQ(w.rows("SELECT status, class, rel_l2 FROM pair WHERE tensor = 'mlp_out'"),
            "INCOMPARABLE|ROUNDING|0.0");
  w.add(prefill("wo_out", 0).sketched({1, 2}), decode("wo_out", 0).sketched({1, 5}));
  EXPECT_EQ(w.rows("SELECT strict_verdict, numeric_verdict FROM run_verdict"), "FAIL|FAIL");
}

TEST(Verdict, WhatIsOtherwiseIncomparableIsNoRoundingForItsSketches) {
  Warehouse w;
  w.match("x_in", 0);
  w.add(prefill("mlp_out", 0).sketched({1, 2}).length(9),
        decode("mlp_out", 0).sketched({1, 2}).length(8));
  EXPECT_EQ(w.rows("SELECT numeric_verdict FROM run_verdict"), "INCOMPARABLE");
  EXPECT_EQ(w.rows("SELECT class FROM pair WHERE tensor = 'mlp_out'"), "-");
}

TEST(Verdict, RowsOfOneSideThatOnlyTheirSketchesTellApartDoNotPass) {
  for (const Row& other : {prefill("x_in", 0).step(1).sketched({2, 1}), prefill("x_in", 0).step(1),
                           decode("x_in", 0).step(2).sketched({2, 1})}) {
    Warehouse w;
    w.add(prefill("x_in", 0).sketched({1, 2}), decode("x_in", 0).sketched({1, 2}));
    EXPECT_EQ(w.rows("SELECT numeric_verdict FROM run_verdict"), "PASS");
    w.add(other);
    EXPECT_EQ(judged(w), "x_in|AMBIGUOUS|AMBIGUOUS_TRACE");
  }
}

TEST(Verdict, EqualSketchesOfOneSideAreNotAmbiguous) {
  Warehouse w;
  w.add(prefill("x_in", 0).sketched({1, 2}), prefill("x_in", 0).step(1).sketched({1, 2}),
        decode("x_in", 0).sketched({1, 2}), prefill("mlp_out", 0, 1).sketched({1, 2}),
        prefill("mlp_out", 0, 1).step(1), decode("mlp_out", 0, 1));
  EXPECT_EQ(judged(w), "x_in|INCOMPARABLE|-\nmlp_out|MATCH|-");
}

/// Statistics of rows that have nothing in common, whatever else is said of them.
void set_apart(Warehouse& w) {
  w.db.exec(
      "UPDATE trace_row SET min = -1, max = 1 + 899 * side, mean = 0, abs_sum = 10 + 8990 * side");
}

TEST(Verdict, EqualSamplesOfRowsWhoseStatisticsAreApartDoNotPass) {
  Warehouse w;
  w.add(prefill("x_in", 0).length(64).sampled({1, 2}),
        decode("x_in", 0).length(64).sampled({1, 2}));
  EXPECT_EQ(strict(w), "PASS");
  set_apart(w);
  EXPECT_EQ(judged(w), "x_in|DRIFT|X_IN_DRIFT");
  EXPECT_EQ(w.rows("SELECT verdict, numeric_verdict FROM run_verdict"), "FAIL|INCOMPARABLE");
}

TEST(Verdict, AnEqualPrefixOfRowsWhoseStatisticsAreApartDoesNotPass) {
  Warehouse w;
  w.run({.hash_algo = "fnv-256"});
  w.add(prefill("x_in", 0, 1).length(300), decode("x_in", 0, 1).length(300));
  EXPECT_EQ(strict(w), "PASS");
  set_apart(w);
  EXPECT_EQ(judged(w), "x_in|DRIFT|X_IN_DRIFT");
  EXPECT_EQ(w.rows("SELECT numeric_verdict FROM run_verdict"), "INCOMPARABLE");
}

TEST(Verdict, WhatEqualSamplesOrSketchesDoNotShowIsNoRounding) {
  for (const bool whole : {false, true}) {
    Warehouse w;
    w.run({.dtype = "f32"});
    const auto of = [&](const Row& row) {
      return whole ? row.length(2).sketched({1, 2}) : row.length(64).sampled({1, 2});
    };
    w.add(of(prefill("x_in", 0, 1)), of(decode("x_in", 0, 2)));
    EXPECT_EQ(w.rows("SELECT class FROM pair"), whole ? "ROUNDING" : "UNKNOWN");
    set_apart(w);
    EXPECT_EQ(w.rows("SELECT status, class, measure FROM pair"), "DRIFT|UNKNOWN|-");
    EXPECT_EQ(w.rows("SELECT verdict, numeric_verdict FROM run_verdict"), "FAIL|INCOMPARABLE");
  }
}

TEST(Verdict, WhatDigitsLeaveOpenRefutesNoMeasurement) {
  Warehouse w;
  w.run({.dtype = "f32"});
  w.add(prefill("x_in", 0, 1).sketched({1, 2, 3, 4}),
        decode("x_in", 0, 2).sketched({1, 2, 3, 4.000001f}));
  w.db.exec("UPDATE trace_row SET min = 1, max = 4 + 1e-5 * side, mean = 2.5, abs_sum = 10");
  EXPECT_EQ(w.rows("SELECT class, rel_l2 < 1e-6 FROM pair"), "ROUNDING|1");
}

TEST(Verdict, APlanIsNotMetByWhatNothingCanBeComparedWith) {
  const Row lone = prefill("mlp_out", 0, 1).in("prefill").at(5);
  for (const auto& [row, verdict] : {std::pair(lone, "PASS"),
                                     {lone.at(-1), "INCOMPLETE"},
                                     {lone.flagged(kClaimed), "INCOMPLETE"}}) {
    Warehouse w;
    w.match("x_in", 0);
    w.add(row);
    w.plan("p0", 0, 0, "mlp_out");
    EXPECT_EQ(strict(w), verdict);
  }
}

TEST(Verdict, AnAnnouncedPromptWithoutRowsDoesNotPass) {
  Warehouse w;
  w.run({.status = "complete"});
  w.match("attn_out", 0);
  w.db.exec("INSERT INTO prompt(run_id, name, token_ids) VALUES (1, 'untraced', '[1]')");
  EXPECT_EQ(w.rows("SELECT strict_verdict, numeric_verdict, unmet, coverage FROM run_verdict"),
            "INCOMPLETE|INCOMPLETE|1|undeclared");
  // a row that only a document states is none of its own
  w.add(decode("attn_out", 0, 1).of("untraced").flagged(8));
  EXPECT_EQ(w.rows("SELECT unmet FROM run_verdict"), "1");
  w.add(decode("x_in", 0, 1).of("untraced"));
  EXPECT_EQ(w.rows("SELECT unmet FROM run_verdict"), "0");
}

TEST(Verdict, APromptThatOnlyOthersSpeakOfNeedsNoRows) {
  Warehouse w;
  w.run({.status = "complete"});
  w.match("attn_out", 0);
  w.report("report.md", 1, {{.prompt = "q", .layer = 0, .tensor = "attn_out", .status = "MATCH"}});
  w.db.exec(
      "INSERT INTO prompt(run_id, name, n_tokens) VALUES (1, 'logged', 7);"
      "INSERT INTO run_metric(run_id, prompt, name, value, text, source_id)"
      " SELECT 1, 'logged', 'prompt_tokens', 7, '7', max(id) FROM source");
  EXPECT_EQ(w.rows("SELECT verdict, unmet FROM run_verdict"), "PASS|0");
}

TEST(Verdict, ToleranceBeyondAllDistanceExcusesNothing) {
  for (const char* tolerance : {"9e999", "1.5"}) {
    Warehouse w;
    w.run({.dtype = "f32"});
    w.divergent("attn_out", 0);
    w.db.exec(std::string("UPDATE tolerance SET rel_l2 = ") + tolerance);
    EXPECT_EQ(w.rows("SELECT numeric_verdict FROM run_verdict"), "FAIL") << tolerance;
    w.db.exec("INSERT INTO tolerance VALUES (NULL, NULL, 0.9), (NULL, NULL, 0.1)");
    EXPECT_EQ(w.rows("SELECT tolerance, class FROM pair"), "0.1|DIVERGENT") << tolerance;
  }
}

TEST(Verdict, NeitherACopyNorADocumentMakesUpForLostRows) {
  Warehouse w;
  w.match("x_in", 0);
  w.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (1, 'trace_rows', '3', 0)");
  EXPECT_EQ(strict(w), "INCOMPLETE");
  w.add(prefill("mlp_out", 0, 1).in("prefill").at(5).flagged(kClaimed));
  EXPECT_EQ(strict(w), "INCOMPLETE");
  w.db.exec(
      "INSERT INTO trace_repeat SELECT run_id, prompt_id, side, pos_id, layer, tensor_id, nth, 1"
      " FROM trace_row; UPDATE source SET duplicates = 3");
  EXPECT_EQ(strict(w), "INCOMPLETE");
  w.db.exec("UPDATE trace_row SET flags = 0");
  EXPECT_EQ(strict(w), "PASS");
}

TEST(Verdict, RejectedLinesOfItsSourcesDoNotPass) {
  Warehouse w;
  w.match("x_in", 0);
  const std::string insert =
      "INSERT INTO ingest_error(source_id, file, line, severity, reason, about)"
      " VALUES ((SELECT min(source_id) FROM trace_row), 'f', 1, ";
  w.db.exec(insert + "'warning', 'odd', NULL)");
  EXPECT_EQ(strict(w), "PASS");
  w.db.exec(insert + "'error', 'not JSON', NULL)");
  EXPECT_EQ(w.rows("SELECT strict_verdict, numeric_verdict, rejected FROM run_verdict"),
            "INCOMPLETE|INCOMPLETE|1");
}

TEST(Verdict, AnArchiveThatWasNotReadDoesNotPassForItsRuns) {
  Warehouse w;
  for (const char* name : {"d/a", "d/a/b", "d/ab"}) {
    w.run({.name = name});
    w.match("x_in", 0);
  }
  w.db.exec(
      "INSERT INTO ingest_error(file, line, severity, reason, about)"
      " VALUES ('d/a/x.tgz', 0, 'error', 'truncated', 'd/a')");
  EXPECT_EQ(w.rows("SELECT run, verdict FROM run_verdict ORDER BY run"),
            "d/a|INCOMPLETE\nd/a/b|INCOMPLETE\nd/ab|PASS");
}

TEST(Verdict, ARejectedLineDoesNotHideAFailure) {
  Warehouse w;
  w.drift("x_in", 0);
  w.db.exec(
      "INSERT INTO ingest_error(source_id, file, line, severity, reason)"
      " VALUES ((SELECT min(source_id) FROM trace_row), 'f', 1, 'error', 'not JSON')");
  EXPECT_EQ(strict(w), "FAIL");
}

TEST(Verdict, AnIngestThatHasNotEndedPassesNothing) {
  Warehouse w;
  w.match("x_in", 0);
  w.db.exec(
      "INSERT INTO ingest VALUES (1, '2026-01-01T00:00:00Z', 'h', 1, 'p', '', '[]');"
      "INSERT INTO ingest_run SELECT id, 1 FROM run");
  EXPECT_EQ(w.rows("SELECT strict_verdict, numeric_verdict, ingest_open FROM run_verdict"),
            "INCOMPLETE|INCOMPLETE|1");
  w.db.exec("DELETE FROM ingest_run; DELETE FROM ingest; DELETE FROM verdict");
  EXPECT_EQ(strict(w), "PASS");
}

TEST(Verdict, LoneRowsAreCountedAndTheRunIsNotComplete) {
  Warehouse w;
  w.match("x_in", 0);
  w.plan_what_is_there();
  EXPECT_EQ(w.rows("SELECT coverage FROM run_verdict"), "complete");
  for (int64_t pos = 0; pos < 9; ++pos) w.add(prefill("x_in", 0, 1).in("prefill").at(pos));
  EXPECT_EQ(w.rows("SELECT verdict, coverage, pairs, prefill_only FROM run_verdict"),
            "PASS|partial|1|9");
}

TEST(Verdict, RowsWithoutAPositionAreComparedWithNothingAndTheRunIsNotComplete) {
  for (const Row& row : {prefill("x_in", 0, 2).at(-1), decode("x_in", 0, 2).at(-1)}) {
    Warehouse w;
    w.match("x_in", 0);
    w.plan_what_is_there();
    w.add(row);
    EXPECT_EQ(w.rows("SELECT verdict, coverage FROM run_verdict"), "PASS|partial");
  }
}

}  // namespace
}  // namespace greta
