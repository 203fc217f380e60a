#include "cli/pages/markdown_html.h"

#include <string>
#include <vector>

namespace greta {
namespace {

/// The blocks of a text, line by line.
class Blocks {
 public:
  void line(std::string_view line) {
    if (fenced_) {
      if (line.starts_with("```")) {
        fenced_ = false;
        html_ << "</code></pre>\n";
      } else {
        html_.text(line) << "\n";
      }
    } else if (line.starts_with("```")) {
      end();
      fenced_ = true;
      html_ << "<pre><code>";
    } else if (line.empty() || line.starts_with('#') || line == "---") {
      end();
    } else if (line.starts_with("- ")) {
      begin(Kind::kList);
      html_ << "<li>" << html_of_line(line.substr(2)) << "</li>\n";
    } else if (const size_t digits = line.find_first_not_of("0123456789");
               digits > 0 && line.substr(digits).starts_with(". ")) {
      begin(Kind::kNumbered);
      html_ << "<li>" << html_of_line(line.substr(digits + 2)) << "</li>\n";
    } else if (line.starts_with('|')) {
      row(line);
    } else {
      const bool first = kind_ != Kind::kParagraph;
      begin(Kind::kParagraph);
      if (!first) html_ << "<br>";
      html_ << html_of_line(line);
    }
  }

  Html finish() {
    end();
    return html_;
  }

 private:
  enum class Kind { kNone, kParagraph, kList, kNumbered, kTable };

  void begin(Kind kind) {
    if (kind_ == kind) return;
    end();
    kind_ = kind;
    if (kind == Kind::kParagraph) html_ << "<p>";
    if (kind == Kind::kList) html_ << "<ul>\n";
    if (kind == Kind::kNumbered) html_ << "<ol>\n";
    if (kind == Kind::kTable) html_ << "<div class=wide><table>\n";
  }
  void end() {
    if (kind_ == Kind::kParagraph) html_ << "</p>\n";
    if (kind_ == Kind::kList) html_ << "</ul>\n";
    if (kind_ == Kind::kNumbered) html_ << "</ol>\n";
    if (kind_ == Kind::kTable) html_ << "</table></div>\n";
    kind_ = Kind::kNone;
  }

  void row(std::string_view line) {
    if (line.starts_with("|---")) return;
    const bool head = kind_ != Kind::kTable;
    begin(Kind::kTable);
    html_ << "<tr>";
    size_t from = 1;
    for (size_t i = 1; i < line.size(); ++i) {
      if (line[i] == '\\') {
        ++i;
      } else if (line[i] == '|') {
        std::string_view cell = line.substr(from, i - from);
        if (cell.starts_with(' ')) cell.remove_prefix(1);
        if (cell.ends_with(' ')) cell.remove_suffix(1);
        if (head) {
          html_ << "<th scope=col>" << html_of_line(cell) << "</th>";
        } else {
          html_ << "<td>" << html_of_line(cell) << "</td>";
        }
        from = i + 1;
      }
    }
    html_ << "</tr>\n";
  }

  Html html_;
  Kind kind_ = Kind::kNone;
  bool fenced_ = false;
};

}  // namespace

Html html_of_line(std::string_view line) {
  Html html;
  std::string plain;
  const auto flush = [&] {
    html.text(plain);
    plain.clear();
  };
  bool strong = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size()) {
      constexpr std::string_view kEscaped = "\\|<[*`~#->+=.)";
      if (kEscaped.find(line[i + 1]) != std::string_view::npos) ++i;
      plain += line[i];
    } else if (line[i] == '`') {
      const size_t end = line.find('`', i + 1);
      if (end == std::string_view::npos) {
        plain += line[i];
        continue;
      }
      flush();
      html << "<code>";
      html.text(line.substr(i + 1, end - i - 1)) << "</code>";
      i = end;
    } else if (line.substr(i, 2) == "**") {
      flush();
      if (strong) {
        html << "</strong>";
      } else {
        html << "<strong>";
      }
      strong = !strong;
      ++i;
    } else {
      plain += line[i];
    }
  }
  while (plain.ends_with(' ')) plain.pop_back();
  flush();
  if (strong) html << "</strong>";
  return html;
}

Html html_of_markdown(std::string_view markdown) {
  Blocks blocks;
  while (!markdown.empty()) {
    const size_t end = markdown.find('\n');
    blocks.line(markdown.substr(0, end));
    markdown.remove_prefix(end == std::string_view::npos ? markdown.size() : end + 1);
  }
  return blocks.finish();
}

}  // namespace greta
