#include "cli/pages/run_page.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "cli/pages/data_block.h"
#include "cli/pages/heat_map.h"
#include "cli/pages/map_reader.h"
#include "cli/pages/markdown_html.h"
#include "cli/pages/page.h"
#include "cli/pages/run_sections.h"
#include "cli/report/brief.h"
#include "cli/report/judged_row.h"
#include "common/json_text.h"
#include "common/utf8.h"

namespace greta {
namespace {

using std::to_string;

/// Runs of several that have a section of their own.
constexpr size_t kMostSections = 8;

Html badge(const Headline& head, const Wording& words) {
  Html html = verdict_badge(head.verdict, fail_kind(head), words);
  if (!head.remark.empty()) {
    html << " <span class=remark>";
    html.text(remark_text(head.remark, head.mode, words)) << "</span>";
  }
  return html;
}

class RunPage {
 public:
  RunPage(QueryPool& statements, Language language)
      : statements_(statements), language_(language), words_(language) {}

  std::string one(const JudgedRow& row) {
    PageContent content;
    const Headline& head = row.head;
    content.title =
        row.run.name + ": " + headline_text(head.verdict, head.remark, head.mode, words_);
    content.kind = "run";
    content.body = section(row, true);
    content.data = data("run");
    return page_of(content, language_);
  }

  std::string several(const JudgedRows& rows) {
    PageContent content;
    const std::string experiment = experiment_of_all(rows);
    content.title = experiment + ": " + words_("brief.title");
    content.kind = "runs";
    Html& body = content.body;
    body << "<header><h1>";
    body.text(experiment) << "</h1>\n<p>";
    body.text(words_("brief.counts", {to_string(rows.size()), counts_text(rows)}))
        << "</p></header>\n";
    table(rows, body);
    size_t shown = 0, fails = 0;
    for (const auto& row : rows) {
      if (row->head.verdict != "FAIL") continue;
      if (++fails > kMostSections) continue;
      ++shown;
      body << "<section class=run id=run" << Html().number(row->run.id) << ">\n"
           << section(*row, false) << "</section>\n";
    }
    if (shown < fails) {
      body << "<p class=note>";
      body << html_of_line(words_("page.unshown", {to_string(fails - shown)})) << "</p>\n";
    }
    content.data = data("runs");
    return page_of(content, language_);
  }

 private:
  std::string data(std::string_view kind) {
    JsonObject object;
    object.add("version", 1)
        .add("kind", kind)
        .raw("words", json_of_map_words(words_, "page.untold"));
    object.raw("measures", json_of_measures(statements_));
    return object.raw("maps", "[" + maps_ + "]").str();
  }

  static std::string experiment_of_all(const JudgedRows& rows) {
    std::set<std::string> names;
    for (const auto& row : rows) names.insert(row->verdict.text("experiment"));
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
  }

  void table(const JudgedRows& rows, Html& body) {
    body << table_head("<table class=sortable>",
                       {"run", "date", "commit", "mode", "verdict", "total_pairs", "location"},
                       words_);
    size_t fails = 0;
    for (const auto& row : rows) {
      const RunVerdict& v = row->verdict;
      const bool linked = row->head.verdict == "FAIL" && ++fails <= kMostSections;
      body << "<tr><td>";
      if (linked) body << "<a href=\"#run" << Html().number(row->run.id) << "\">";
      body.text(row->run.name);
      if (linked) body << "</a>";
      body << "</td><td class=date>";
      body.text(v.show("date")) << "</td><td>";
      body.text(v.show("commit_sha").substr(0, 12)) << "</td><td>";
      body.text(v.show("mode")) << "</td><td>" << badge(row->head, words_)
                                << "</td><td class=number>";
      body.text(v.show("pairs")) << "</td><td>";
      body.text(row->head.fail.cause.empty() ? "-" : fail_place(row->head.fail, words_))
          << "</td></tr>\n";
    }
    body << kTableEnd;
  }

  Html section(const JudgedRow& row, bool alone) {
    Html html;
    html << "<header>\n";
    if (alone) {
      html << "<h1>";
      html.text(row.run.name) << "</h1>\n";
    } else {
      html << "<h2 class=run>";
      html.text(row.run.name) << "</h2>\n";
    }
    html << "<p class=headline>" << badge(row.head, words_) << "</p>\n";
    std::string brief;
    write_brief(statements_, row, language_, [&](std::string_view text) { brief += text; });
    html << "<div class=brief>\n" << html_of_markdown(brief) << "</div>\n</header>\n";

    PairMap map = read_map(statements_, row.run);
    const FailPlace& fail = row.head.fail;
    read_details(statements_, row.run, fail.prompt, map);
    html << "<section>\n<h2>";
    html.text(words_("page.map")) << "</h2>\n";
    if (map.empty()) {
      html << "<p>";
      html.text(words_("page.map.none")) << "</p>\n";
    } else {
      html << "<p class=lead>";
      html.text(words_("page.map.phases")) << "</p>\n";
      html << filter_box(words_);
      html << html_of_map(map, n_maps_, place_of(map, fail), words_);
      const size_t all = map.count(), told = detailed_cells(map);
      if (told < all) {
        html << "<p class=note>"
             << html_of_line(words_("page.map.few", {to_string(told), to_string(all)})) << "</p>\n";
      }
    }
    html << "</section>\n";
    html << sections_of_run(statements_, row, words_);
    maps_ += (n_maps_ == 0 ? "" : ",\n") +
             JsonObject()
                 .add("run", std::string_view(utf8::printable(row.run.name)))
                 .raw("map", json_of_map(map))
                 .str();
    ++n_maps_;
    return html;
  }

  /// The cell of a failure; that of its canonical name, for it may be named otherwise.
  std::optional<CellPlace> place_of(const PairMap& map, const FailPlace& fail) {
    if (fail.cause.empty()) return std::nullopt;
    Query named(
        statements_,
        "SELECT t.name FROM tensor_name n JOIN tensor t ON t.id = n.tensor_id WHERE n.name = ?");
    const std::string tensor = named.bind(1, fail.tensor).step() ? named.text(0) : fail.tensor;
    for (size_t p = 0; p < map.panels.size(); ++p) {
      if (map.panels[p].prompt != fail.prompt) continue;
      for (size_t l = 0; l < map.layers.size(); ++l) {
        if (map.layers[l] != fail.layer) continue;
        for (size_t t = 0; t < map.tensors.size(); ++t) {
          if (map.tensors[t].name == tensor && map.panels[p].cells[l][t]) return CellPlace{p, l, t};
        }
      }
    }
    return std::nullopt;
  }

  QueryPool& statements_;
  Language language_;
  Wording words_;
  std::string maps_;
  size_t n_maps_ = 0;
};

}  // namespace

void write_run_page(QueryPool& statements, const std::vector<Run>& runs, Language language,
                    const TextSink& sink) {
  const JudgedRows rows = judged_rows(statements, runs);
  RunPage page(statements, language);
  sink(rows.size() == 1 ? page.one(*rows.front()) : page.several(rows));
}

}  // namespace greta
