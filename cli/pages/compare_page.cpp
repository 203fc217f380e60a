#include "cli/pages/compare_page.h"

#include <optional>

#include "cli/pages/data_block.h"
#include "cli/pages/heat_map.h"
#include "cli/pages/map_reader.h"
#include "cli/pages/markdown_html.h"
#include "cli/pages/run_sections.h"
#include "cli/report/judged_row.h"
#include "common/json_text.h"
#include "common/utf8.h"

namespace greta {
namespace {

/// Of all panels the first cell beyond rounding in forward order.
std::optional<CellPlace> first_of_all(const PairMap& map) {
  std::optional<CellPlace> first;
  for (size_t p = 0; p < map.panels.size(); ++p) {
    const auto place = first_beyond(map, p);
    if (!place) continue;
    if (!first || std::pair(place->layer, place->tensor) < std::pair(first->layer, first->tensor)) {
      first = place;
    }
  }
  return first;
}

}  // namespace

void write_compare_page(QueryPool& statements, const Run& a, const Run& b,
                        const ComparisonSummary& summary, Language language, const TextSink& sink) {
  const Wording words(language);
  PageContent content;
  const std::string remark = remark_text(summary.remark, "", words);
  content.title = words("page.compare", {a.name, b.name}) + ": " + summary.verdict +
                  (remark.empty() ? "" : " " + remark);
  content.kind = "compare";
  Html& html = content.body;
  html << "<header>\n<h1>";
  html.text(words("page.compare", {"A", "B"}))
      << "</h1>\n<p class=headline>" << verdict_badge(summary.verdict, summary.kind, words);
  if (!remark.empty()) {
    html << " <span class=remark>";
    html.text(remark) << "</span>";
  }
  html << "</p>\n<dl class=sides><dt>A</dt><dd>";
  html.text(a.name) << "</dd><dt>B</dt><dd>";
  html.text(b.name) << "</dd></dl>\n<div class=brief><ul>\n";
  for (const std::string& line : summary.lines) {
    html << "<li>";
    html.text(line) << "</li>\n";
  }
  html << "</ul></div>\n</header>\n<section>\n<h2>";
  const PairMap map = read_map(statements, a, b);
  html.text(words("page.map")) << "</h2>\n";
  if (map.empty()) {
    html << "<p>";
    html.text(words("page.map.none")) << "</p>\n";
  } else {
    html << "<p class=lead>";
    html.text(words("page.map.runs")) << "</p>\n";
    html << filter_box(words) << html_of_map(map, 0, first_of_all(map), words);
    if (const size_t all = map.count(), most = hashed_cells(map); most < all) {
      html << "<p class=note>"
           << html_of_line(words("page.map.hashed", {std::to_string(most), std::to_string(all)}))
           << "</p>\n";
    }
  }
  html << "</section>\n<section>\n<h2>";
  html.text(words("page.attributes"))
      << "</h2>\n"
      << attribute_table(statements, a, &b, words) << "</section>\n";
  JsonObject data;
  data.add("version", 1)
      .add("kind", std::string_view("compare"))
      .raw("words", json_of_map_words(words, "page.unhashed"));
  data.raw("measures", json_of_measures(statements));
  data.raw("maps", "[" +
                       JsonObject()
                           .add("run", std::string_view(utf8::printable(a.name)))
                           .add("other", std::string_view(utf8::printable(b.name)))
                           .raw("map", json_of_map(map))
                           .str() +
                       "]");
  content.data = data.str();
  sink(page_of(content, language));
}

}  // namespace greta
