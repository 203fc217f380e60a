// Lines that say how two rows differ: whole or not at all.
#include "tests/ingest/record/record_lines.h"

namespace greta {
namespace {

const std::string kHead =
    R"({"event":"difference","prompt_id":"p0","point":"attn_out","layer":3,"pos_id":5,)";
const std::string kHashes = R"("prefill_hash":18446744073709551615,"decode_hash":7,)";
const std::string kCounts = R"("n":64,"differing":3,"first_at":4,"last_at":60,)";
const std::string kSizes = R"("rel_l2":0.125,"max_abs":2.5,"max_abs_at":60,"max_ulp":9,)";
const std::string kShares = R"("heads":4,"shares":[0.5,0, 0 ,0.5]})";

TEST(RecordDifference, IsTakenWithItsHashes) {
  Lines lines;
  lines.add(kHead + kHashes + kCounts + kSizes + kShares);
  EXPECT_EQ(lines.findings(), Strings());
  ASSERT_EQ(lines.batch.differences.size(), 1u);
  EXPECT_TRUE(lines.batch.rows.empty());
  EXPECT_EQ(lines.batch.differences[0].line, 1);
  const DifferenceRow& d = lines.batch.differences[0].row;
  EXPECT_EQ(lines.batch.names.at(static_cast<size_t>(d.tensor_id)), "attn_out");
  EXPECT_EQ(lines.batch.prompts.at(static_cast<size_t>(d.prompt_id)).name, "p0");
  EXPECT_EQ(d.layer, 3);
  EXPECT_EQ(d.pos_id, 5);
  EXPECT_EQ(d.prefill_hash, ~uint64_t{0});
  EXPECT_EQ(d.decode_hash, 7u);
  EXPECT_EQ(d.n, 64);
  EXPECT_EQ(d.differing, 3);
  EXPECT_EQ(d.first_at, 4);
  EXPECT_EQ(d.last_at, 60);
  EXPECT_EQ(d.rel_l2, 0.125);
  EXPECT_EQ(d.max_abs, 2.5);
  EXPECT_EQ(d.max_abs_at, 60);
  EXPECT_EQ(d.max_ulp, 9);
  EXPECT_EQ(d.heads, 4);
  EXPECT_EQ(d.shares, (std::vector<double>{0.5, 0, 0, 0.5}));
}

TEST(RecordDifference, OfRowsThatAreNotFiniteHasNoDistance) {
  Lines lines;
  lines.add(kHead + kHashes + kCounts + R"("max_abs":0,"max_ulp":0,"heads":0,"shares":[0]})");
  EXPECT_EQ(lines.findings(), Strings());
  ASSERT_EQ(lines.batch.differences.size(), 1u);
  EXPECT_FALSE(lines.batch.differences[0].row.rel_l2.has_value());
  EXPECT_FALSE(lines.batch.differences[0].row.max_abs_at.has_value());
}

TEST(RecordDifference, OneThatCannotBeIsAnErrorAndKept) {
  const std::string bad[] = {
      R"({"event":"difference","prompt_id":"p0","layer":3,"pos_id":5,)" + kHashes + kCounts +
          kSizes + kShares,
      R"({"event":"difference","point":"attn_out","layer":3,)" + kHashes + kCounts + kSizes +
          kShares,
      R"({"event":"difference","point":"attn_out","layer":3,"pos_id":-1,)" + kHashes + kCounts +
          kSizes + kShares,
      R"({"event":"difference","point":"attn_out","layer":99999,"pos_id":1,)" + kHashes + kCounts +
          kSizes + kShares,
      kHead + kCounts + kSizes + kShares,
      kHead + R"("prefill_hash":-1,"decode_hash":7,)" + kCounts + kSizes + kShares,
      kHead + R"("prefill_hash":7,"decode_hash":7,)" + kCounts + kSizes + kShares,
      kHead + kHashes + R"("n":-64,"differing":3,"first_at":4,"last_at":60,)" + kSizes + kShares,
      kHead + kHashes + R"("n":9e9,"differing":3,"first_at":4,"last_at":60,)" + kSizes + kShares,
      kHead + kHashes + R"("n":2147483649,"differing":3,"first_at":4,"last_at":60,)" + kSizes +
          kShares,
      kHead + kHashes + R"("n":64,"differing":0,"first_at":4,"last_at":60,)" + kSizes + kShares,
      kHead + kHashes + R"("n":64,"differing":3,"first_at":4,"last_at":64,)" + kSizes + kShares,
      kHead + kHashes + kCounts + R"("rel_l2":NaN,"max_abs":2.5,"max_abs_at":60,"max_ulp":9,)" +
          kShares,
      kHead + kHashes + kCounts + R"("rel_l2":1e999,"max_abs":2.5,"max_abs_at":60,"max_ulp":9,)" +
          kShares,
      kHead + kHashes + kCounts + R"("rel_l2":0.1,"max_abs":"x","max_abs_at":60,"max_ulp":9,)" +
          kShares,
      kHead + kHashes + kCounts + kSizes + R"("heads":4,"shares":[0.5,0.25]})",
      kHead + kHashes + kCounts + kSizes + R"("heads":4,"shares":[0.5,NaN]})",
      kHead + kHashes + kCounts + kSizes + R"("heads":4,"shares":[0.5,0.5,]})",
      kHead + kHashes + kCounts + kSizes + R"("heads":4,"shares":[]})",
      kHead + kHashes + kCounts + kSizes + R"("heads":4,"shares":0.5})",
      kHead + kHashes + kCounts + kSizes + R"("heads":4})",
      kHead + kHashes + kCounts + kSizes + R"("rel_l2":0.25,)" + kShares,
      kHead + kHashes + kCounts + kSizes + R"("flavour":1,)" + kShares};
  for (const std::string& line : bad) {
    Lines lines;
    lines.add(line);
    EXPECT_TRUE(lines.batch.differences.empty()) << line;
    ASSERT_EQ(lines.batch.findings.size(), 1u) << line;
    EXPECT_TRUE(lines.batch.findings[0].is_error) << line;
    EXPECT_EQ(lines.batch.findings[0].raw, line);
  }
  std::string many = "1";
  for (int i = 0; i < 100'000; ++i) many += ",0";
  Lines lines;
  lines.add(kHead + kHashes + kCounts + kSizes + R"("heads":0,"shares":[)" + many + "]}");
  EXPECT_TRUE(lines.batch.differences.empty());
}

}  // namespace
}  // namespace greta
