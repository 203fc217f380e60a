#include "ingest/judging_table.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "ingest/text.h"

namespace greta {
namespace {

std::vector<Table> tables_of(std::string_view text) {
  return read_judging_tables(text::split_lines(text));
}

TEST(JudgingTable, TheHeadOfATableOfPairsIsFoundAmidText) {
  const std::vector<Table> tables = tables_of(
      "of B3.9\n\ntensor;layer;status\nx_in;0;OK\nattn_out;0;DRIFT\n\nend\n"
      "tensor\tprefill_hash\tdecode_hash\nx_in\t1\t2\n");
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].line, 3);
  ASSERT_EQ(tables[0].rows.size(), 2u);
  EXPECT_EQ(tables[0].rows[1].line, 5);
  EXPECT_EQ(tables[0].rows[1].cells, (std::vector<std::string>{"attn_out", "0", "DRIFT"}));
  EXPECT_EQ(tables[1].line, 8);
}

TEST(JudgingTable, ASentenceThatNamesColumnsIsNone) {
  for (const char* text : {"Columns: prompt, tensor, status\na, b, c\n",
                           "tensor, status\nand much more than that, in words, of course\n",
                           "tensor,status\n", "a,b\n1,2\n", ""}) {
    EXPECT_TRUE(tables_of(text).empty()) << text;
  }
}

TEST(JudgingTable, RowsArePartsOfARunAsTheFirstColumnSays) {
  const auto of = [](std::vector<std::string> columns) {
    Table table;
    table.columns = std::move(columns);
    return lists_parts_of_a_run(table);
  };
  EXPECT_TRUE(of({"Tensor", "p0", "p1"}));
  EXPECT_TRUE(of({"prompt_id", "x_in", "attn_out"}));
  EXPECT_TRUE(of({"", "x_in", "attn_out"}));
  EXPECT_FALSE(of({"run", "verdict"}));
  EXPECT_FALSE(of({"span", "dtype", "verdict"}));
  EXPECT_FALSE(of({"tensor", "status"}));  // pairs, which are judged as such
  EXPECT_FALSE(of({"step", "accepted", "rejected"}));
  EXPECT_TRUE(is_of_another_run("before the fix"));
  EXPECT_FALSE(is_of_another_run("now"));
}

TEST(JudgingTable, CellsAreApartByWhatTheHeadHas) {
  EXPECT_EQ(delimiter_of_table("a.csv", "a,b;c\n"), ',');
  EXPECT_EQ(delimiter_of_table("a.csv", "# x\na;b\n1,5;2\n"), ';');
  EXPECT_EQ(delimiter_of_table("a.csv", "a\tb\n"), '\t');
  EXPECT_EQ(delimiter_of_table("a.tsv", "a,b\n"), ',');
  EXPECT_EQ(delimiter_of_table("a.tsv", "a\tb,c\n"), '\t');
  EXPECT_EQ(delimiter_of_table("a.csv", ""), ',');
  EXPECT_EQ(delimiter_of_table("a.csv", "#"), ',');
}

TEST(JudgingTable, BoxesAreDrawnPlainly) {
  std::string made;
  EXPECT_EQ(with_plain_boxes("\u2502 a \u2551 b \u2503\n\u251c\u2500\u2550\u253c\u2524 \u2714 \xe2",
                             made),
            "| a | b |\n+--++ \u2714 \xe2");
  const std::string plain = "| a |\n \u2714 \xe2";
  EXPECT_EQ(with_plain_boxes(plain, made).data(), plain.data());
}

}  // namespace
}  // namespace greta
