#include "ingest/report_pairs.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ingest/table.h"

namespace greta {
namespace {

std::vector<ReportPair> pairs_of(const std::string& rows) {
  const auto tables = read_pipe_tables(
      "| PROMPT | TOKEN_ID | POS_ID | LAYER | TENSOR | FIRST_FAIL | ROOT_CAUSE | DETAILS |\n"
      "|---|---|---|---|---|---|---|---|\n" +
      rows);
  return report_pairs(tables.at(0)).value();
}

TEST(ReportPairs, ReadsMatchesAndDrifts) {
  const auto pairs = pairs_of(
      "| p0_short | 116 | 37 | 0 | embed_out | None | None | {'hash_match': True} |\n"
      "| p0_short | None | None | 0 | attn_out | ATTN_OUT_DRIFT | ATTN_OUT_DRIFT | "
      "{'hash_mismatch': True, 'prefill_hash': 4144761... |\n");
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0].status, ReportPair::kMatch);
  EXPECT_EQ(pairs[0].prompt, "p0_short");
  EXPECT_EQ(pairs[0].token_id, 116);
  EXPECT_EQ(pairs[0].pos_id, 37);
  EXPECT_EQ(pairs[0].layer, 0);
  EXPECT_EQ(pairs[0].cause, "");
  EXPECT_EQ(pairs[1].status, ReportPair::kDrift);
  EXPECT_EQ(pairs[1].token_id, std::nullopt);
  EXPECT_EQ(pairs[1].pos_id, std::nullopt);
  EXPECT_EQ(pairs[1].tensor, "attn_out");
  EXPECT_EQ(pairs[1].cause, "ATTN_OUT_DRIFT");
  EXPECT_EQ(pairs[1].details, "{'hash_mismatch': True, 'prefill_hash': 4144761...");
  EXPECT_EQ(pairs[1].line, 4);
}

TEST(ReportPairs, TraceOffsetIsMissingWithOrWithoutATensor) {
  const auto pairs = pairs_of(
      "| p | 1 | 37 | 0 | None | TRACE_OFFSET | TRACE_OFFSET | - |\n"
      "| p | 1 | 37 | 0 | x_in | TOKEN_ID | TRACE_OFFSET | - |\n");
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0].status, ReportPair::kMissing);
  EXPECT_EQ(pairs[0].tensor, "");
  EXPECT_EQ(pairs[1].status, ReportPair::kMissing);
  EXPECT_EQ(pairs[1].cause, "TOKEN_ID");
  EXPECT_EQ(pairs[1].root_cause, "TRACE_OFFSET");
}

struct NoMatchCase {
  std::string name, row;
};
TEST(ReportPairs, NoMatchRowIsNoMatch) {
  const std::vector<NoMatchCase> cases = {
      {"Template", "| TBD | TBD | TBD | TBD | TBD | TBD | TBD | TBD |\n"},
      {"PendingFail", "| p | 1 | 2 | 0 | attn_out | TBD | TBD | TBD |\n"},
      {"NoTensor", "| p | 1 | 2 | 0 | None | None | None | - |\n"},
      {"NoPrompt", "| | 1 | 2 | 0 | attn_out | None | None | - |\n"},
      {"CutBeforeFirstFail", "| p | 1 | 2 | 0 | attn_out\n"},
      {"DetailsSayMismatch", "| p | 1 | 2 | 0 | x | None | None | {'hash_mismatch': True} |\n"},
      {"DetailsSayNoMatch", "| p | 1 | 2 | 0 | x | None | None | {\"hash_match\": false} |\n"},
      {"OnlyRootCause", "| p | 1 | 2 | 0 | x | None | BAD | - |\n"}};
  for (const NoMatchCase& c : cases) {
    SCOPED_TRACE(c.name);
    for (const ReportPair& pair : pairs_of(c.row)) {
      EXPECT_NE(pair.status, ReportPair::kMatch);
    }
  }
}

