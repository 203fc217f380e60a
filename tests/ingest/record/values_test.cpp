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
  for (const char* sample :
       {"[1,\"2\"]", "[1,[2]]", "[1,true]", "[0.1, -0.2, ...]", "[1,,2]", "[1 2]", "[-]"}) {
    EXPECT_TRUE(is_refused(stage(std::string(R"(,"sample":)") + sample)));
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

TEST(Record, ACountOfNonfiniteValuesIsReadHoweverItIsSpelt) {
  for (const char* count : {"256", "256.0", "2.56e2", "\"256\"", "\"256.0\""}) {
    SCOPED_TRACE(count);
    Lines lines;
    lines.add(stage(std::string(R"(,"hash":1,"min":1,"nan":)") + count + R"(,"inf":0)"));
    ASSERT_EQ(lines.batch.rows.size(), 1u);
    EXPECT_EQ(lines.batch.rows[0].nan, 256);
    EXPECT_EQ(lines.batch.rows[0].inf, 0);
    EXPECT_EQ(lines.batch.rows[0].flags, 0);
    EXPECT_EQ(lines.findings(), Strings());
  }
}

TEST(Record, ACountOfNonfiniteValuesThatCannotBeReadIsNeverNone) {
  for (const char* key : {"nan", "inf"}) {
    for (const char* count :
         {"\"many\"", "9223372036854775808", "-256", "-1", "null", "0.5", "true", "false", "\"\"",
          "[0]", "{}", "nan", "1e400", "-1e300", "[]"}) {
      SCOPED_TRACE(std::string(key) + " " + count);
      const std::string more = ",\"" + std::string(key) + "\":" + count;
      for (const std::string& row :
           {stage(more), stage(R"(,"hash":1)" + more), stage(more + R"(,"sample":[1,2])")}) {
        Lines lines;
        lines.add(row);
        ASSERT_EQ(lines.batch.rows.size(), 1u);
        EXPECT_NE(lines.batch.rows[0].flags & kFlagNonfiniteStatistic, 0);
        EXPECT_EQ(lines.findings().size(), 1u);
        EXPECT_TRUE(json::parse(lines.extra(0))["as_written"].contains(key));
      }
    }
  }
}

TEST(Record, NonfiniteValuesCountInEveryShape) {
  for (const std::string& line :
       Strings{R"({"metric":"m","layer":0,"phase":"decode0","data":[1],"nan":1})",
               R"({"token_idx":1,"phase":"decode0","logits":[1],"inf":2})",
               R"({"tag":"m","layer":0,"step":1,"hash":1,"nan":"many"})",
               R"({"phase":"decode","step":1,"pos_id":3,"hidden_hash":1,"nan":1})",
               R"({"phase":"decode","step":1,"token_index":3,"hidden_hash":1,"inf":null})"}) {
    SCOPED_TRACE(line);
    Lines lines;
    lines.add(line);
    ASSERT_FALSE(lines.batch.rows.empty());
    for (const TraceRow& row : lines.batch.rows) EXPECT_NE(row.flags & kFlagNonfiniteStatistic, 0);
  }
}

TEST(Record, OfARowOfSeveralOnlyTheOneThatIsNotFiniteIsDoubted) {
  struct Case {
    const char* field;
    size_t doubted;  ///< of hidden, rms, logits
  };
  for (const auto& [field, doubted] :
       {Case{"hidden_max", 0}, {"rms_mean", 1}, {"logits_min", 2}, {"top1_logit", 2}, {"gap", 2}}) {
    SCOPED_TRACE(field);
    Lines lines;
    lines.add(R"({"phase":"decode","step":1,"pos_id":3,"hidden_hash":1,"rms_hash":2,)"
              R"("logits_hash":3,")" +
              std::string(field) + "\":nan}");
    ASSERT_EQ(lines.batch.rows.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      const bool is_doubted = (lines.batch.rows[i].flags & kFlagNonfiniteStatistic) != 0;
      EXPECT_EQ(is_doubted, i == doubted) << i;
      EXPECT_EQ(lines.extra(i).find("as_written") != std::string::npos, i == doubted) << i;
    }
  }
  Lines lines;
  lines.add(
      R"({"phase":"decode","step":1,"token_index":3,"hidden_hash":1,"logits_hash":2,"logits_max":inf})");
  ASSERT_EQ(lines.batch.rows.size(), 2u);
  EXPECT_EQ(lines.batch.rows[0].flags, 0);
  EXPECT_NE(lines.batch.rows[1].flags & kFlagNonfiniteStatistic, 0);
}

