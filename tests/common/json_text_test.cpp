#include "common/json_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

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

}  // namespace
}  // namespace greta
