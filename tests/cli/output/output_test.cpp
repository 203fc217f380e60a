#include "cli/output/output.h"

#include <limits>

#include "cli/output/cell.h"
#include "cli/output/row_printer.h"
#include "cli/output/severity.h"
#include "tests/cli/program.h"

namespace greta {
namespace {

std::string json(const Cell& cell) {
  std::string text;
  append_json(text, cell);
  return text;
}

TEST(Output, RealsReadBackTheSame) {
  for (double x : {0.1, 1.0 / 3, 1e-300, 5e-324, 1.7976931348623157e308, -0.0, 31.25}) {
    EXPECT_EQ(std::strtod(shortest_real(x).c_str(), nullptr), x);
  }
  EXPECT_EQ(shortest_real(1), "1.0");
  EXPECT_EQ(json(std::numeric_limits<double>::infinity()), "1e999");
}

TEST(Output, IntegersAreExact) {
  EXPECT_EQ(json(std::numeric_limits<int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(json(std::numeric_limits<int64_t>::max()), "9223372036854775807");
}

TEST(Output, ControlCharactersAreSpelledOut) {
  EXPECT_EQ(json(Cell("\x1b\"\\\n")), "\"\\u001b\\\"\\\\\\n\"");
}

TEST(TextWidth, ShortensInTheMiddle) {
  EXPECT_EQ(shortened_to_width("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(shortened_to_width("abcdefgh", 7), "abc…fgh");
  EXPECT_EQ(shortened_to_width("abcdefgh", 6), "abc…gh");
  EXPECT_EQ(shortened_to_width("日本日本日本", 9), "日本…日本");
  EXPECT_EQ(shortened_to_width("日本日本日本", 8), "日本…本");
  for (size_t width = 2; width < 12; ++width)
    EXPECT_LE(display_width(shortened_to_width("日x本y日z本w", width)), width) << width;
}

TEST(Output, WidthCountsColumns) {
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("é"), 1u);
  EXPECT_EQ(display_width("e\u0301"), 1u);  // combining accent
  EXPECT_EQ(display_width("日本"), 4u);
}

class Formats : public ProgramTest {
 protected:
  Formats() { Warehouse warehouse(database()); }
  std::string print(const std::string& format, const std::string& sql) {
    Result result = run({"query", sql, "--format", format});
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  }
};

TEST_F(Formats, TableAlignsAndShowsNullAsDash) {
  EXPECT_EQ(
      print("table",
            "SELECT 1 AS n, 'x' AS t UNION ALL SELECT 100, NULL UNION ALL SELECT NULL, '日本'"),
      "  n  t\n"
      "---  ----\n"
      "  1  x\n"
      "100  -\n"
      "  -  日本\n");
  EXPECT_EQ(print("table", "SELECT 1 AS n WHERE 0"), "n\n-\n(no rows)\n");
}

TEST_F(Formats, LongCellsAreNotCut) {
  EXPECT_TRUE(
      run({"query", "SELECT printf('%.*c', 5000, 'x') AS x"}).out.find(std::string(5000, 'x')) !=
      std::string::npos);
}

TEST_F(Formats, TableStreamsWhatFollowsTheRowsThatSizedIt) {
  std::string out =
      print("table",
            "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 5000)"
            " SELECT i, 'abc' AS t FROM c");
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 5002);
  EXPECT_NE(out.find("\n   1  abc\n"), std::string::npos);
}

TEST_F(Formats, CsvFollowsRfc4180) {
  EXPECT_EQ(print("csv",
                  "SELECT 'a,b' AS x, 'say \"hi\"' AS y, NULL AS z, '' AS e, 'l1' || char(10) || "
                  "'l2' AS m"),
            "x,y,z,e,m\r\n\"a,b\",\"say \"\"hi\"\"\",,\"\",\"l1\nl2\"\r\n");
}

TEST_F(Formats, SafeCsvHoldsNoFormula) {
  const std::string sql =
      "SELECT '=1+1' AS a, '+1' AS b, '-x' AS c, '@f' AS d, char(9) || '=1' AS e, char(13) AS f,"
      " 'a=1' AS g, -1 AS h, -1.5 AS i, '' AS j, NULL AS k, '=a,\"b' AS l, -9e999 AS m, 1 AS [=n]";
  const Result safe = run({"query", sql, "--format", "csv", "--csv-safe"});
  EXPECT_EQ(safe.out,
            "a,b,c,d,e,f,g,h,i,j,k,l,m,'=n\r\n"
            "'=1+1,'+1,'-x,'@f,'\t=1,\"'\r\",a=1,-1,-1.5,\"\",,\"'=a,\"\"b\",'-inf,1\r\n");
  EXPECT_EQ(run({"--csv-safe", "--format", "csv", "query", "SELECT '=1' AS a"}).out,
            "a\r\n'=1\r\n");
  EXPECT_EQ(print("csv", "SELECT '=1' AS a"), "a\r\n=1\r\n");
  EXPECT_TRUE(run({"query", "SELECT 1", "--csv-safe"}).says("is for --format csv"));
}

TEST_F(Formats, TsvEscapesItsSeparators) {
  EXPECT_EQ(print("tsv", "SELECT 'a' || char(9) || 'b' || char(10) || '\\' AS x, NULL AS y"),
            "x\ty\na\\tb\\n\\\\\t\n");
}

TEST_F(Formats, MarkdownEscapesBars) {
  EXPECT_EQ(print("md", "SELECT 'a|b' AS x, NULL AS y"),
            "| x | y |\n| --- | --- |\n| a\\|b | - |\n");
}

TEST_F(Formats, JsonKeepsTypesAndMakesKeysUnique) {
  EXPECT_EQ(print("json", "SELECT 1 AS a, 1.0 AS a, 'x' AS b, NULL AS c, x'00ff' AS d"),
            "[\n{\"a\":1,\"a:1\":1.0,\"b\":\"x\",\"c\":null,\"d\":\"00ff\"}\n]\n");
  EXPECT_EQ(print("json", "SELECT 1 WHERE 0"), "[]\n");
  nlohmann::json invalid =
      nlohmann::json::parse(print("json", "SELECT CAST(x'61ff62' AS TEXT) AS t"));
  EXPECT_EQ(invalid[0]["t"],
            "a\xEF\xBF\xBD"
            "b");
}

TEST_F(Formats, HashesSurviveToJson) {
  Warehouse warehouse(database());
  const std::pair<uint64_t, const char*> hashes[] = {
      {0, "0"},
      {9223372036854775807u, "9223372036854775807"},
      {9223372036854775808u, "9223372036854775808"},
      {18446744073709551615u, "18446744073709551615"}};
  int64_t layer = 0;
  for (auto [hash, text] : hashes)
    warehouse.match("attn_out", layer++),
        warehouse.add(prefill("x_in", layer, hash), decode("x_in", layer, hash));
  nlohmann::json trace =
      run({"trace", "--run", "r", "--tensor", "x_in", "--format", "json"}).json();
  nlohmann::json pairs =
      run({"pairs", "--run", "r", "--tensor", "x_in", "--format", "json"}).json();
  ASSERT_EQ(trace.size(), 8u);
  ASSERT_EQ(pairs.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(pairs[i]["prefill_hash"], hashes[i].second);
    EXPECT_EQ(pairs[i]["decode_hash"], hashes[i].second);
    EXPECT_EQ(trace[i]["hash"], hashes[i].second);
  }
}

TEST_F(Formats, UnknownFormatIsAUsageError) {
  EXPECT_TRUE(
      run({"query", "SELECT 1", "--format", "xml"}).answers(2, {"table, json, csv, tsv, md"}));
}

TEST_F(Formats, ClosedReaderEndsQuietly) {
  std::string endless =
      "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT i FROM c";
  Result result = shell("$G query '" + endless + "' --format csv | head -n 2");
  EXPECT_EQ(result.out, "i\r\n1\r\n");
  EXPECT_EQ(result.err, "");
  // With SIGPIPE ignored, as under many job runners.
  result = shell("trap '' PIPE; { $G query '" + endless +
                 "' --format csv; echo $? >status; } | head -n 1");
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(read(path("status")), "141\n");
}

TEST_F(Formats, FullDiskIsAnErrorAndNotSilence) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  EXPECT_TRUE(
      shell("$G query 'SELECT 1' >/dev/full").answers(2, {"cannot write to standard output"}));
}

TEST_F(Formats, NoColourAwayFromATerminal) {
  Warehouse(database()).match("attn_out", 0);
  EXPECT_EQ(run({"firstfail"}).out.find('\x1b'), std::string::npos);
  EXPECT_EQ(run({"runs"}).out.find('\x1b'), std::string::npos);
}

TEST(Severity, EveryWordOfTheDictionaryHasAMeaning) {
  Warehouse warehouse;
  SQLite::Statement words(warehouse.db,
                          "SELECT name FROM status UNION SELECT name FROM class UNION VALUES"
                          " ('PASS'), ('FAIL'), ('NO_EVIDENCE'), ('INCOMPLETE'), ('INCOMPARABLE'),"
                          " ('UNJUDGED'), ('SAME'), ('CHANGED'), ('BROKEN'), ('FIXED'),"
                          " ('ALIGNED'), ('REAL_MISMATCH'), ('ONLY_A'), ('ONLY_B')");
  while (words.executeStep())
    EXPECT_GT(meaning_of(words.getColumn(0).getString()).rank, 0) << words.getColumn(0);
  EXPECT_EQ(meaning_of("PASS").severity, Severity::kGood);
  EXPECT_EQ(meaning_of("DRIFT ROUNDING").severity, Severity::kRounding);
  EXPECT_EQ(meaning_of("AMBIGUOUS DIVERGENT").look, 'c');
  EXPECT_GT(meaning_of("NONFINITE").rank, meaning_of("DRIFT DIVERGENT").rank);
  EXPECT_EQ(meaning_of("no such word").severity, Severity::kOpen) << "never good";
}

}  // namespace
}  // namespace greta