TEST(Record, ACountThatTheSampleDoesNotShowStays) {
  Lines lines;
  lines.add(stage(R"(,"inf":3,"sample":[1,2])"));
  EXPECT_EQ(lines.batch.rows.at(0).inf, 3);
}

TEST(Record, AStatisticThatCannotBeReadLeavesTheRowInDoubt) {
  for (const char* value : {"\"many\"", "[1]", "{}", "true", "1e400", "\"NAN\"", "1.2.3"}) {
    for (const char* key : {"min", "max", "mean", "abs_sum"}) {
      SCOPED_TRACE(std::string(key) + " " + value);
      Lines lines;
      lines.add(stage(R"(,"hash":1,")" + std::string(key) + "\":" + value));
      ASSERT_EQ(lines.batch.rows.size() + lines.findings().size(), 2u);
      EXPECT_NE(lines.batch.rows[0].flags & kFlagNonfiniteStatistic, 0);
    }
  }
  EXPECT_EQ(row_of(stage(R"(,"hash":1,"n":2,"min":-1e-400)")), kStage + " n=2 hash=1 min=-0");
}

TEST(Record, ANullWhereARowHasAStatisticLeavesItInDoubt) {
  for (const char* key : {"min", "max", "mean", "abs_sum"}) {
    for (const std::string& known : Strings{R"("hash":1)", R"("hash":null,"nan":0,"mean":1)"}) {
      const std::string field = "\"" + std::string(key) + "\"";
      if (known.find(field) != known.npos) continue;
      SCOPED_TRACE(known + field);
      Lines lines;
      lines.add(stage("," + known + "," + field + ":null"));
      ASSERT_EQ(lines.batch.rows.size(), 1u);
      EXPECT_NE(lines.batch.rows[0].flags & kFlagNonfiniteStatistic, 0);
      EXPECT_EQ(lines.findings().size(), 1u);
      EXPECT_EQ(json::parse(lines.extra(0))["as_written"][key], "null");
    }
  }
  Lines readout;
  readout.add(
      R"({"phase":"decode","step":1,"pos_id":3,"hidden_hash":1,"rms_hash":2,"rms_max":null})");
  EXPECT_EQ(readout.batch.rows.at(0).flags, 0);
  EXPECT_NE(readout.batch.rows.at(1).flags & kFlagNonfiniteStatistic, 0);
}

TEST(Record, ARowOfNothingButNullsHasNoStatistics) {
  EXPECT_EQ(row_of(stage(R"(,"hash":null,"min":null,"max":null,"mean":null,"abs_sum":null)")),
            kStage);
}

TEST(Record, ValuesThatAreNotFiniteMakeTheRowSoWhateverItsCountsSay) {
  for (const char* value :
       {"nan", "-nan", "NaN", "inf", "-inf", "Infinity", "-Infinity", "1e39", "-1e39", "1e400"}) {
    const std::string array = ":[1," + std::string(value) + "]";
    for (const std::string& line :
         {stage(R"(,"hash":1,"nan":0,"inf":0,"sample")" + array),
          stage(R"(,"hash_algo":"greta-1","n":2,"hash":1,"nan":0,"inf":0,"sample")" + array),
          stage(R"(,"hash_algo":"greta-1","n":2,"hash":1,"sample")" + array),
          R"({"metric":"m","layer":0,"phase":"decode0","data")" + array + "}",
          R"({"token_idx":1,"phase":"decode0","logits")" + array + "}",
          R"({"tag":"m","layer":0,"step":1,"hash":1,"nan":0,"sample")" + array + "}"}) {
      EXPECT_TRUE(gives_row_in_doubt(line)) << line;
    }
  }
}

TEST(Record, ASketchThatIsNotFiniteMakesTheRowSo) {
  std::string sketch = "[nan";
  for (int i = 1; i < 32; ++i) sketch += ",1";
  for (const std::string& more :
       {R"("sum_sq":1,"sketch":)" + sketch + "]", std::string(R"("sum_sq":nan,"sketch":[1])")}) {
    EXPECT_TRUE(
        gives_row_in_doubt(stage(R"(,"hash_algo":"greta-1","n":2,"hash":1,"nan":0,)" + more)));
  }
}

