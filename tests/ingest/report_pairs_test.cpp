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
  EXPECT_EQ(pairs[1].prefill_hash_prefix, "4144761");
  EXPECT_EQ(pairs[1].decode_hash_prefix, "");
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
  EXPECT_EQ(pairs[0].logical_tok_idx, 3);
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

}  // namespace
}  // namespace greta
