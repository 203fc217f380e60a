#pragma once
#include <string_view>

#include "cli/pages/html.h"

namespace greta {

/// What cli/report writes, as HTML: paragraphs, lists, fields, tables, code blocks; in them
/// **strong**, `code` and escapes. Headings are left out: pages have their own. It need not be any
/// Markdown, only that of MarkdownWriter, escaped() and in_code().
Html html_of_markdown(std::string_view markdown);

/// Of one line, without a block around it.
Html html_of_line(std::string_view line);

}  // namespace greta