TEST(Record, ASketchThatIsNoneIsKeptAsText) {
  const auto sketch = [](const std::string& first, int n) {
    std::string text = R"("sum_sq":4,"sketch":[)" + first;
    for (int i = 1; i < n; ++i) text += ",0";
    return text + "]";
  };
  for (const std::string& bad : {sketch("1", 31), sketch("1", 33), sketch("1e999", 32),
                                 sketch("nan", 32), std::string(R"("sketch":[1])")}) {
    Lines lines;
    lines.add(stage(R"(,"hash_algo":"greta-1","n":4,"hash":1,)" + bad));
    EXPECT_EQ(lines.findings(), Strings{"1 warning a sketch must be 32 finite numbers, with n and "
                                        "sum_sq; it is kept as text"});
    EXPECT_EQ(lines.batch.rows.at(0).sketch, nullptr);
    EXPECT_NE(lines.extra(0).find("sketch"), std::string::npos);
  }
}

TEST(Record, OfNoValuesNothingIsCompared) {
  for (const char* n : {"0", "-1", "-9223372036854775808"}) {
    SCOPED_TRACE(n);
    for (const std::string& line :
         {stage(R"(,"hash":1,"sample_n":)" + std::string(n)),
          stage(R"(,"hash":1,"n":)" + std::string(n)),
          stage(R"(,"hash":1,"sample":[],"sample_n":)" + std::string(n)),
          stage(R"(,"hash_algo":"greta-1","hash":1,"n":)" + std::string(n)),
          R"({"tag":"m","layer":0,"step":1,"hash":1,"n":)" + std::string(n) + "}"}) {
      Lines lines;
      lines.add(line);
      ASSERT_EQ(lines.batch.rows.size(), 1u) << line;
      const TraceRow& row = lines.batch.rows[0];
      EXPECT_EQ(row.n, std::stoll(n)) << line;
      EXPECT_FALSE(row.hash) << line;
      EXPECT_EQ(row.sketch, nullptr) << line;
      EXPECT_FALSE(lines.findings().empty()) << line;
      EXPECT_EQ(json::parse(lines.extra(0))["as_written"]["hash"], "1");
    }
  }
  for (const std::string& more : Strings{"", R"(,"hash":1)", R"(,"hash":1,"sample_n":4)"}) {
    Lines lines;
    lines.add(stage(more + R"(,"sample":[])"));
    ASSERT_EQ(lines.batch.rows.size(), 1u);
    EXPECT_EQ(lines.batch.rows[0].sketch, nullptr);
    EXPECT_TRUE(lines.batch.rows[0].sample.empty());
  }
  std::string sketch = "[0";
  for (int i = 1; i < 32; ++i) sketch += ",0";
  Lines lines;
  lines.add(stage(R"(,"hash_algo":"greta-1","n":0,"sum_sq":0,"sketch":)" + sketch + "]"));
  EXPECT_EQ(lines.batch.rows.at(0).sketch, nullptr);
}

TEST(Record, HugeNumbers) {
  Lines lines;
  lines.add(stage(R"(,"ptr":99999999999999999999,"min":1e400,"max":-1e-400,"abs_sum":1e308)"));
  ASSERT_EQ(lines.batch.rows.size(), 1u);
  EXPECT_FALSE(lines.batch.rows[0].ptr);
  EXPECT_FALSE(lines.batch.rows[0].min);
  EXPECT_EQ(lines.batch.rows[0].abs_sum, 1e308);
  const json extra = json::parse(lines.extra(0));
  EXPECT_EQ(extra["as_written"]["ptr"], "99999999999999999999");
  EXPECT_EQ(extra["as_written"]["min"], "1e400");
  EXPECT_EQ(row_of(stage(R"(,"sample":[1e39,-1e39])")).find("error"), std::string::npos);
}

TEST(Record, AHashThatNobodyWorkedOutIsNone) {
  for (const char* of : {R"(,"hash":0,"sample_n":64)", R"(,"hash":"0","n":64)",
                         R"(,"hash":0,"sample_n":1)", R"(,"hash_algo":"greta-1","hash":0,"n":2)"}) {
    SCOPED_TRACE(of);
    Lines lines;
    lines.add(stage(of));
    ASSERT_EQ(lines.batch.rows.size(), 1u);
    EXPECT_FALSE(lines.batch.rows[0].hash);
    EXPECT_EQ(lines.batch.findings.size(), 1u);
  }
  Lines zero;
  zero.add(stage(R"(,"hash_algo":"greta-1","hash":0,"n":1)"));
  EXPECT_EQ(zero.batch.rows.at(0).hash, 0u) << "that of one zero";
}

