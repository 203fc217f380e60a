#include "ingest/record/run_event.h"

#include <gtest/gtest.h>

#include "tests/ingest/ingest_fixture.h"

namespace greta {
namespace {

RunEvent taken(const std::string& line) {
  RunEvent event;
  EXPECT_EQ(read_run_event(line, event), "") << line;
  return event;
}

std::string refusal(const std::string& line) {
  RunEvent event;
  return read_run_event(line, event);
}

TEST(RunEvent, Start) {
  const RunEvent e =
      taken(R"({"event":"run_start","experiment":"b3_66_v2","date":"2026-02-07","started_at":"t",)"
            R"("attributes":{"host":"h","inject":["a","b"]}})");
  EXPECT_EQ(e.kind, RunEvent::kStart);
  EXPECT_EQ(e.experiment + e.date + e.started_at, "b3_66_v22026-02-07t");
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"host", "h"}, {"inject", "a"}, {"inject", "b"}};
  EXPECT_EQ(e.attributes, expected);
}

TEST(RunEvent, Attributes) {
  const RunEvent e = taken(R"({"event":"run_attributes","attributes":{"model_sha256":"ab"}})");
  EXPECT_EQ(e.kind, RunEvent::kAttributes);
  const std::vector<std::pair<std::string, std::string>> expected = {{"model_sha256", "ab"}};
  EXPECT_EQ(e.attributes, expected);
}

TEST(RunEvent, AttributesKeepWhatIsNotFiniteAsText) {
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"a", R"([{"x":["-Infinity"]}])"}, {"loss", "NaN"}, {"name", "x NaN"}};
  const std::string attributes =
      R"("attributes":{"loss":NaN,"a":[[{"x":[-Infinity]}]],"name":"x NaN"})";
  RunEvent event;
  EXPECT_EQ(
      read_row_format_event(
          R"({"event":"run_start","format":"greta-rows-1","experiment":"e",)" + attributes + "}",
          event),
      "");
  EXPECT_EQ(event.attributes, expected);
  EXPECT_EQ(taken(R"({"event":"run_attributes",)" + attributes + "}").attributes, expected);
  for (const char* line :
       {R"({"event":"run_start","experiment":NaN,"attributes":{"a":NaN}})",
        R"({"event":"run_start","experiment":NaN})", R"({"event":"run_end","rows":NaN})"}) {
    EXPECT_EQ(refusal(line).substr(0, 22), "not valid JSON at byte") << line;
  }
}

TEST(RunEvent, Prompt) {
  const RunEvent e = taken(
      R"({"event":"run_prompt","prompt_id":"p0","n_tokens":2,"text_sha256":"ab","token_ids":[1, 2],)"
      R"("plan":[{"side":"decode","layer":-1,"points":["logits","hidden"]}]})");
  EXPECT_EQ(e.kind, RunEvent::kPrompt);
  EXPECT_EQ(e.prompt, "p0");
  EXPECT_EQ(e.n_tokens, 2);
  EXPECT_EQ(e.text_sha256, "ab");
  EXPECT_EQ(e.token_ids, "[1,2]");
  ASSERT_EQ(e.plan.size(), 2u);
  EXPECT_TRUE(e.plan[1].decode);
  EXPECT_EQ(e.plan[1].layer, -1);
  EXPECT_EQ(e.plan[1].tensor, "hidden");
}

TEST(RunEvent, End) {
  const RunEvent e = taken(R"({"event":"run_end","status":"complete","rows":7,"finished_at":"t"})");
  EXPECT_EQ(e.kind, RunEvent::kEnd);
  EXPECT_TRUE(e.complete);
  EXPECT_EQ(e.rows, 7);
  EXPECT_FALSE(taken(R"({"event":"run_end","status":"failed"})").complete);
}

TEST(RunEvent, AnIntegerMayBeWrittenAsAFloat) {
  const RunEvent e =
      taken(R"({"event":"run_prompt","prompt_id":"p0","n_tokens":2.0,"token_ids":[1.0,2],)"
            R"("plan":[{"side":"decode","layer":-1.0,"points":["logits"]}]})");
  EXPECT_EQ(e.n_tokens, 2);
  EXPECT_EQ(e.token_ids, "[1,2]");
  EXPECT_EQ(e.plan.at(0).layer, -1);
  EXPECT_EQ(taken(R"({"event":"run_end","status":"complete","rows":7.0})").rows, 7);
}

