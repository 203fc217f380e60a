// Printers of blocks, and what they escape.
#include <gtest/gtest.h>

#include "cli/show/page.h"

namespace greta {
namespace {

TEST(Html, TextIsEscapedAndWhatIsNotShownIsSpelledOut) {
  EXPECT_EQ(Html().text("<a b=\"c\" d='e'>&amp;").str(),
            "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;amp;");
  EXPECT_EQ(Html().text("a\u202e\x1b[31m\nb").str(), "a\\u202e\\x1b[31m\\nb");
  EXPECT_EQ(Html().text("\xff").str(), "\xEF\xBF\xBD");
}

TEST(Html, NumbersAreShort) {
  EXPECT_EQ(Html().place(12.04).str(), "12");
  EXPECT_EQ(Html().place(-0.25).str(), "-0.3");
  EXPECT_EQ(short_real(1.23456e-07), "1.2346e-7");
  EXPECT_EQ(short_real(1e-10), "1e-10");
  EXPECT_EQ(short_real(1e+20), "1e20");
  EXPECT_EQ(short_real(0.0001), "0.0001");
  EXPECT_EQ(short_real(0), "0");
}

TEST(Html, AScriptElementHoldsNoTag) {
  EXPECT_EQ(json_for_script(R"({"a":"</script><!--"})"), R"({"a":"\u003c/script>\u003c!--"})");
}

TEST(Html, SourceHashesAreThoseOfContentSecurityPolicy) {
  // the example of https://www.w3.org/TR/CSP3/#external-hash: alert('Hello, world.');
  EXPECT_EQ(source_hash("alert('Hello, world.');"),
            "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=");
}

Blocks some_of_each() {
  ShownTable table{{"k", {"n", ShownColumn::Kind::kNumber}}};
  table.add({"a|b", "1"});
  table.more = [n = 0](ShownRow& row) mutable {
    row = {{code("c|d"), "2"}};
    return n++ == 0;
  };
  return {Heading{2, "# x", strong("FAIL")},
          FactList{{{"Run", code("r`1")}}},
          Note{"- no list"},
          List{{"1. one", fill_text("**two** of `{0}`, {1}", {"a<b", "**c**"})}, true},
          table,
          Code{"<pre>\n"}};
}

TEST(Blocks, AsMarkdown) {
  std::string text;
  print_markdown(some_of_each(), [&](std::string_view piece) { text += piece; });
  EXPECT_EQ(text,
            "## # x: **FAIL**\n\n"
            "**Run**: `r'1`  \n\n"
            "\\- no list\n\n"
            "1. 1\\. one\n2. **two** of `a<b`, \\*\\*c\\*\\*\n\n"
            "| k | n |\n|---|---|\n| a\\|b | 1 |\n| `c\\|d` | 2 |\n\n"
            "```\n<pre>\n```\n\n");
}

TEST(Blocks, AsHtml) {
  Html html;
  print_html(some_of_each(), html);
  EXPECT_EQ(html.str(),
            "<h2 class=run># x</h2>\n<p class=headline><strong>FAIL</strong></p>\n"
            "<dl class=facts>\n<dt>Run</dt><dd><code>r`1</code></dd>\n</dl>\n"
            "<p>- no list</p>\n"
            "<ol>\n<li>1. one</li>\n<li><strong>two</strong> of <code>a&lt;b</code>, **c**</li>\n"
            "</ol>\n"
            "<div class=wide><table><thead><tr><th scope=col>k</th><th scope=col>n</th></tr>"
            "</thead>\n<tbody>\n"
            "<tr><td>a|b</td><td class=number>1</td></tr>\n"
            "<tr><td><code>c|d</code></td><td class=number>2</td></tr>\n"
            "</tbody></table></div>\n"
            "<pre><code>&lt;pre&gt;\n</code></pre>\n");
}

TEST(Blocks, ANameThatBeginsALineOfMarkdownIsNoBlock) {
  const auto line = [](const std::string& name) {
    std::string text;
    print_markdown({Note{name}}, [&](std::string_view piece) { text += piece; });
    return text.substr(0, text.size() - 2);
  };
  EXPECT_EQ(line("# x"), "\\# x");
  EXPECT_EQ(line("12. x"), "12\\. x");
  EXPECT_EQ(line("2026-02-07"), "2026-02-07");
}

TEST(Blocks, PercentagesNeverRoundToAllOrNothing) {
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
