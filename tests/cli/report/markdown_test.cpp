#include "cli/report/markdown.h"

#include <gtest/gtest.h>

#include <string>

namespace greta {
namespace {

TEST(Markdown, ANameThatBeginsALineIsNoBlock) {
  EXPECT_EQ(escaped_line("# x"), "\\# x");
  EXPECT_EQ(escaped_line("- x"), "\\- x");
  EXPECT_EQ(escaped_line("12. x"), "12\\. x");
  EXPECT_EQ(escaped_line("2026-02-07"), "2026-02-07");
  EXPECT_EQ(escaped_line(""), "");
}

TEST(Report, PercentagesNeverRoundToAllOrNothing) {
  EXPECT_EQ(percent_text(12, 48), "25.00%");
  EXPECT_EQ(percent_text(24999, 25000), "99.99%");
  EXPECT_EQ(percent_text(999999, 1000000), "99.99%");
  EXPECT_EQ(percent_text(1, 1000000), "<0.01%");
  EXPECT_EQ(percent_text(0, 5), "0.00%");
  EXPECT_EQ(percent_text(5, 5), "100.00%");
  EXPECT_EQ(percent_text(0, 0), "-");
}

}  // namespace
}  // namespace greta