TEST(ReportPairs, LooseFormCountsTokens) {
  const auto tables = read_pipe_tables(
      "PROMPT | POS | TOK | FIRST_FAIL | ROOT_CAUSE\n-----------\n"
      "p0 | 4 | 3 | TOKEN_ID | TRACE_OFFSET\np0 | 5 | 4 | - | -\n");
  const auto pairs = report_pairs(tables.at(0)).value();
  ASSERT_EQ(pairs.size(), 1u) << "a row without a tensor that claims nothing is no pair";
  EXPECT_EQ(pairs[0].pos_id, 4);
  EXPECT_EQ(pairs[0].token_id, std::nullopt);
}

TEST(ReportPairs, DelimitedHeaderOnlyIsZeroPairsAndAnyCaseCounts) {
  EXPECT_TRUE(report_pairs(read_delimited("prompt\tfirst_fail\r\n", '\t')).value().empty());
  EXPECT_EQ(report_pairs(read_delimited("prompt\tstatus\np\tOK\n", '\t')), std::nullopt);
  EXPECT_EQ(report_pairs(Table{}), std::nullopt);
}

TEST(ReportPairs, UnescapedPipesStayInDetails) {
  const auto pairs = pairs_of("| p | 1 | 2 | 0 | x | X_DRIFT | X_DRIFT | a | b |\n");
  EXPECT_EQ(pairs.at(0).details, "a | b");
}

std::optional<ReportPair> pair_of(const std::string& header, const std::string& row) {
  const auto pairs = report_pairs(read_delimited(header + "\n" + row + "\n", ';'));
  if (!pairs) return std::nullopt;
  EXPECT_LE(pairs->size(), 1u);
  return pairs->empty() ? std::nullopt : std::optional(pairs->front());
}

/// Status of the only pair of a row; nothing when it has none.
std::optional<ReportPair::Status> status_of(const std::string& header, const std::string& row) {
  const auto pair = pair_of(header, row);
  return pair ? std::optional(pair->status) : std::nullopt;
}

const std::string kHashed = "tensor;prefill_hash;decode_hash;status";

TEST(ReportPairs, DifferentHashesAreADriftWhateverTheStatusSays) {
  const std::vector<std::string> headers = {
      "prefill_hash;decode_hash",       "hash_prefill;hash_decode",
      "Hash (prefill);Hash (decode)",   "prefill hash;decode hash",
      "PREFILL_HASH;DECODE_HASH",       "prefillHash;decodeHash",
      "prefill_last_hash;decode0_hash", "`prefill` fingerprint;`decode` fingerprint"};
  const std::vector<std::string> judgements = {"FIRST_FAIL", "status", "Result", "verdict",
                                               "match"};
  const std::vector<std::string> words = {"None", "PASS", "MATCH", "OK", "", "-", "TBD", "\u2705"};
  for (const std::string& header : headers) {
    for (const std::string& judgement : judgements) {
      for (const std::string& word : words) {
        SCOPED_TRACE(header + " " + judgement + " " + word);
        const auto pair = pair_of("prompt;tensor;" + header + ";" + judgement,
                                  "p0;attn_out;123456789012;123456789013;" + word);
        ASSERT_TRUE(pair);
        EXPECT_EQ(pair->status, ReportPair::kDrift);
        EXPECT_TRUE(pair->only_hashes_differ);
        EXPECT_EQ(pair->details, "prefill 123456789012, decode 123456789013");
      }
    }
  }
}

