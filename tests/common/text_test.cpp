#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "common/json_document.h"
#include "common/json_text.h"
#include "common/near_words.h"
#include "common/sha256.h"
#include "common/utc_time.h"

namespace greta {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(JsonText, StringsAreEscaped) {
  EXPECT_EQ(as_json("\x1b\"\\\n"), "\"\\u001b\\\"\\\\\\n\"");
  EXPECT_EQ(as_json("\b\f\r\t\x7f"), "\"\\b\\f\\r\\t\\u007f\"");
  EXPECT_EQ(as_json(std::string("a\0b", 3)), "\"a\\u0000b\"");
  EXPECT_EQ(as_json("é日😀"), "\"é日😀\"");
  EXPECT_EQ(as_json("a\xff\xe2\x82"), "\"a\uFFFD\uFFFD\uFFFD\"");
}

TEST(JsonText, WhatIsNotShownIsEscaped) {
  EXPECT_EQ(as_json("a\u202eb\u0085\u200d\u2028"), "\"a\\u202eb\\u0085\\u200d\\u2028\"");
  EXPECT_EQ(as_json("\U000e0041"), "\"\\udb40\\udc41\"");
}

TEST(JsonText, EveryStringReadsBack) {
  std::string all;
  for (int c = 0; c < 0x80; ++c) all += static_cast<char>(c);
  all += "é日😀\u0080\u202e\u200d\ufeff\U000e0041";
  EXPECT_EQ(nlohmann::json::parse(as_json(all)), all);
}

TEST(JsonText, NumbersReadBackTheSame) {
  for (double x : {0.1, 1.0 / 3, 1e-300, 5e-324, 1.7976931348623157e308, -0.0, 31.25, 1.0}) {
    EXPECT_EQ(std::strtod(as_json(x).c_str(), nullptr), x);
  }
  EXPECT_EQ(as_json(1.0), "1");
  EXPECT_EQ(as_json(std::nan("")), "null");
  EXPECT_EQ(as_json(-kInfinity), "null");
  EXPECT_EQ(as_json(std::numeric_limits<int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(as_json(std::numeric_limits<uint64_t>::max()), "18446744073709551615");
}

TEST(JsonText, ObjectsKeepTheOrderOfTheirMembers) {
  const double doubles[] = {0.5, kInfinity};
  const float floats[] = {0.5f, -INFINITY, NAN};
  JsonObject object;
  object.add("b", true)
      .add("a", 1)
      .add("none", std::optional<int>())
      .add("some", std::optional(2.5));
  object.add("text", "x").add("doubles", std::span(doubles)).add("floats", std::span(floats));
  object.raw("list", json_array({"1", "{}"})).raw("nothing", json_array({}));
  EXPECT_EQ(object.str(), R"({"b":true,"a":1,"some":2.5,"text":"x","doubles":[0.5,null],)"
                          R"("floats":[0.5,-Infinity,NaN],"list":[1,{}],"nothing":[]})");
}

TEST(JsonText, TakeEmptiesTheObject) {
  JsonObject object;
  EXPECT_EQ(object.add("a", 1).take(), R"({"a":1})");
  EXPECT_EQ(object.take(), "{}");
}

using Words = std::vector<std::string>;

TEST(NearWords, AreThoseThatHoldItThenThoseOfFewChanges) {
  const Words words{"firstfail", "failure", "history", "fail"};
  EXPECT_EQ(near_words("FAIL", words), (Words{"fail", "failure", "firstfail"}));
  EXPECT_EQ(near_words("firstfial", words), Words{"firstfail"});
  EXPECT_EQ(near_words("hystori", words), Words{"history"});
  EXPECT_EQ(near_words("something else", words), Words());
}

TEST(NearWords, AreFiveAtMost) {
  EXPECT_EQ(near_words("a", {"a1", "a2", "a3", "a4", "a5", "a6"}).size(), 5u);
}

TEST(NearWords, UnknownNameListsTheNearestElseAllOfFew) {
  const UsageError near = unknown_name("mode", "kv_alined", {"kv_aligned", "as_designed"}, "`x`");
  EXPECT_STREQ(near.what(), "no mode 'kv_alined'; perhaps:");
  EXPECT_EQ(near.lines, Words{"  kv_aligned"});
  const UsageError few = unknown_name("mode", "q", {"kv_aligned", "as_designed"}, "`x`");
  EXPECT_STREQ(few.what(), "no mode 'q'; there are:");
  EXPECT_EQ(few.lines.size(), 2u);
  const UsageError many = unknown_name("mode", "q", Words(13, "abc_def"), "`x`");
  EXPECT_STREQ(many.what(), "no mode 'q'; `x` lists them");
  EXPECT_STREQ(unknown_name("mode", "q", {}, "`x`").what(), "no mode 'q': there is none");
}

TEST(Sha256, MatchesThePublishedVectors) {
  Sha256 hash;
  EXPECT_EQ(hash.hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  hash.update("a", 1);
  EXPECT_NE(hash.hex(), "");
  hash.update("bc", 2);
  EXPECT_EQ(hash.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256::hex_of("abc"), hash.hex());
}

TEST(JsonDocument, WordsThatAreNotFiniteAreQuotedFromADepthOn) {
  const std::string json = R"({"a":NaN,"b":{"c":-Infinity,"NaN":["x NaN",1e400]},"d":Infinity})";
  EXPECT_EQ(with_quoted_nonfinite(json),
            R"({"a":"NaN","b":{"c":"-Infinity","NaN":["x NaN","1e400"]},"d":"Infinity"})");
  EXPECT_EQ(with_quoted_nonfinite(json, 2),
            R"({"a":NaN,"b":{"c":"-Infinity","NaN":["x NaN","1e400"]},"d":Infinity})");
}

TEST(UtcTime, ADayThatNoCalendarHasIsNone) {
  for (const char* day : {"2026-02-28", "2024-02-29", "2000-02-29", "2026-12-31", "2026-04-30"}) {
    EXPECT_TRUE(is_day(day)) << day;
  }
  for (const char* day :
       {"", "2026", "2026-02", "2026-02-30", "2026-02-29", "1900-02-29", "2026-04-31", "2026-13-01",
        "2026-00-01", "2026-01-00", "2026-1-01", "26-01-01", "2026/01/01", "2026-01-01 ",
        " 2026-01-01", "+026-01-01", "2026-01-0a", "2026-01-01T00:00:00Z"}) {
    EXPECT_FALSE(is_day(day)) << day;
  }
  EXPECT_TRUE(is_day(utc_day_before(0)));
}

TEST(UtcTime, ATimeOfAnyZoneIsThatOfUtc) {
  const std::pair<const char*, const char*> cases[] = {
      {"2026-02-07T12:00:00Z", "2026-02-07T12:00:00Z"},
      {"2026-02-07T23:59:60Z", "2026-02-07T23:59:60Z"},
      {"2026-02-07T12:00:00", "2026-02-07T12:00:00Z"},
      {"2026-02-07T12:00:00.123456+00:00", "2026-02-07T12:00:00.123456Z"},
      {"2026-02-07T00:30:00+01:00", "2026-02-06T23:30:00Z"},
      {"2026-12-31T23:30:00.5-05:45", "2027-01-01T05:15:00.5Z"},
      {"2026-12-31t23:30:00.5-0545", "2027-01-01T05:15:00.5Z"},
      {"2026-02-07T12:00:00+0000", "2026-02-07T12:00:00Z"},
      {"2026-02-07t12:00:00z", "2026-02-07T12:00:00Z"},
  };
  for (const auto& [text, utc] : cases) EXPECT_EQ(utc_time(text), utc) << text;
  for (const char* text :
       {"", "2026-02-07", "2026-02-30T12:00:00Z", "2026-02-07T24:00:00Z", "2026-02-07T12:60:00Z",
        "2026-02-07T12:00:61Z", "2026-02-07T12:00:00.Z", "2026-02-07T12:00:00+24:00",
        "2026-02-07T12:00:00+1:00", "2026-02-07T12:00:00+2400", "2026-02-07T12:00:00+0060",
        "2026-02-07T12:00:00+000", "2026-02-07x12:00:00Z", "2026-02-07T12:00:00Zx",
        "2026-02-07 12:00:00Z", "2026-02-07T12:00Z", "2026-02-07Tgarbage00"}) {
    EXPECT_EQ(utc_time(text), "") << text;
  }
  EXPECT_EQ(utc_time(utc_now()), utc_now());
}

}  // namespace

}  // namespace greta