/// A run_start of the row format with these fields, read; the reason where it is refused.
std::pair<std::string, RunEvent> row_start(const std::string& fields) {
  RunEvent event;
  const std::string start = R"({"event":"run_start","format":"greta-rows-1","experiment":"e",)";
  std::string why = read_row_format_event(start + fields + "}", event);
  return {std::move(why), std::move(event)};
}

TEST(RunEvent, AnAttributeMayRepeatAField) {
  const auto [why, event] = row_start(
      R"("commit":"abc","seed":7,"attributes":{"commit":"abc","seed":"7","experiment":"e","x":"y"})");
  EXPECT_EQ(why, "");
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"x", "y"}, {"commit", "abc"}, {"seed", "7"}};
  EXPECT_EQ(event.attributes, expected);
  for (const char* fields :
       {R"("commit":"abc","attributes":{"commit":"abd"})", R"("attributes":{"commit":"abc"})",
        R"("commit":null,"attributes":{"commit":"abc"})"}) {
    EXPECT_EQ(row_start(fields).first, "attribute commit: run_start has a field of that name")
        << fields;
  }
}

TEST(RunEvent, ASeedHas64Bits) {
  for (const std::string seed : {"18446744073709551615", "-9223372036854775808", "0"}) {
    const auto [why, event] = row_start(R"("seed":)" + seed);
    EXPECT_EQ(why, "");
    EXPECT_EQ(event.attributes.at(0).second, seed);
  }
  for (const char* seed : {"18446744073709551616", "-9223372036854775809", "1.5", "NaN"}) {
    EXPECT_NE(row_start(std::string(R"("seed":)") + seed).first, "") << seed;
  }
}

TEST(RunEvent, WhatCannotBeTakenSaysWhy) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"event":"run_start","date":5})", "date is not a text"},
      {R"({"event":"run_start","date":"2026-02-30"})", "date is no day as YYYY-MM-DD"},
      {R"({"event":"run_start","attributes":[]})", "attributes is not an object"},
      {R"({"event":"run_prompt"})", "run_prompt without prompt_id"},
      {R"({"event":"run_prompt","prompt_id":"p","n_tokens":-1})", "n_tokens is not a count"},
      {R"({"event":"run_prompt","prompt_id":"p","n_tokens":1.5})", "n_tokens is not a count"},
      {R"({"event":"run_prompt","prompt_id":"p","n_tokens":18446744073709551615})",
       "n_tokens is not a count"},
      {R"({"event":"run_prompt","prompt_id":"p","token_ids":7})", "token_ids is not a list"},
      {R"({"event":"run_prompt","prompt_id":"p","token_ids":["x"]})",
       "a token id is not an integer"},
      {R"({"event":"run_prompt","prompt_id":"p","token_ids":[1.5]})",
       "a token id is not an integer"},
      {R"({"event":"run_prompt","prompt_id":"p","token_ids":[18446744073709551615]})",
       "a token id is not an integer"},
      {R"({"event":"run_prompt","prompt_id":"p","plan":{}})", "plan is not a list"},
      {R"({"event":"run_prompt","prompt_id":"p","plan":[1]})",
       "an entry of the plan is not an object"},
      {R"({"event":"run_prompt","prompt_id":"p","plan":[{"side":"x","layer":0,"points":[]}]})",
       "a side of the plan is neither prefill nor decode"},
      {R"({"event":"run_prompt","prompt_id":"p","plan":[{"side":"decode","layer":8190,"points":[]}]})",
       "a layer of the plan is not a layer"},
      {R"({"event":"run_prompt","prompt_id":"p","plan":[{"side":"decode","layer":0.5,"points":[]}]})",
       "a layer of the plan is not a layer"},
      {R"({"event":"run_prompt","prompt_id":"p","plan":[{"side":"decode","layer":0}]})",
       "an entry of the plan has no points"},
      {R"({"event":"run_prompt","prompt_id":"p","plan":[{"side":"decode","layer":0,"points":[""]}]})",
       "a point of the plan is not a name"},
      {R"({"event":"run_end"})", "status is neither complete nor failed"},
      {R"({"event":"run_end","status":"complete","rows":"7"})", "rows is not a count"},
      {R"([])", "an event of a run that is no JSON object"}};
  for (const auto& [line, why] : cases) EXPECT_EQ(refusal(line), why) << line;
  const std::string deep =
      R"({"event":"run_start","x":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  EXPECT_EQ(refusal(deep), "JSON nested deeper than 64");
  EXPECT_EQ(refusal(R"({"event":"run_end",)").substr(0, 25), "not valid JSON at byte 19");
}

}  // namespace
}  // namespace greta
