// Names that must not change a page.
#pragma once
#include <string>
#include <vector>

namespace greta {

/// Names that someone could give a run, a prompt, a tensor or a file to break out of a page: what
/// ends a tag, an attribute, a script, a style or a comment, what is markup in Markdown or a slot
/// in a text, what nobody sees, and what is no UTF-8.
inline std::vector<std::string> hostile_names() {
  return {"</script><script>alert(1)</script>",
          "\"><svg/onload=alert(1)>",
          "' onfocus='alert(1)",
          "<!--<script>",
          "]]></style></title><b>",
          "</td></tr></table></details></main>",
          "=x class=first",
          "javascript:alert(1)",
          "&lt;b&gt; &#x3c; &quot;",
          "\\\";alert(1);//\\u003cb\\",
          "{0}{1}__proto__",
          "\n# heading\n- item\n| a | b |\n```\n**[a](x)**`",
          "\u202eevil\u2066x\u200b\u2028\ufeff\U000e0041",
          "\x1b[31mred\x07\r\n\t",
          "\xff\xfe\xc3\x28\xed\xa0\x80",
          "%3Cscript%3E%s%n$(reboot)'; DROP TABLE run; --",
          "../../etc/passwd",
          "שם 名前 \xf0\x9f\x98\x80",
          std::string(5000, '<')};
}

}  // namespace greta
