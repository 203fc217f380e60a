#include "ingest/table.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ingest/report_pairs.h"
#include "ingest/text.h"

namespace greta {
namespace {

using Cells = std::vector<std::string>;

struct DelimitedCase {
  std::string name, text;
  char delimiter;
  Cells columns;
  std::vector<Cells> rows;
};

TEST(Table, DelimitedReadsHeaderAndRows) {
  const std::vector<DelimitedCase> cases = {
      {"Empty", "", ',', {}, {}},
      {"OnlyByteOrderMark", "\xef\xbb\xbf", ',', {}, {}},
      {"HeaderOnlyCrlf", "A\tB\r\n", '\t', {"A", "B"}, {}},
      {"BomCrlf",
       "\xef\xbb\xbfstep,top1\r\n0,96965\r\n1,79\r\n",
       ',',
       {"step", "top1"},
       {{"0", "96965"}, {"1", "79"}}},
      {"NoFinalNewline", "a\tb\n1\t2", '\t', {"a", "b"}, {{"1", "2"}}},
      {"EmptyCells", "a\tb\tc\r\n1\t\t\r\n", '\t', {"a", "b", "c"}, {{"1", "", ""}}},
      {"Ragged", "a,b\n1\n1,2,3\n", ',', {"a", "b"}, {{"1"}, {"1", "2", "3"}}},
      {"BlankLines", "\n\na,b\n\n1,2\n\n", ',', {"a", "b"}, {{"1", "2"}}},
      {"Quotes", "a,b\n\"x, \"\"y\"\"\nz\",2\n", ',', {"a", "b"}, {{"x, \"y\"\nz", "2"}}},
      {"QuotedCrlf", "a,b\r\n\"1\",\"2\"\r\n3,4\r\n", ',', {"a", "b"}, {{"1", "2"}, {"3", "4"}}},
      {"TextAfterQuote", "a,b\n\"1\"x,2\n", ',', {"a", "b"}, {{"1x", "2"}}},
      {"QuoteInsideField", "a,b\n5\"x,2\n", ',', {"a", "b"}, {{"5\"x", "2"}}},
      {"UnterminatedQuote", "a,b\n\"1,2\n3,4\n", ',', {"a", "b"}, {{"\"1", "2"}, {"3", "4"}}}};
  for (const DelimitedCase& c : cases) {
    SCOPED_TRACE(c.name);
    const Table table = read_delimited(c.text, c.delimiter);
    EXPECT_EQ(table.columns, c.columns);
    ASSERT_EQ(table.rows.size(), c.rows.size());
    for (size_t i = 0; i < c.rows.size(); ++i) EXPECT_EQ(table.rows[i].cells, c.rows[i]) << i;
  }
}

TEST(Table, MissingCellsAreEmpty) {
  const Table table = read_delimited("a,b\n1\n", ',');
  EXPECT_EQ(table.rows[0].cell(1), "");
  EXPECT_EQ(table.rows[0].cell(static_cast<size_t>(-1)), "");
}

TEST(Table, LinesOfCommentAboveTheHeaderAreNotTheHeader) {
  const Table table = read_delimited("# made by x\n\n  # RESULT: FAIL\na,b\n1,2\n# 3,4\n#5\n", ',');
  EXPECT_EQ(table.columns, (Cells{"a", "b"}));
  EXPECT_EQ(table.line, 4);
  ASSERT_EQ(table.comments.size(), 2u);
  EXPECT_EQ(table.comments[0].cells, (Cells{"# made by x"}));
  EXPECT_EQ(table.comments[1].line, 3);
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(read_delimited("#a,b\n1,2\n", ',').columns, (Cells{"#a", "b"}));
}

TEST(Table, RowsWithMoreThanTheColumnsAreCounted) {
  const Table table = read_delimited("a,b\n1,2\n1,2,\n1,2,3\n1\n1,2, ,4\n", ',');
  EXPECT_EQ(table.rows.size(), 5u);
  EXPECT_EQ(table.wide.rows, 2);
  EXPECT_EQ(table.wide.first_line, 4);
}

TEST(Table, LinesCountThroughQuotedLineEnds) {
  const Table table = read_delimited("\na,b\n\"x\ny\",1\nz,2\n", ',');
  EXPECT_EQ(table.line, 2);
  EXPECT_EQ(table.rows[0].line, 3);
  EXPECT_EQ(table.rows[1].line, 5);
}

TEST(PipeTable, ReadsMarkdownWithSectionEscapesAndLines) {
  const auto tables = read_pipe_tables(
      "# Title\n## 2. **Cambios** vs v1\n\n| Aspect | v2 |\n|:---|---:|\n"
      "| **Flag** | `--mode a\\|b` |\n| short |\n| a | b | c |\n\ntext\n");
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].section, "2. Cambios vs v1");
  EXPECT_EQ(tables[0].line, 4);
  EXPECT_EQ(tables[0].columns, (Cells{"Aspect", "v2"}));
  ASSERT_EQ(tables[0].rows.size(), 3u);
  EXPECT_EQ(tables[0].rows[0].cells, (Cells{"**Flag**", "`--mode a|b`"}));
  EXPECT_EQ(tables[0].rows[0].line, 6);
  EXPECT_EQ(tables[0].rows[1].cells, (Cells{"short"}));
  EXPECT_EQ(tables[0].rows[2].cells, (Cells{"a", "b", "c"}));
}

