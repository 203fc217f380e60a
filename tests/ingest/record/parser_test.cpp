#include "ingest/record/parser.h"

#include <nlohmann/json.hpp>

#include "tests/ingest/record/record_lines.h"

namespace greta {
namespace {

using nlohmann::json;

TEST(Record, KeysBeyondTheLimitsAreRejectedWithTheLine) {
  const auto line = [](const std::string& field, const std::string& value) {
    const std::string other = field == "layer" ? "" : R"(,"layer":0)";
    return R"({"event":"stage_trace","prompt_id":"p","phase":"decode0","point":"x_in")" + other +
           ",\"" + field + "\":" + value + "}";
  };
  for (const auto& [field, value] :
       std::vector<std::pair<std::string, std::string>>{{"layer", "8190"},
                                                        {"layer", "-2"},
                                                        {"layer", "1.5"},
                                                        {"layer", "\"x\""},
                                                        {"layer", "nan"},
                                                        {"pos_id", "2097151"},
                                                        {"pos_id", "-2"},
                                                        {"pos_id", "99999999999999999999"},
                                                        {"pos_id", "0.5"},
                                                        {"step", "2147483648"},
                                                        {"step", "-2"},
                                                        {"step", "\"\""}}) {
    EXPECT_TRUE(is_refused(line(field, value)));
    EXPECT_NE(findings_of(line(field, value)).front().find(field), std::string::npos);
  }
  for (const auto& [field, value] :
       std::vector<std::pair<std::string, std::string>>{{"layer", "8189"},
                                                        {"layer", "-1"},
                                                        {"pos_id", "2097150"},
                                                        {"pos_id", "-1"},
                                                        {"step", "2147483647"}}) {
    EXPECT_EQ(findings_of(line(field, value)), Strings()) << field << value;
  }
}

TEST(Record, MissingFields) {
  for (const char* line :
       {R"({"event":"stage_trace","layer":0,"phase":"decode0"})",
        R"({"event":"stage_trace","point":"x_in"})",
        R"({"event":"stage_trace","point":null,"layer":0})",
        R"({"event":"stage_trace","point":"x_in","layer":null})",
        R"({"metric":"m","tensor_name":"m","prompt":"p","data":[1]})",
        R"({"step":1,"pos_id":3,"hidden_hash":1})", R"({"step":1,"hidden_hash":1})",
        R"({"step":1,"top1":{"logit":3}})", R"({"step":1,"top1":5})"}) {
    EXPECT_TRUE(is_refused(line));
  }
}

TEST(Record, UnknownEventsAndShapesAreKeptWithAWarning) {
  for (const char* line : {R"({"event":"wo_verify","layer":0})", R"({"event":5})", R"({"a":1})",
                           "{}", R"({"logits":[1,2]})", R"({"sample":[1]})"}) {
    SCOPED_TRACE(line);
    Lines lines;
    lines.add(line);
    EXPECT_TRUE(lines.batch.rows.empty());
    ASSERT_EQ(lines.batch.findings.size(), 1u);
    EXPECT_FALSE(lines.batch.findings[0].is_error);
    EXPECT_EQ(lines.batch.findings[0].raw, line);
  }
}

TEST(Record, ALineThatSpeaksOfARowIsNoneToPassOverWhateverItsEventIs) {
  for (const char* line :
       {R"({"event":"Stage_Trace","point":"x_in","layer":0})", R"({"event":"trace_v2","hash":5})",
        R"({"point":"x_in","layer":0,"phase":"decode0"})", R"({"event":null,"mean":1})",
        R"({"event":5,"nan":1})", R"({"event":"stage_trace","point":"","layer":0})"}) {
    EXPECT_TRUE(is_refused(line));
  }
}

TEST(Record, WhatIsNotOneObjectIsAnError) {
  for (const std::string& line : Strings{"[1,2]",
                                         "5",
                                         "null",
                                         "\"text\"",
                                         "{",
                                         "}",
                                         "{\"event\"",
                                         "{\"event\":",
                                         "{\"event\":\"stage_trace\"",
                                         stage() + stage(),
                                         stage() + " " + stage(),
                                         stage() + "x",
                                         stage() + "]",
                                         stage() + "}",
                                         "x" + stage(),
                                         "{event:1}",
                                         "{'event':1}",
                                         "{\"a\":1,}",
                                         "{,}",
                                         "{\"a\" 1}",
                                         "{\"a\"}",
                                         "{\"a\":}",
                                         "{:1}",
                                         "{\"a\":1 \"b\":2}"}) {
    EXPECT_TRUE(is_refused(line));
  }
}

TEST(Record, BytesThatAreNotText) {
  for (const std::string& line :
       Strings{stage(",\"route\":\"\xff\""), stage(",\"route\":\"\xc3\""),
               stage(std::string(",\"route\":\"a\0b\"", 13)), stage(std::string(",\"x\0y\":1", 8)),
               stage(",\"route\":\"a\tb\""), std::string("\0", 1) + "{", "\xff\xfe{"}) {
    Lines lines;
    lines.add(line);
    EXPECT_TRUE(lines.batch.rows.empty()) << line;
    ASSERT_EQ(lines.batch.findings.size(), 1u) << line;
    EXPECT_TRUE(lines.batch.findings[0].is_error);
    EXPECT_EQ(lines.batch.findings[0].raw, line.substr(line.find_first_not_of('\0')));
  }
}

TEST(Record, WhiteSpaceAroundALineIsNothing) {
  Lines lines;
  for (const char* blank : {"", "\r", "  ", "\t\r"}) lines.add(blank);
  EXPECT_EQ(lines.batch.lines, 4);
  EXPECT_EQ(lines.findings(), Strings());
  EXPECT_EQ(row_of(stage() + "\r"), kStage);
  EXPECT_EQ(row_of("  " + stage() + " \t\r"), kStage);
}

TEST(Record, DeepNesting) {
  const auto nested = [](size_t depth) {
    return stage(",\"deep\":" + std::string(depth, '[') + std::string(depth, ']'));
  };
  Lines lines;
  lines.add(nested(200));
  ASSERT_EQ(lines.batch.rows.size(), 1u);
  EXPECT_TRUE(json::accept(lines.extra(0)));
  for (const size_t depth :
       {size_t{1000}, size_t{1023}, size_t{1024}, size_t{2000}, size_t{1'000'000}}) {
    Lines deep;
    deep.add(nested(depth));
    EXPECT_EQ(deep.batch.rows.size() + deep.batch.findings.size(), 1u) << depth;
  }
  Lines open;
  open.add(stage(",\"deep\":" + std::string(100'000, '[')));
  EXPECT_EQ(open.batch.findings.size(), 1u);
}

TEST(Record, SamplesUpToTheLimitOfAFingerprint) {
  std::string values = "0";
  values.reserve(5 << 20);
  for (size_t i = 1; i < (1u << 21); ++i) values += ",1";
  Lines lines;
  lines.add(stage(R"(,"hash":1,"sample":[)" + values + "]"));
  ASSERT_EQ(lines.batch.rows.size(), 1u);
  EXPECT_EQ(lines.batch.rows[0].sample.size(), size_t{1} << 21);
  const Strings more = findings_of(stage(R"(,"hash":1,"sample":[)" + values + ",1]"));
  ASSERT_EQ(more.size(), 1u);
  EXPECT_TRUE(more[0].starts_with("1 error more values than a row can have")) << more[0];
}

TEST(Record, ASampleThatContradictsItsCountIsAWarning) {
  Lines lines;
  lines.add(stage(R"(,"hash":1,"sample_n":64,"sample":[1,2])"));
  EXPECT_EQ(lines.batch.rows.size(), 1u);
  ASSERT_EQ(lines.batch.findings.size(), 1u);
  EXPECT_FALSE(lines.batch.findings[0].is_error);
  EXPECT_EQ(lines.batch.rows[0].sample.size(), 2u);
}

TEST(Record, TwoArraysOfValuesAreAnError) {
  EXPECT_EQ(findings_of(stage(R"(,"sample":[1],"data":[2])")),
            Strings({"1 error two arrays of values"}));
}

TEST(Record, FullBatchesCountWhatIsKeptOfBadLines) {
  Lines lines;
  const std::string bad = stage(",\"x\":\"" + std::string(1 << 20, 'x') + "\"").substr(1);
  int added = 0;
  while (!lines.batch.is_full() && added < 100) lines.add(bad), ++added;
  EXPECT_LT(added, 40);
  Lines wide;
  added = 0;
  while (!wide.batch.is_full() && added < 100) {
    wide.add(stage(",\"x\":\"" + std::to_string(added++) + std::string(1 << 20, 'x') + "\""));
  }
  EXPECT_LT(added, 40);
}

TEST(Record, RecordLinesAreTold) {
  EXPECT_TRUE(is_record_line(R"({"event":"stage_trace"})"));
  EXPECT_TRUE(is_record_line("  {\"hidden_hash\":1}\r"));
  EXPECT_FALSE(is_record_line("{\"a\":1}"));
  EXPECT_FALSE(is_record_line("{\"event\":1"));
  EXPECT_FALSE(is_record_line(""));
}

}  // namespace
}  // namespace greta
