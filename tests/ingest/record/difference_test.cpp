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

/// A line that can be taken, but for this.
std::string line_with(const std::string& but, const std::string& with) {
  std::string line = kHead + kHashes + kCounts + kSizes + kShares;
  const size_t at = line.find(but);
  EXPECT_NE(at, std::string::npos) << but;
  return line.replace(at, but.size(), with);
}

TEST(RecordDifference, OneThatCannotBeIsAnErrorAndKept) {
  const std::pair<const char*, const char*> bad[] = {
      {R"("point":"attn_out",)", ""},
      {R"(,"pos_id":5)", ""},
      {R"("pos_id":5)", R"("pos_id":-1)"},
      {R"("layer":3)", R"("layer":99999)"},
      {R"("prefill_hash":18446744073709551615,"decode_hash":7,)", ""},
      {"18446744073709551615", "-1"},
      {"18446744073709551615", "7"},
      {R"("n":64)", R"("n":-64)"},
      {R"("n":64)", R"("n":9e9)"},
      {R"("n":64)", R"("n":2147483649)"},
      {R"("differing":3)", R"("differing":0)"},
      {R"("last_at":60)", R"("last_at":64)"},
      {"0.125", "NaN"},
      {"0.125", "1e999"},
      {"2.5", R"("x")"},
      {"[0.5,0, 0 ,0.5]", "[0.5,0.25]"},
      {"[0.5,0, 0 ,0.5]", "[0.5,NaN]"},
      {"[0.5,0, 0 ,0.5]", "[0.5,0.5,]"},
      {"[0.5,0, 0 ,0.5]", "[]"},
      {"[0.5,0, 0 ,0.5]", "0.5"},
      {R"(,"shares":[0.5,0, 0 ,0.5])", ""},
      {R"("heads":4)", R"("heads":4,"rel_l2":0.25)"},
      {R"("heads":4)", R"("heads":4,"flavour":1)"}};
  for (const auto& [but, with] : bad) EXPECT_TRUE(is_refused(line_with(but, with)));
  std::string many = "1";
  for (int i = 0; i < 100'000; ++i) many += ",0";
  EXPECT_TRUE(is_refused(line_with("0.5,0, 0 ,0.5", many)));
}

}  // namespace
}  // namespace greta
