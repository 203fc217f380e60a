#include "ingest/json_pairs.h"

#include <gtest/gtest.h>

#include <string>

namespace greta {
namespace {

/// "line:prompt/layer/tensor status" of every pair.
std::string claimed_by(const std::string& text, int64_t first_line = 1) {
  constexpr const char* kStatus[] = {"MATCH", "DRIFT", "MISSING"};
  std::string out;
  for (const ReportPair& pair : json_pairs(text, first_line)) {
    out += (out.empty() ? "" : ", ") + std::to_string(pair.line) + ":" + pair.prompt + "/" +
           (pair.layer ? std::to_string(*pair.layer) : "-") + "/" + pair.tensor + " " +
           kStatus[pair.status];
  }
  return out;
}

TEST(JsonPairs, DifferentHashesAreADriftWhateverTheStatusSays) {
  for (const std::string status :
       {R"("none")", R"("PASS")", R"("MATCH")", R"("OK")", R"("")", "null", "true"}) {
    SCOPED_TRACE(status);
    EXPECT_EQ(
        claimed_by(R"({"prompt":"p0","layer":3,"tensor":"q","prefill_hash":123,"decode_hash":456,)"
                   R"("status":)" +
                   status + "}"),
        "1:p0/3/q DRIFT");
  }
}

TEST(JsonPairs, HashesAreNumbersTextsAndObjects) {
  EXPECT_EQ(claimed_by(R"({"tensor":"q","prefill_hash":18446744073709551615,"decode_hash":"-1"})"),
            "1:/-/q MATCH");
  EXPECT_EQ(claimed_by(R"({"tensor":"q","prefill_hash":"0x10","decode_hash":16})"), "1:/-/q MATCH");
  EXPECT_EQ(claimed_by(R"({"tensor":"q","prefill":{"hash":1,"n":4},"decode":{"hash":2}})"),
            "1:/-/q DRIFT");
  EXPECT_EQ(claimed_by(R"({"tensor":"q","prefill_hash":1,"decode_hash":null})"), "");
  EXPECT_EQ(claimed_by(R"({"tensor":"q","prefill_hash":1})"), "");
}

TEST(JsonPairs, AreOfTheLineTheirObjectBeginsOn) {
  const std::string text =
      "{\n \"note\": \"a { in a text \\\" {\",\n \"pairs\": [\n"
      "  {\"tensor\": \"k\", \"prefill_hash\": 1, \"decode_hash\": 1},\n"
      "  {\n   \"tensor\": \"v\",\n   \"prefill_hash\": 1, \"decode_hash\": 2}]}\n";
  EXPECT_EQ(claimed_by(text), "4:/-/k MATCH, 5:/-/v DRIFT");
  EXPECT_EQ(claimed_by(text, 10), "13:/-/k MATCH, 14:/-/v DRIFT");
}

TEST(JsonPairs, OtherTextClaimsNothing) {
  for (const std::string text : {"", "prefill", "{", "{\"prefill_hash\":", "[1]",
                                 "{\"prefill_hash\":1}", "{\"prefill_hash\":1,\"decode_hash\":2",
                                 "{\"prefill_hash\":{\"a\":1},\"decode_hash\":[2]}"}) {
    SCOPED_TRACE(text);
    EXPECT_EQ(claimed_by(text), "");
  }
  EXPECT_EQ(claimed_by("{\"prefill\":" + std::string(100'000, '[')), "");
}

}  // namespace
}  // namespace greta