TEST(ReportPairs, ADriftStaysOneWhateverTheHashesSay) {
  for (const std::string status :
       {"DRIFT", "FAIL", "FAIL_EQUIV", "EXPECTED_DRIFT", "mismatch", "no match", "not equal",
        "false", "\u274c", "fall\u00f3", "\u2717", "ok \u2260"}) {
    const auto pair = pair_of(kHashed, "x_in;7;7;" + status);
    ASSERT_TRUE(pair) << status;
    EXPECT_EQ(pair->status, ReportPair::kDrift) << status;
    EXPECT_FALSE(pair->only_hashes_differ) << status;
  }
  EXPECT_EQ(status_of("tensor;prefill_hash;decode_hash;hash_mismatch", "x_in;7;7;True"),
            ReportPair::kDrift);
  EXPECT_EQ(status_of(kHashed + ";verdict", "x_in;7;7;OK;FAIL"), ReportPair::kDrift);
}

TEST(ReportPairs, EqualHashesAreAMatchUnlessTheRowIsOpen) {
  for (const std::string status : {"MATCH", "OK", "none", "no drift", "PASS_EQUIV"}) {
    EXPECT_EQ(status_of(kHashed, "x_in;7;0007;" + status), ReportPair::kMatch) << status;
  }
  EXPECT_FALSE(pair_of("prompt;tensor;first_fail;prefill_hash;decode_hash", "p;x_in;TBD;7;7"));
  EXPECT_FALSE(pair_of("prefill_hash;decode_hash", "7;7")) << "it names nothing";
}

TEST(ReportPairs, AStatusThatLeavesADoubtIsMissingAndHidesNoFailure) {
  const std::string header = "prompt;tensor;first_fail;status";
  for (const std::string status :
       {"INCONCLUSIVE", "MATCH?", "skipped", "pending", "D R I F T", "0.5"}) {
    EXPECT_EQ(status_of(header, "p;x_in;None;" + status), ReportPair::kMissing) << status;
    EXPECT_EQ(status_of(header, "p;x_in;X_DRIFT;" + status), ReportPair::kDrift) << status;
  }
}

TEST(ReportPairs, OneHashAloneDecidesNothing) {
  EXPECT_FALSE(pair_of("tensor;prefill_hash;decode_hash", "x_in;7;-"));
  EXPECT_FALSE(pair_of("tensor;prefill_hash;decode_hash", "x_in;;8"));
  EXPECT_EQ(report_pairs(read_delimited("tensor;prefill_hash;hash_match\nx;7;true\n", ';')),
            std::nullopt);
}

TEST(ReportPairs, EveryPairOfHashesOfARowCounts) {
  const std::string header =
      "tensor;prefill_hidden_hash;prefill_logits_hash;decode_hidden_hash;decode_logits_hash";
  EXPECT_EQ(pair_of(header, "x;1;2;1;2")->status, ReportPair::kMatch);
  EXPECT_EQ(pair_of(header, "x;1;2;1;3")->details, "prefill 2, decode 3");
  EXPECT_EQ(pair_of(header, "x;1;2;2;1")->status, ReportPair::kDrift);
}

TEST(ReportPairs, HashesInTheDetailsCountToo) {
  const auto pairs = pairs_of(
      "| p | 1 | 2 | 0 | x | None | None | {'prefill_hash': 12, 'decode_hash': 13} |\n"
      "| p | 1 | 2 | 0 | x | None | None | {'prefill_hash': 12, 'decode_hash': 12} |\n"
      "| p | 1 | 2 | 0 | x | None | None | {'prefill_hash': 12..., 'decode_hash': 13...} |\n"
      "| p | 1 | 2 | 0 | x | None | None | {'prefill_hash': 12..., 'decode_hash': 12...} |\n");
  ASSERT_EQ(pairs.size(), 4u);
  EXPECT_EQ(pairs[0].status, ReportPair::kDrift);
  EXPECT_EQ(pairs[1].status, ReportPair::kMatch);
  EXPECT_EQ(pairs[2].status, ReportPair::kDrift);
  EXPECT_EQ(pairs[3].status, ReportPair::kMatch);
}

TEST(ReportPairs, AFailureWithoutAPromptIsNotLost) {
  const auto pairs = pairs_of("| | 1 | 2 | 0 | x | X_DRIFT | None | - |\n");
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].prompt, "");
  EXPECT_EQ(pairs[0].status, ReportPair::kDrift);
}

