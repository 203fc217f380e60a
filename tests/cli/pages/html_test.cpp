// Escapes and conversion.
#include "cli/pages/html.h"

#include <gtest/gtest.h>

#include "cli/pages/cell_columns.h"
#include "cli/pages/markdown_html.h"
#include "cli/report/markdown.h"

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

TEST(MarkdownHtml, SaysWhatReportsSay) {
  EXPECT_EQ(html_of_line("**FAIL** of `a<b`, not **c**").str(),
            "<strong>FAIL</strong> of <code>a&lt;b</code>, not <strong>c</strong>");
  EXPECT_EQ(
      html_of_markdown("# x\n\none\ntwo\n\n- a\n- b\n\n1. c\n\n| k | v |\n|---|---|\n| 1 | "
                       "\\| |\n\n```\n<pre>\n```\n")
          .str(),
      "<p>one<br>two</p>\n<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n<ol>\n<li>c</li>\n</ol>\n"
      "<div class=wide><table>\n<tr><th scope=col>k</th><th scope=col>v</th></tr>\n"
      "<tr><td>1</td><td>|</td></tr>\n</table></div>\n<pre><code>&lt;pre&gt;\n</code></pre>\n");
}

TEST(MarkdownHtml, EscapedTextComesBackAsItWas) {
  for (const char* name :
       {"a*b*c", "**x**", "`code`", "[a](b)", "<script>", "a\\b", "a|b", "~~x~~"})
    EXPECT_EQ(html_of_line(escaped(name)).str(), Html().text(name).str()) << name;
}

}  // namespace
}  // namespace greta
