#include "ingest/html_table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace greta {
namespace {

using Cells = std::vector<std::string>;

TEST(HtmlTable, RowsAndCellsAreFoundHoweverTheyAreWritten) {
  const std::vector<Table> tables = read_html_tables(
      "a < b\n<table class=\"x\"><thead>\n<TR><th>Tensor</th><TH align=left>Status\n"
      "<tr><td><b>attn</b>_out</td>\n<td>A &amp;&nbsp;B</td></tr>\n<!-- <tr><td>x</td></tr> -->"
      "</table>\n<table><tr><td>alone</td></tr></table><tr><td>k</td></tr>\n<tr><td>v");
  ASSERT_EQ(tables.size(), 3u);
  EXPECT_EQ(tables[0].columns, (Cells{"Tensor", "Status"}));
  EXPECT_EQ(tables[0].line, 3);
  ASSERT_EQ(tables[0].rows.size(), 1u);
  EXPECT_EQ(tables[0].rows[0].cells, (Cells{"attn _out", "A & B"}));
  EXPECT_EQ(tables[0].rows[0].line, 4);
  EXPECT_EQ(tables[1].columns, Cells{"alone"});
  EXPECT_EQ(tables[2].rows.size(), 1u);
}

TEST(HtmlTable, MarksOfATextAreBars) {
  EXPECT_EQ(with_bars_for_tags("<dt>Verdict</dt><dd>FAIL</dd> a < b"), "|Verdict||FAIL| a < b");
  EXPECT_EQ(with_bars_for_tags("<"), "<");
  EXPECT_EQ(with_bars_for_tags(""), "");
}

TEST(HtmlTable, AnyBytesAreReadInTimeLinearInThem) {
  std::string open, cells = "<tr>";
  for (int i = 0; i < 300'000; ++i) open += "<a<!--";
  for (int i = 0; i < 300'000; ++i) cells += "<td>";
  EXPECT_TRUE(read_html_tables(open).empty());
  EXPECT_EQ(with_bars_for_tags(open).size(), 2 + 1u);
  const std::vector<Table> tables = read_html_tables(cells);
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].columns.size(), kMaxCells);
  EXPECT_EQ(tables[0].cut_rows, 1);
}

}  // namespace
}  // namespace greta
