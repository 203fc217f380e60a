// Which rows pair, what a pair's status, scope and class are, and what the run's verdicts are then.
#include "tests/queries/warehouse.h"

namespace greta {
namespace {

/// Rows of x_in, layer 0, position 37.
Row p(std::optional<uint64_t> hash = {}) { return prefill("x_in", 0, hash); }
Row d(std::optional<uint64_t> hash = {}) { return decode("x_in", 0, hash); }
/// The same in a second pair.
Row p2(std::optional<uint64_t> hash = {}) { return prefill("mlp_out", 0, hash); }
Row d2(std::optional<uint64_t> hash = {}) { return decode("mlp_out", 0, hash); }

/// "status|class|scope|compared_n|cause" of each pair, in forward order, and the verdicts of their
/// run, "strict numeric", as they are once something was done by hand.
void expect_pairs(const char* situation, const std::string& expected, const std::vector<Row>& rows,
                  const char* by_hand = "", const char* hash_algo = "greta-1") {
  Warehouse w;
  w.run({.dtype = "f32", .hash_algo = hash_algo});
  for (const Row& row : rows) w.add(row);
  w.db.exec(by_hand);
  std::string said;
  std::istringstream pairs(
      w.rows("SELECT status, class, scope, compared_n, cause FROM pair"
             " ORDER BY prompt_id, tensor_id, pos_id, token_id, status"));
  for (std::string pair; std::getline(pairs, pair);) said += pair + "; ";
  said += w.rows("SELECT strict_verdict || ' ' || numeric_verdict FROM run_verdict");
  EXPECT_EQ(said, expected) << situation;
}

/// The same of a historical hash, which covers at most 256 values.
void expect_pairs_of_prefix(const char* situation, const std::string& expected,
                            const std::vector<Row>& rows, const char* by_hand = "") {
  expect_pairs(situation, expected, rows, by_hand, "fnv-256");
}

TEST(Pair, IsOfTwoRowsOfOnePlace) {
  expect_pairs("nothing", "NO_EVIDENCE NO_EVIDENCE", {});
  expect_pairs("equal hashes", "MATCH|-|full|4|-; PASS PASS", {p(7), d(7)});
  expect_pairs("other hashes", "DRIFT|UNKNOWN|full|4|X_IN_DRIFT; FAIL INCOMPARABLE", {p(7), d(8)});
  expect_pairs("a hash of 0", "MATCH|-|full|4|-; PASS PASS", {p(0), d(0)});
  expect_pairs("another step", "MATCH|-|full|4|-; PASS PASS", {p(1).step(0), d(1).step(9)});
  expect_pairs("a name and its alias", "MATCH|-|full|4|-; PASS PASS",
               {prefill("residual_pre_attn", 0, 1), decode("x_in", 0, 1)});
}

TEST(Pair, NeedsAPartnerWherePrefillLastIs) {
  expect_pairs("prefill_last alone", "MISSING|-|-|-|TRACE_OFFSET; FAIL FAIL", {p(1)});
  expect_pairs("decode alone", "DECODE_ONLY|-|-|-|-; NO_EVIDENCE NO_EVIDENCE", {d(1)});
  expect_pairs("a decode row where prefill_last traced something",
               "MATCH|-|full|4|-; MISSING|-|-|-|TRACE_OFFSET; FAIL FAIL", {p(1), d(1), d2(1)});
  expect_pairs("a decode row elsewhere", "MATCH|-|full|4|-; DECODE_ONLY|-|-|-|-; PASS PASS",
               {p(1), d(1), d(1).in("decode").step(2).at(38)});
  expect_pairs("prefill alone", "PREFILL_ONLY|-|-|-|-; NO_EVIDENCE NO_EVIDENCE",
               {p(1).in("prefill")});
  expect_pairs("prefill with a partner", "DRIFT|UNKNOWN|full|4|X_IN_DRIFT; FAIL INCOMPARABLE",
               {p(1).in("prefill"), d(2)});
  expect_pairs("another prompt", "MISSING|-|-|-|TRACE_OFFSET; DECODE_ONLY|-|-|-|-; FAIL FAIL",
               {p(1).of("p0"), d(1).of("p1")});
  expect_pairs("tokens and logical indexes, none on either side",
               "MATCH|-|full|4|-; MATCH|-|full|4|-; PASS PASS",
               {p(1).token(116), d(1).token(116), p2(1).logical(2), d2(1).logical(2)});
  expect_pairs("another token", "MISSING|-|-|-|TRACE_OFFSET; MISSING|-|-|-|TRACE_OFFSET; FAIL FAIL",
               {p(1).token(116), d(1).token(117)});
  expect_pairs("a token on one side",
               "MISSING|-|-|-|TRACE_OFFSET; MISSING|-|-|-|TRACE_OFFSET; FAIL FAIL",
               {p(1).token(116), d(1)});
  expect_pairs("another logical index",
               "MISSING|-|-|-|TRACE_OFFSET; MISSING|-|-|-|TRACE_OFFSET; FAIL FAIL",
               {p(1).logical(2), d(1).logical(3)});
  expect_pairs("two tokens at one position", "MATCH|-|full|4|-; MATCH|-|full|4|-; PASS PASS",
               {p(1).token(5), p(2).token(6).step(1), d(1).token(5), d(2).token(6).step(2)});
  expect_pairs("no position", "NO_EVIDENCE NO_EVIDENCE", {p(1).at(-1), d(1).at(-1)});
  expect_pairs("an unknown phase", "DECODE_ONLY|-|-|-|-; NO_EVIDENCE NO_EVIDENCE",
               {p(1).in("warmup"), d(1)});
}

TEST(Pair, OfSeveralRowsThatDifferIsAmbiguous) {
  expect_pairs("two of prefill", "AMBIGUOUS|-|full|4|AMBIGUOUS_TRACE; FAIL FAIL",
               {p(1), p(2), d(1)});
  expect_pairs("two of decode", "AMBIGUOUS|-|full|4|AMBIGUOUS_TRACE; FAIL FAIL",
               {p(1), d(1), d(2)});
  expect_pairs("two steps that differ", "AMBIGUOUS|-|full|4|AMBIGUOUS_TRACE; FAIL FAIL",
               {p(1), d(1), d(2).step(2)});
  expect_pairs("two steps that are equal", "MATCH|-|full|4|-; PASS PASS",
               {p(1), d(1), d(1).step(2)});
  expect_pairs("two phases that differ", "AMBIGUOUS|-|full|4|AMBIGUOUS_TRACE; FAIL FAIL",
               {p(1), p(2).in("prefill"), d(1)});
  expect_pairs("aliases that differ", "AMBIGUOUS|-|full|4|AMBIGUOUS_TRACE; FAIL FAIL",
               {p(1), prefill("residual_pre_attn", 0, 2), d(1)});
  expect_pairs("pointers, offsets and other flags are no content", "MATCH|-|full|4|-; PASS PASS",
               {p(1), p(1).step(3), d(1)},
               "UPDATE trace_row SET ptr = step, offset_bytes = step, flags = step & 2");
  expect_pairs("two of prefill, none of decode", "MISSING|-|-|-|TRACE_OFFSET; FAIL FAIL",
               {p(1), p(2)});
  expect_pairs("two of decode, none of prefill", "DECODE_ONLY|-|-|-|-; NO_EVIDENCE NO_EVIDENCE",
               {d(1), d(2)});
  expect_pairs("one of two not finite", "AMBIGUOUS|-|full|4|AMBIGUOUS_TRACE; FAIL FAIL",
               {p(1).nans(3), p(2), d(1)});
  expect_pairs("sketches alone tell two of prefill apart",
               "AMBIGUOUS|-|full|2|AMBIGUOUS_TRACE; FAIL FAIL",
               {p().sketched({1, 2}), p().step(1).sketched({2, 1}), d().sketched({1, 2})});
  expect_pairs("a sketch, and none", "AMBIGUOUS|-|full|2|AMBIGUOUS_TRACE; FAIL FAIL",
               {p().sketched({1, 2}), p().step(1), d().sketched({1, 2})});
  expect_pairs("equal sketches of one side", "INCOMPARABLE|ROUNDING|full|2|-; INCOMPARABLE PASS",
               {p().sketched({1, 2}), p().step(1).sketched({1, 2}), d().sketched({1, 2})});
}

TEST(Pair, OfValuesThatAreNotFiniteFails) {
  expect_pairs("NaN in prefill", "NONFINITE|-|full|4|X_IN_DRIFT; FAIL FAIL", {p(1).nans(1), d(1)});
  expect_pairs("inf in prefill", "NONFINITE|-|full|4|X_IN_DRIFT; FAIL FAIL", {p(1).infs(1), d(1)});
  expect_pairs("inf in decode", "NONFINITE|-|full|4|X_IN_DRIFT; FAIL FAIL", {p(1), d(1).infs(2)});
  expect_pairs("NaN in both", "NONFINITE|-|full|4|X_IN_DRIFT; FAIL FAIL",
               {p(1).nans(1), d(1).nans(1)});
  expect_pairs("a statistic that is none", "NONFINITE|-|full|4|X_IN_DRIFT; FAIL FAIL",
               {p(1), d(1).flagged(kFlagNonfiniteStatistic)});
  expect_pairs("inf, and NaN not counted", "NONFINITE|-|full|4|X_IN_DRIFT; FAIL FAIL",
               {p(1).nans({}).infs(1), d(1).nans({}).infs({})});
  expect_pairs("NaN, and no hash", "NONFINITE|-|-|-|X_IN_DRIFT; FAIL FAIL", {p(1).nans(1), d()});
  expect_pairs("NaN of a lone prefill_last", "NONFINITE|-|-|-|X_IN_DRIFT; FAIL FAIL",
               {p(1).nans(3)});
  expect_pairs("inf of a lone decode row", "NONFINITE|-|-|-|X_IN_DRIFT; FAIL FAIL", {d(1).infs(1)});
  expect_pairs("counts that nobody made", "MATCH|-|full|4|-; PASS PASS",
               {p(1).nans({}).infs({}), d(1).nans({}).infs({})});
}

TEST(Pair, NeedsHashesOfOneLength) {
  expect_pairs("unequal lengths, equal hashes", "INCOMPARABLE|-|-|-|-; INCOMPARABLE INCOMPARABLE",
               {p(1).length(4), d(1).length(5)});
  expect_pairs("unequal lengths, other hashes", "INCOMPARABLE|-|-|-|-; INCOMPARABLE INCOMPARABLE",
               {p(1).length(4), d(2).length(5)});
  expect_pairs("no lengths", "INCOMPARABLE|-|-|-|-; INCOMPARABLE INCOMPARABLE",
               {p(1).length({}), d(1).length({})});
  expect_pairs("one length", "INCOMPARABLE|-|-|-|-; INCOMPARABLE INCOMPARABLE",
               {p(1).length({}), d(1)});
  expect_pairs("empty rows", "INCOMPARABLE|-|-|-|-; INCOMPARABLE INCOMPARABLE",
               {p(1).length(0), d(1).length(0)});
}

TEST(Pair, WithNothingToCompareByIsIncomparable) {
  expect_pairs("no hashes", "INCOMPARABLE|-|-|-|-; INCOMPARABLE INCOMPARABLE", {p(), d()});
  expect_pairs("one hash", "INCOMPARABLE|-|-|-|-; INCOMPARABLE INCOMPARABLE", {p(1), d()});
  expect_pairs("a sample and a sketch", "INCOMPARABLE|-|-|-|-; INCOMPARABLE INCOMPARABLE",
               {p(1).sampled({1}), d().sketched({1})});
  expect_pairs(
      "empty samples", "INCOMPARABLE|-|-|-|-; INCOMPARABLE INCOMPARABLE",
      {p().length({}), d().length({})},
      "INSERT INTO sample VALUES (71, 0, x''), (72, 0, x'');"
      "INSERT INTO sketch SELECT value, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,"
      " 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM json_each('[71, 72]');"
      "UPDATE trace_row SET sample_id = 71 + side, sketch_id = 71 + side");
}

TEST(Pair, IsDecidedBySamplesWhereHashesCannot) {
  expect_pairs("equal samples", "MATCH|-|sample|2|-; PASS PASS",
               {p().sampled({1, 2}), d().sampled({1, 2})});
  expect_pairs("equal samples, one hash", "MATCH|-|sample|2|-; PASS PASS",
               {p(1).sampled({1, 2}), d().sampled({1, 2})});
  expect_pairs("other samples", "DRIFT|DIVERGENT|sample|2|X_IN_DRIFT; FAIL FAIL",
               {p().sampled({1, 2}), d().sampled({1, 3})});
  expect_pairs("the other zero", "DRIFT|ROUNDING|sample|2|X_IN_DRIFT; FAIL PASS",
               {p().sampled({0.0f, 1}), d().sampled({-0.0f, 1})});
  expect_pairs("equal hashes, other samples", "CONFLICT|-|full|4|EVIDENCE_CONFLICT; FAIL FAIL",
               {p(1).sampled({2, 0, 1}), d(1).sampled({1, 0, 1})});
  expect_pairs("other hashes, equal samples of part of the row",
               "DRIFT|UNKNOWN|full|9|X_IN_DRIFT; FAIL INCOMPARABLE",
               {p(1).length(9).sampled({1, 2}), d(2).length(9).sampled({1, 2})});
  expect_pairs("other hashes, equal samples of the whole row",
               "CONFLICT|-|full|2|EVIDENCE_CONFLICT; FAIL FAIL",
               {p(1).length(2).sampled({1, 2}), d(2).length(2).sampled({1, 2})});
  expect_pairs("other hashes of unknown length, equal samples",
               "INCOMPARABLE|-|sample|2|-; INCOMPARABLE INCOMPARABLE",
               {p(1).length({}).sampled({1, 2}), d(2).length({}).sampled({1, 2})});
  expect_pairs("equal samples of rows of other lengths",
               "INCOMPARABLE|-|sample|2|-; INCOMPARABLE INCOMPARABLE",
               {p().length(4).sampled({1, 2}), d().length(5).sampled({1, 2})});
  expect_pairs("equal samples, other maxima, other lengths",
               "INCOMPARABLE|-|sample|2|-; INCOMPARABLE INCOMPARABLE",
               {p().length(4).sampled({1, 2}).up_to(2), d().length(5).sampled({1, 2}).up_to(3)});
  expect_pairs("almost equal samples of rows of other lengths",
               "DRIFT|UNKNOWN|sample|2|X_IN_DRIFT; FAIL INCOMPARABLE",
               {p().length(4).sampled({1000, 0}), d().length(5).sampled({999, 0})});
  expect_pairs(
      "a length that is the sample's", "MATCH|-|sample|2|-; PASS PASS",
      {p().length(2).sampled({1, 2}).flagged(kFlagDerived), d().length(9).sampled({1, 2})});
  expect_pairs("samples of other lengths", "INCOMPARABLE|-|-|-|-; INCOMPARABLE INCOMPARABLE",
               {p().sampled({1, 2}), d().sampled({1, 2, 3})});
  expect_pairs("a sample that was cut and differs, equal hashes",
               "CONFLICT|-|full|4|EVIDENCE_CONFLICT; FAIL FAIL",
               {p(1).sampled({1, 2, 3}), d(1).sampled({1, 9})});
  expect_pairs("a sample that was cut and is equal, equal hashes", "MATCH|-|full|4|-; PASS PASS",
               {p(1).sampled({1, 2, 3}), d(1).sampled({1, 2})});
  expect_pairs("a sample that was cut and differs",
               "DRIFT|UNKNOWN|sample|1|X_IN_DRIFT; FAIL INCOMPARABLE",
               {p().sampled({1, 2, 3}), d().sampled({2})});
  expect_pairs("equal samples, other maxima",
               "DRIFT|UNKNOWN|sample|2|X_IN_DRIFT; FAIL INCOMPARABLE",
               {p().length(9).sampled({2, 4}).up_to(5), d().length(9).sampled({2, 4}).up_to(6)});
  expect_pairs("equal samples, other sums of sizes",
               "DRIFT|UNKNOWN|sample|2|X_IN_DRIFT; FAIL INCOMPARABLE",
               {p().length(9).sampled({2, 4}), d().length(9).sampled({2, 4})},
               "UPDATE trace_row SET abs_sum = 6 + 0.07 * side");
  expect_pairs("equal samples, sums as the order of adding makes them",
               "MATCH|-|sample|2|-; PASS PASS",
               {p().length(9).sampled({2, 4}), d().length(9).sampled({2, 4})},
               "UPDATE trace_row SET abs_sum = 6 + 0.05 * side");
}

TEST(Pair, IsNeverAMatchBySketches) {
  expect_pairs("equal sketches", "INCOMPARABLE|ROUNDING|full|2|-; INCOMPARABLE PASS",
               {p().sketched({1, 2}), d().sketched({1, 2})});
  expect_pairs("other sketches", "DRIFT|DIVERGENT|full|2|X_IN_DRIFT; FAIL FAIL",
               {p().sketched({1, 2}), d().sketched({1, 3})});
  expect_pairs("sketches of other lengths", "INCOMPARABLE|-|-|-|-; INCOMPARABLE INCOMPARABLE",
               {p().sketched({1, 2}), d().sketched({1, 2, 0})});
  expect_pairs("equal sketches of rows of other lengths",
               "INCOMPARABLE|-|full|2|-; INCOMPARABLE INCOMPARABLE",
               {p().sketched({1, 2}).length(9), d().sketched({1, 2}).length(8)});
  expect_pairs("a sketch on one side, other hashes",
               "DRIFT|UNKNOWN|full|4|X_IN_DRIFT; FAIL INCOMPARABLE", {p(1).sketched({1, 2}), d(2)});
  expect_pairs("equal samples, other sketches of all values",
               "DRIFT|ROUNDING|sample|2|X_IN_DRIFT; FAIL PASS",
               {p().sampled({1, 2}), d().sampled({1, 2})},
               "UPDATE sketch SET derived = 0; CREATE TEMP TABLE other AS SELECT * FROM sketch;"
               "ALTER TABLE other DROP COLUMN sum_bb;"
               "UPDATE other SET id = 99, b0 = b0 - 1000; INSERT INTO sketch SELECT * FROM other;"
               "DROP TABLE other; UPDATE trace_row SET sketch_id = 99 WHERE side = 1");
}

TEST(Pair, OfStatisticsThatContradictTheHashIsAConflict) {
  expect_pairs("equal hashes, other maxima", "CONFLICT|-|full|4|EVIDENCE_CONFLICT; FAIL FAIL",
               {p(1).up_to(2), d(1).up_to(1)});
  expect_pairs("equal hashes, other minima", "CONFLICT|-|full|4|EVIDENCE_CONFLICT; FAIL FAIL",
               {p(1), d(1)}, "UPDATE trace_row SET min = side - 1");
  expect_pairs("equal hashes, other numbers of zeros",
               "CONFLICT|-|full|4|EVIDENCE_CONFLICT; FAIL FAIL", {p(1), d(1)},
               "UPDATE trace_row SET nz_count = 4 - side");
  expect_pairs("zeros counted on one side", "MATCH|-|full|4|-; PASS PASS", {p(1), d(1)},
               "UPDATE trace_row SET nz_count = 4 WHERE side = 1");
  expect_pairs("equal hashes of unknown length, other maxima",
               "CONFLICT|-|-|-|EVIDENCE_CONFLICT; FAIL FAIL",
               {p(1).length({}).up_to(1), d(1).up_to(2)});
  expect_pairs("equal hashes of other lengths, other maxima",
               "INCOMPARABLE|-|-|-|-; INCOMPARABLE INCOMPARABLE",
               {p(1).length(5).up_to(1), d(1).up_to(2)});
  expect_pairs(
      "other sums, for sums have an order", "MATCH|-|full|4|-; PASS PASS", {p(1), d(1)},
      "UPDATE trace_row SET min = -1, max = 2, mean = 0.25 + 0.001 * side, abs_sum = 6 + 0.03 * "
      "side");
  expect_pairs("digits that were not written", "MATCH|-|full|4|-; PASS PASS", {p(1), d(1)},
               "UPDATE trace_row SET min = -0.1234567, max = 2.000001, mean = 1e-9, abs_sum = 6;"
               "UPDATE trace_row SET min = -0.123457, max = 2, mean = 3e-9 WHERE side = 1");
  expect_pairs("equal sketches, other minima", "CONFLICT|-|full|4|EVIDENCE_CONFLICT; FAIL FAIL",
               {p().sketched({2, 4, -1, 1}), d().sketched({2, 4, -1, 1})},
               "UPDATE trace_row SET min = 3 * side - 1, max = 4");
  expect_pairs("equal sketches, other numbers of zeros",
               "CONFLICT|-|full|4|EVIDENCE_CONFLICT; FAIL FAIL",
               {p().sketched({2, 4, -1, 1}), d().sketched({2, 4, -1, 1})},
               "UPDATE trace_row SET nz_count = 4 - side");
  expect_pairs("equal sketches, maxima as far as they were printed",
               "INCOMPARABLE|ROUNDING|full|4|-; INCOMPARABLE PASS",
               {p().sketched({2, 4, -1, 1}).up_to(4), d().sketched({2, 4, -1, 1}).up_to(4.00001)});
  expect_pairs("other sketches, other maxima", "DRIFT|DIVERGENT|full|4|X_IN_DRIFT; FAIL FAIL",
               {p().sketched({2, 4, -1, 1}).up_to(4), d().sketched({2, 5, -1, 1}).up_to(5)});
  expect_pairs(
      "other hashes, equal sketches, maxima far apart",
      "DRIFT|UNKNOWN|full|2|X_IN_DRIFT; FAIL INCOMPARABLE",
      {p(1).length(2).sketched({1, 2}).up_to(1), d(2).length(2).sketched({1, 2}).up_to(900)});
  expect_pairs("other hashes, equal sketches", "DRIFT|ROUNDING|full|2|X_IN_DRIFT; FAIL PASS",
               {p(1).length(2).sketched({1, 2}), d(2).length(2).sketched({1, 2})});
}

TEST(Pair, OfRowsOfADocumentNeverPasses) {
  expect_pairs("rows of a document", "MATCH|-|full|4|-; NO_EVIDENCE NO_EVIDENCE",
               {p(1).flagged(kFlagClaimed), d(1).flagged(kFlagClaimed)});
  expect_pairs("rows of a document that differ",
               "DRIFT|UNKNOWN|full|4|X_IN_DRIFT; FAIL NO_EVIDENCE",
               {p(1).flagged(kFlagClaimed), d(2).flagged(kFlagClaimed)});
  expect_pairs("a partner from a document",
               "MATCH|-|full|4|-; MATCH|-|full|4|-; INCOMPARABLE INCOMPARABLE",
               {p(1), d(1), p2(1), d2(1).flagged(kFlagClaimed)});
  expect_pairs("NaN in a row of a document",
               "MATCH|-|full|4|-; NONFINITE|-|-|-|X_IN_DRIFT; FAIL FAIL",
               {p(1), d(1), d(1).at(50).nans(1).flagged(kFlagClaimed)});
}

TEST(Pair, OfRowsWhoseHashCoversAPrefix) {
  expect_pairs_of_prefix("a short row", "MATCH|-|prefix|64|-; PASS PASS",
                         {p(1).length(64), d(1).length(64)});
  expect_pairs_of_prefix("a long row, other hashes",
                         "DRIFT|UNKNOWN|prefix|256|X_IN_DRIFT; FAIL INCOMPARABLE",
                         {p(1).length(4096), d(2).length(4096)});
  expect_pairs_of_prefix("long rows of other lengths",
                         "INCOMPARABLE|-|-|-|-; INCOMPARABLE INCOMPARABLE",
                         {p(1).length(4096), d(1).length(8192)});
  expect_pairs_of_prefix("a long row, other means", "MATCH|-|prefix|256|-; PASS PASS",
                         {p(1).length(4096).averaging(1), d(1).length(4096).averaging(1.0001)});
  expect_pairs_of_prefix(
      "a long row, statistics far apart", "DRIFT|UNKNOWN|prefix|256|X_IN_DRIFT; FAIL INCOMPARABLE",
      {p(1).length(300), d(1).length(300)},
      "UPDATE trace_row SET min = -1, max = 1 + 899 * side, mean = 0, abs_sum = 10 + 8990 * side");
  expect_pairs_of_prefix("equal hashes of unknown length, other maxima",
                         "INCOMPARABLE|-|-|-|-; INCOMPARABLE INCOMPARABLE",
                         {p(1).length({}).up_to(1), d(1).up_to(2)});
  expect_pairs_of_prefix("equal hashes, other samples",
                         "CONFLICT|-|prefix|4|EVIDENCE_CONFLICT; FAIL FAIL",
                         {p(1).sampled({2, 0}), d(1).sampled({1, 0})});
}

TEST(Pair, ShowsAllColumns) {
  Warehouse w;
  w.add(prefill("attn_out", 3, 7), decode("attn_out", 3, 8));
  EXPECT_EQ(w.rows("SELECT run, prompt, token_id, logical_tok_idx, pos_id, layer, tensor,"
                   " canonical_tensor, status, class, origin, inputs_complete, root_cause,"
                   " prefill_hash, decode_hash, rel_l2 FROM pair"),
            "r|p0|-|-|37|3|attn_out|attn_out|DRIFT|UNKNOWN|UNSAMPLED|0|"
            "ATTENTION_COMPUTATION_MISMATCH|7|8|-");
}

TEST(Pair, HashesAboveTwoToThe63AreUnsignedAndComparable) {
  Warehouse w;
  w.add(p(18446744073709551615u), d(18446744073709551615u), p2(9223372036854775808u),
        d2(9223372036854775807u));
  EXPECT_EQ(w.rows("SELECT status, prefill_hash, decode_hash FROM pair ORDER BY tensor_id"),
            "MATCH|18446744073709551615|18446744073709551615\n"
            "DRIFT|9223372036854775808|9223372036854775807");
}

TEST(Pair, ThePrefillNamePicksTheCause) {
  const char* cases[][3] = {{"x_in", "residual_pre_attn", "X_IN_DRIFT"},
                            {"residual_pre_attn", "rms_in", "RESIDUAL_PRE_ATTN_DRIFT"},
                            {"rms_in", "x_in", "RMS_IN_DRIFT"},
                            {"norm_out", "attn_norm_out", "NORM_OUT_DRIFT"},
                            {"k_proj", "k_pre_rope", "K_PRE_ROPE_DRIFT"},
                            {"final_rms", "rms", "FINAL_NORM_DRIFT"},
                            {"gate_proj", "gate_proj", "GATE_PROJ_DRIFT"}};
  for (const auto& [of_prefill, of_decode, cause] : cases) {
    Warehouse w;
    w.add(prefill(of_prefill, 0, 1), decode(of_decode, 0, 2));
    EXPECT_EQ(w.rows("SELECT tensor, cause FROM pair"), std::string(of_prefill) + "|" + cause);
  }
}

TEST(Pair, EveryCauseHasARootCause) {
  Warehouse w;
  EXPECT_EQ(w.rows("SELECT cause FROM (SELECT cause FROM tensor_name UNION ALL SELECT switch_cause"
                   " FROM tensor WHERE switch_cause IS NOT NULL) WHERE cause NOT IN"
                   " (SELECT name FROM cause)"),
            "");
}

TEST(Pair, RopeIsBlamedWhereTheRowBeforeItMatched) {
  const std::pair<const char*, const char*> cases[] = {
      {"match q_pre_rope 0; drift q_post_rope 0", "q_post_rope|ROPE_DRIFT"},
      {"match k_pre_rope 0; drift k_post_rope 0", "k_post_rope|K_ROPE_DRIFT"},
      {"drift q_pre_rope 0; drift q_post_rope 0", "q_post_rope|Q_POST_ROPE_DRIFT"},
      {"match k_pre_rope 1; drift k_post_rope 0", "k_post_rope|K_POST_ROPE_DRIFT"},
      {"incomparable q_pre_rope 0; drift q_post_rope 0", "q_post_rope|Q_POST_ROPE_DRIFT"},
      // by more than rounding, behind rounding
      {"rounding q_pre_rope 0; divergent q_post_rope 0", "q_post_rope|ROPE_DRIFT"},
      {"rounding q_pre_rope 0; rounding q_post_rope 0", "q_post_rope|Q_POST_ROPE_DRIFT"},
      {"rounding q_pre_rope 0; nonfinite q_post_rope 0", "q_post_rope|ROPE_DRIFT"},
      {"divergent q_pre_rope 0; divergent q_post_rope 0", "q_post_rope|Q_POST_ROPE_DRIFT"},
      {"drift q_pre_rope 0; divergent q_post_rope 0", "q_post_rope|Q_POST_ROPE_DRIFT"}};
  for (const auto& [pairs, expected] : cases) {
    Warehouse w;
    w.pairs(pairs);
    w.add(prefill("q_pre_rope", 0, 1).of("p1"), decode("q_pre_rope", 0, 1).of("p1"),
          prefill("q_pre_rope", 0, 1).at(36), decode("q_pre_rope", 0, 1).at(36));
    EXPECT_EQ(w.rows("SELECT tensor, cause FROM pair WHERE tensor_id IN (50, 51)"), expected)
        << pairs;
  }
}

TEST(Pair, ContentIsLengthHashStatisticsAndSample) {
  const Row base = p(1).sampled({1, 2});
  const Row others[] = {base.length(5),       p(2).sampled({1, 2}),
                        base.averaging(0.5),  base.nans({}),
                        base.infs({}),        base.flagged(kFlagNonfiniteStatistic),
                        base.sampled({1, 3}), p(1)};
  for (const Row& other : others) {
    Warehouse w;
    w.add(base, other.step(1), d(1).sampled({1, 2}));
    EXPECT_EQ(w.rows("SELECT status FROM pair"), "AMBIGUOUS") << &other - others;
  }
}

// What a distance is worth.

TEST(Class, RelativeL2IsTheDifferenceOverTheLargerNorm) {
  Warehouse w;
  w.add(p(1).sketched({3, 4}), d(2).sketched({3, 0}), p2(1).sketched({0, 0}),
        d2(2).sketched({0, 5}));
  EXPECT_EQ(w.rows("SELECT rel_l2, class FROM pair ORDER BY tensor_id"),
            "0.8|DIVERGENT\n1.0|DIVERGENT");
}

TEST(Class, TheMostSpecificToleranceWins) {
  struct Case {
    const char* inserts;
    std::optional<std::string> dtype;
    const char* expected;
  };
  // The pair of attn_out (70) differs by 1 %.
  const Case cases[] = {
      {"(NULL, NULL, 0.1)", {}, "ROUNDING"},
      {"(NULL, NULL, 0.1)", "bf16", "UNKNOWN"},  // a dtype that no tolerance knows
      {"(NULL, NULL, 0.1), (NULL, 'bf16', 0.001)", "bf16", "DIVERGENT"},
      {"(NULL, NULL, 0.1), (NULL, 'bf16', 0.001)", "f32", "UNKNOWN"},
      {"(NULL, NULL, 0.001), (NULL, 'bf16', 1.0)", {}, "DIVERGENT"},
      {"(NULL, 'bf16', 0.001), (70, NULL, 0.1)", "bf16", "ROUNDING"},
      {"(NULL, 'bf16', 0.1), (70, NULL, 0.001)", "bf16", "DIVERGENT"},
      {"(70, NULL, 0.001), (70, 'bf16', 0.1)", "bf16", "ROUNDING"},
      {"(70, NULL, 0.1), (70, 'bf16', 0.001)", "bf16", "DIVERGENT"},
      {"(70, 'f32', 0.001), (71, NULL, 0.001), (71, 'bf16', 0.001), (NULL, NULL, 0.1)", "bf16",
       "ROUNDING"},
      // two of one place: the least; beyond any distance: none
      {"(NULL, NULL, 0.9), (NULL, NULL, 0.001)", {}, "DIVERGENT"},
      {"(NULL, NULL, 9e999)", {}, "UNKNOWN"},
      {"(NULL, NULL, 1.5)", {}, "UNKNOWN"},
      {"(70, 'f32', 0.1)", "bf16", "UNKNOWN"}};
  for (const Case& c : cases) {
    Warehouse w;
    w.db.exec(
        "DELETE FROM tolerance; INSERT INTO tensor VALUES (71, 71, 't', 'layer', NULL, NULL);"
        "INSERT INTO tolerance VALUES " +
        std::string(c.inserts));
    w.run({.dtype = c.dtype});
    w.add(prefill("attn_out", 0, 1).sketched({100}), decode("attn_out", 0, 2).sketched({99}));
    EXPECT_EQ(w.rows("SELECT class FROM pair"), c.expected) << c.inserts;
  }
}

TEST(Class, ToleranceItselfIsStillRounding) {
  Warehouse w;
  w.db.exec("DELETE FROM tolerance; INSERT INTO tolerance VALUES (NULL, NULL, 0.5)");
  w.divergent("attn_out", 0);
  EXPECT_EQ(w.rows("SELECT rel_l2, tolerance, class FROM pair"), "0.5|0.5|ROUNDING");
}

TEST(Class, WeightsAndEmbeddingsHaveNoRounding) {
  for (const char* tensor : {"embd_w_hash", "embed_out", "rms_weight"}) {
    Warehouse w;
    w.run({.dtype = "bf16"});
    w.rounding(tensor, 0);
    EXPECT_EQ(w.rows("SELECT class FROM pair"), "DIVERGENT") << tensor;
  }
}

}  // namespace
}  // namespace greta