TEST(Record, ARowWhoseTokenCannotBeReadIsRefused) {
  for (const char* key : {"token_id", "logical_tok_idx"}) {
    for (const char* value : {"\"seven\"", "9223372036854775808", "7.5", "[7]", "{}", "true"}) {
      EXPECT_TRUE(is_refused(stage(",\"" + std::string(key) + "\":" + value)));
    }
  }
}

TEST(Record, ARowWhosePositionOrPromptIsNoWordIsRefused) {
  for (const char* key : {"pos_id", "prompt_id"}) {
    for (const char* value : {"[7]", "{}", "{\"a\":7}"}) {
      EXPECT_TRUE(is_refused(
          R"({"event":"stage_trace","phase":"decode0","point":"attn_out","layer":0,"step":1,")" +
          std::string(key) + "\":" + value + R"(,"sample_n":64,"hash":7})"));
    }
  }
  EXPECT_TRUE(is_refused(R"({"token_idx":{},"logits":[1,2]})"));
}

TEST(Record, AFieldOfAnotherNameThatReportsNonfiniteValuesLeavesTheRowInDoubt) {
  for (const char* more :
       {R"("NaN":64)", R"("nan_count":64)", R"("num_nan":"1")", R"("has_nan":true)",
        R"("hasInf":1)", R"("is_nan":"yes")", R"("infCount":2)", R"("non_finite":3)",
        R"("nonfinite":null)", R"("stats":{"nan":64})", R"("a":[{"b":{"inf":1}}])",
        R"("extra":{"nan":64})"}) {
    EXPECT_TRUE(gives_row_in_doubt(stage(R"(,"hash":1,)" + std::string(more)))) << more;
  }
  for (const char* more :
       {R"("nan_count":0)", R"("has_nan":false)", R"("stats":{"nan":0,"inf":0.0})", R"("info":5)",
        R"("inference_id":7)", R"("nanoseconds":12)", R"("finish":1)", R"("banana":{"infix":3})"}) {
    EXPECT_FALSE(gives_row_in_doubt(stage(R"(,"hash":1,)" + std::string(more)))) << more;
  }
}

TEST(Record, ARowThatContradictsItselfIsRefused) {
  std::string sketch = R"(,"hash_algo":"greta-1","hash":1,"n":4,"min":-1,"max":2,"sketch":[1)";
  for (int i = 1; i < 32; ++i) sketch += ",0";
  sketch += R"(],"sum_sq":)";
  for (const std::string& more :
       {std::string(R"(,"min":5,"max":-5)"), std::string(R"(,"abs_sum":-3)"),
        std::string(R"(,"hash_algo":"greta-1","n":64,"nz_count":65)"),
        std::string(R"(,"nz_count":-1)"), sketch + "-1"}) {
    EXPECT_TRUE(is_refused(stage(more)));
  }
  // beyond what any rounding does, and no row is lost for it
  for (const std::string& more :
       {std::string(R"(,"min":0,"max":1,"mean":50)"),
        std::string(R"(,"min":-9,"max":1,"abs_sum":2)"),
        std::string(R"(,"hash_algo":"greta-1","hash":1,"n":100,"mean":0.9,"abs_sum":1)"),
        sketch + "0", sketch + "17", sketch + "1e300"}) {
    Lines lines;
    lines.add(stage(more));
    EXPECT_EQ(lines.batch.rows.size(), 1u) << more;
    ASSERT_EQ(lines.batch.findings.size(), 1u) << more;
    EXPECT_FALSE(lines.batch.findings[0].is_error) << more;
  }
  for (const std::string& more :
       {std::string(R"(,"min":0.1,"max":0.1,"mean":0.100001,"abs_sum":0.4)"),
        std::string(R"(,"min":5,"max":-5,"nan":1)"), sketch + "4", sketch + "5"}) {
    EXPECT_TRUE(row_of(stage(more)).starts_with(kStage)) << more;
  }
}

}  // namespace
}  // namespace greta
