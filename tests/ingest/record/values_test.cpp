#include <cmath>
#include <nlohmann/json.hpp>

#include "ingest/record/line_reader.h"
#include "tests/ingest/record/record_lines.h"

namespace greta {
namespace {

using nlohmann::json;

TEST(Record, NonfiniteStatisticsAreKeptAsTextAndFlagged) {
  for (const char* literal :
       {"nan", "-nan", "inf", "-inf", "NaN", "Infinity", "-Infinity", "-nan(ind)", "\"NaN\""}) {
    SCOPED_TRACE(literal);
    Lines lines;
    lines.add(stage(std::string(R"(,"hash":1,"min":)") + literal + R"(,"max":2,"nan":3)"));
    ASSERT_EQ(lines.batch.rows.size(), 1u);
    EXPECT_EQ(lines.findings().size(), 1u);
    EXPECT_FALSE(lines.batch.findings[0].is_error);
    EXPECT_FALSE(lines.batch.rows[0].min);
    EXPECT_EQ(lines.batch.rows[0].max, 2.0);
    EXPECT_EQ(lines.batch.rows[0].nan, 3);
    EXPECT_EQ(lines.batch.rows[0].flags, kFlagNonfiniteStatistic | kFlagRejectedField);
    std::string text = literal;
    std::erase(text, '"');
    EXPECT_EQ(json::parse(lines.extra(0)), (json{{"as_written", {{"min", text}}}}));
  }
}

TEST(Record, OneWarningForALineAndEveryRejectedFieldKept) {
  Lines lines;
  lines.add(stage(R"(,"hash":1,"min":nan,"max":inf,"mean":-nan)"));
  EXPECT_EQ(lines.findings().size(), 1u);
  EXPECT_EQ(json::parse(lines.extra(0)),
            (json{{"as_written", {{"min", "nan"}, {"max", "inf"}, {"mean", "-nan"}}}}));
}

TEST(Record, NonfiniteSampleValuesAreValues) {
  Lines lines;
  lines.add(stage(R"(,"sample":[nan,-inf,inf,NaN,-Infinity,1.5])"));
  EXPECT_EQ(lines.findings(), Strings());
  const TraceRow& row = lines.batch.rows.at(0);
  EXPECT_EQ(row.nan, 2);
  EXPECT_EQ(row.inf, 3);
  EXPECT_EQ(row.min, 1.5);
  EXPECT_TRUE(std::isnan(row.sample[0]));
  EXPECT_EQ(row.sample[1], -INFINITY);
  EXPECT_EQ(row.sample[2], INFINITY);
  EXPECT_TRUE(std::isnan(row.sample[3]));
  EXPECT_EQ(row.sample[4], -INFINITY);
  EXPECT_NE(row.flags & kFlagNonfiniteStatistic, 0);
}

TEST(Record, ASampleOfNothingFiniteHasNoExtremes) {
  Lines lines;
  lines.add(stage(R"(,"sample":[nan,inf])"));
  const TraceRow& row = lines.batch.rows.at(0);
  EXPECT_FALSE(row.min || row.max || row.mean);
  EXPECT_EQ(row.nan, 1);
  EXPECT_EQ(row.inf, 1);
}

TEST(Record, ASampleWithSomethingElseIsRejectedWhole) {
  for (const char* sample : {"[1,\"2\"]", "[1,null]", "[1,[2]]", "[1,true]", "[0.1, -0.2, ...]",
                             "[1,,2]", "[1 2]", "[-]"}) {
    SCOPED_TRACE(sample);
    Lines lines;
    const std::string line = stage(std::string(R"(,"sample":)") + sample);
    lines.add(line);
    EXPECT_TRUE(lines.batch.rows.empty());
    ASSERT_EQ(lines.batch.findings.size(), 1u);
    EXPECT_TRUE(lines.batch.findings[0].is_error);
    EXPECT_EQ(lines.batch.findings[0].raw, line);
  }
}

TEST(Record, HashesAreExactOverTheirWholeRange) {
  for (const char* hash : {"0", "9223372036854775807", "9223372036854775808",
                           "14305319198029099000", "18446744073709551615"}) {
    EXPECT_EQ(row_of(stage(std::string(R"(,"hash":)") + hash)), kStage + " hash=" + hash);
    EXPECT_EQ(row_of(stage(std::string(R"(,"hash":")") + hash + '"')), kStage + " hash=" + hash);
  }
}

TEST(Record, WhatIsNoHashIsAnErrorAndTheRowIsKeptWithoutIt) {
  for (const char* hash :
       {"18446744073709551616", "-1", "1.5e19", "1e3", "\"0x1f\"", "\"\"", "true", "1.0"}) {
    SCOPED_TRACE(hash);
    Lines lines;
    lines.add(stage(std::string(R"(,"hash":)") + hash));
    ASSERT_EQ(lines.batch.rows.size(), 1u);
    EXPECT_FALSE(lines.batch.rows[0].hash);
    ASSERT_EQ(lines.batch.findings.size(), 1u);
    EXPECT_TRUE(lines.batch.findings[0].is_error);
    EXPECT_EQ(lines.batch.rows[0].flags, kFlagRejectedField);
    std::string text = hash;
    std::erase(text, '"');
    EXPECT_EQ(json::parse(lines.extra(0))["as_written"]["hash"], text);
  }
}

TEST(Record, QuotedAndNullFields) {
  EXPECT_EQ(
      row_of(
          R"({"event":"stage_trace","prompt_id":"p","phase":"decode0","point":"attn_out","layer":"3",)"
          R"("token_id":"10","pos_id":"7"})"),
      "attn_out p decode0 layer=3 step=-1 pos=7 token=10 logical=7");
  EXPECT_EQ(row_of(stage(R"(,"token_id":null,"hash":null,"route":null)")), kStage);
}

TEST(Record, HugeNumbers) {
  Lines lines;
  lines.add(stage(R"(,"token_id":99999999999999999999,"min":1e400,"max":-1e-400,"abs_sum":1e308)"));
  ASSERT_EQ(lines.batch.rows.size(), 1u);
  EXPECT_FALSE(lines.batch.rows[0].token_id);
  EXPECT_FALSE(lines.batch.rows[0].min);
  EXPECT_EQ(lines.batch.rows[0].abs_sum, 1e308);
  const json extra = json::parse(lines.extra(0));
  EXPECT_EQ(extra["as_written"]["token_id"], "99999999999999999999");
  EXPECT_EQ(extra["as_written"]["min"], "1e400");
  EXPECT_EQ(row_of(stage(R"(,"sample":[1e39,-1e39])")).find("error"), std::string::npos);
}

}  // namespace
}  // namespace greta