TEST(ReportPairs, StatusTablesListFailuresAndDoubtsOnly) {
  const Table table = read_delimited(
      "tensor\tlayer\tstatus\nx\t0\tOK\ny\t1\tDRIFT\nz\t2\tMISSING\nw\t3\tINCONCLUSIVE\n", '\t');
  EXPECT_EQ(report_pairs(table), std::nullopt);
  const auto columns = status_columns(table);
  ASSERT_TRUE(columns);
  std::string listed;
  for (const TableRow& row : table.rows) {
    const auto pair = report_pair(table, row, *columns);
    if (pair) listed += pair->tensor + (pair->status == ReportPair::kMissing ? "? " : " ");
  }
  EXPECT_EQ(listed, "y z? w? ");
  EXPECT_FALSE(status_columns(read_delimited("prompt\tstatus\np\tDRIFT\n", '\t')));
}

}  // namespace
namespace {

struct HashCase {
  std::string a, b;
};

TEST(PrintedHash, OneValueIsEqualHoweverItIsPrinted) {
  const std::vector<HashCase> cases = {
      {"4144761570523161186", "4,144,761,570,523,161,186"},
      {"4144761570523161186", "4.144.761.570.523.161.186"},
      {"4144761570523161186", "4 144\u00a0761\u202f570_523'161 186"},
      {"4144761570523161186", "0x398526b041b92262"},
      {"4144761570523161186", "398526B041B92262"},
      {"0xDEADBEEF", "0x00000000deadbeef"},
      {"3735928559", "deadbeef"},
      {"0x00001234", "00001234"},
      {"**`123`**", "'123'"},
      {"000123", "123"},
      {"0", "0x0000000000000000"},
      {"-1", "18446744073709551615"},
      {"-1", "0xffffffffffffffff"},
      {"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
       "0xE3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855"},
      {"same words", "Same Words"}};
  for (const HashCase& c : cases) {
    SCOPED_TRACE(c.a + " and " + c.b);
    EXPECT_EQ(same_printed_hash(c.a, c.b), true);
    EXPECT_EQ(same_printed_hash(c.b, c.a), true);
  }
}

TEST(PrintedHash, OtherValuesDiffer) {
  const std::vector<HashCase> cases = {{"4144761570523161186", "4144761570523161187"},
                                       {"0xdeadbeef", "0xdeadbeee"},
                                       {"0x1234", "1234"},
                                       {"123", "1230"},
                                       {"12345678901234567890123", "0x1"},
                                       {"123", "what"},
                                       {"12...", "13..."},
                                       {"12\u2026", "130"},
                                       {"123...", "12"},
                                       {"12...9", "12...8"},
                                       {"0xab...", "0xac..."},
                                       {"-1", "-2"},
                                       {std::string(300, '1'), std::string(300, '1') + "2"}};
  for (const HashCase& c : cases) {
    SCOPED_TRACE(c.a + " and " + c.b);
    EXPECT_EQ(same_printed_hash(c.a, c.b), false);
    EXPECT_EQ(same_printed_hash(c.b, c.a), false);
  }
}

TEST(PrintedHash, WhatIsAbsentOrCutDecidesNothing) {
  const std::vector<HashCase> cases = {{"", "1"},
                                       {"-", "1"},
                                       {"None", "1"},
                                       {"n/a", "TBD"},
                                       {"123...", "123..."},
                                       {"123...", "123456"},
                                       {"12...", "1234..."},
                                       {"...", "17"},
                                       {"0xab...", "12"}};
  for (const HashCase& c : cases) {
    SCOPED_TRACE(c.a + " and " + c.b);
    EXPECT_EQ(same_printed_hash(c.a, c.b), std::nullopt);
    EXPECT_EQ(same_printed_hash(c.b, c.a), std::nullopt);
  }
}

}  // namespace
}  // namespace greta