TEST(PipeTable, ReadsTheLooseFormWithoutLeadingPipes) {
  const auto tables = read_pipe_tables(
      "PROMPT   | POS | TOK | FIRST_FAIL | ROOT_CAUSE\r\n"
      "---------------------------------------------\r\n"
      "p0_short | 2   | 1   | -          | -\r\n");
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].columns.size(), 5u);
  ASSERT_EQ(tables[0].rows.size(), 1u);
  EXPECT_EQ(tables[0].rows[0].cells, (Cells{"p0_short", "2", "1", "-", "-"}));
}

TEST(PipeTable, RulesInsideATableAreNotRowsButDashesAre) {
  const auto tables = read_pipe_tables("| a | b |\n|---|---|\n| - | - |\n|---|---|\n| 1 | 2 |\n");
  ASSERT_EQ(tables.size(), 1u);
  ASSERT_EQ(tables[0].rows.size(), 2u);
  EXPECT_EQ(tables[0].rows[0].cells, (Cells{"-", "-"}));
}

TEST(PipeTable, BannersNameSections) {
  const auto tables = read_pipe_tables("=====\n  FINDINGS\n=====\n\n| a |\n|---|\n");
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].section, "FINDINGS");
  EXPECT_TRUE(tables[0].rows.empty());
}

TEST(PipeTable, CodeFencesAndPlainTextHaveNone) {
  EXPECT_TRUE(read_pipe_tables("```\n| a | b |\n|---|---|\n| 1 | 2 |\n```\n").empty());
  EXPECT_TRUE(read_pipe_tables("~~~~\n```\n| a |\n|---|\n").empty());
  EXPECT_TRUE(read_pipe_tables("a | b\nc | d\n").empty());
  EXPECT_TRUE(read_pipe_tables("plain\n-----\n").empty());
  EXPECT_TRUE(read_pipe_tables("").empty());
}

TEST(TableHostile, AnyBytesAreReadInLinearTime) {
  const size_t n = 1 << 20;
  std::string quotes = "a,b\n";
  for (size_t i = 0; i < n / 2; ++i) quotes += "\"\n";
  EXPECT_FALSE(read_delimited(quotes, ',').columns.empty());
  std::string rules;
  for (size_t i = 0; i < n / 8; ++i) rules += "a|b\n---\n";
  EXPECT_FALSE(read_pipe_tables(rules).empty());
  // A wide header and many short rows: cells are not padded.
  const std::string wide = std::string(n / 2, ',') + "\n";
  std::string rows;
  for (size_t i = 0; i < n / 4; ++i) rows += "x\n";
  EXPECT_EQ(read_delimited(wide + rows, ',').rows.size(), n / 4);
  for (const char c : {'|', '"', '[', '#', '`', '-', '\\', '\0', '\xff', '\n', '\r'}) {
    const std::string bytes(n, c);
    read_delimited(bytes, '\t');
    for (const Table& table : read_pipe_tables(bytes)) report_pairs(table);
  }
  const std::string nul("a\0b,c\nd,\0\n", 10);
  EXPECT_EQ(read_delimited(nul, ',').columns[0], std::string("a\0b", 3));
}

}  // namespace
namespace {

TEST(Text, FencesCloseOnlyWithTheirOwnMark) {
  text::FenceTracker fences;
  using Kind = text::FenceTracker::Kind;
  const std::vector<std::pair<const char*, Kind>> lines = {
      {"a", Kind::kOutside},       {"```json", Kind::kFence}, {"~~~", Kind::kInside},
      {"``` x", Kind::kInside},    {"```", Kind::kFence},     {"``x``", Kind::kOutside},
      {"```x```", Kind::kOutside}, {"~~~", Kind::kFence},     {"```", Kind::kInside}};
  for (const auto& [line, kind] : lines) EXPECT_EQ(fences.next(line), kind) << line;
}

TEST(Text, ACrAloneEndsALine) {
  EXPECT_EQ(text::with_line_ends("a\rb\r\nc\r\r\nd\r"), "a\nb\r\nc\r\r\nd\n");
  EXPECT_EQ(text::with_line_ends("\r\r"), "\n\n");
  EXPECT_EQ(text::with_line_ends("a\n"), "a\n");
  EXPECT_EQ(text::with_line_ends(""), "");
}

}  // namespace
}  // namespace greta
