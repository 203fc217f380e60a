#include "cli/pages/run_sections.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cli/pages/cell_columns.h"
#include "cli/pages/markdown_html.h"
#include "cli/pages/page.h"
#include "cli/report/propagation.h"
#include "cli/report/section.h"

namespace greta {
namespace {

using std::to_string;

class Sections {
 public:
  Sections(QueryPool& statements, const JudgedRow& row, const Wording& words)
      : statements_(statements),
        row_(row),
        run_(row.run),
        verdict_(row.verdict),
        head_(row.head),
        words_(words) {}

  Html write() {
    propagation();
    kv();
    logits();
    const Html attributes = attribute_table(statements_, run_, nullptr, words_);
    if (!attributes.str().empty()) {
      begin("page.attributes");
      html_ << attributes << "</section>\n";
    }
    conflicts();
    return html_;
  }

 private:
  void begin(TextId title) {
    html_ << "<section>\n<h2>";
    html_.text(words_(title)) << "</h2>\n";
  }

  /// Of the prompt where it first fails.
  void propagation() {
    if (verdict_.number("fail") == 0 || head_.fail.prompt.empty()) return;
    std::string markdown;
    const TextSink sink = [&](std::string_view text) { markdown += text; };
    MarkdownWriter out(words_, sink);
    Propagation(RunSection(statements_, row_, out, 2)).write(head_.fail.prompt);
    begin("propagation");
    html_ << "<details><summary>";
    html_.text(words_("page.tree", {head_.fail.prompt})) << "</summary>\n";
    // the field that names the prompt stands in the summary
    const size_t tree = markdown.find("```");
    html_ << html_of_markdown(std::string_view(markdown).substr(std::min(tree, markdown.size())))
          << "</details></section>\n";
  }

  void kv() {
    // the worst of the positions
    RunQuery rows(
        statements_, run_.id,
        "SELECT prompt, layer, interpretation, count(*) OVER (PARTITION BY prompt, layer),"
        " row_number() OVER (PARTITION BY prompt, layer ORDER BY CASE interpretation"
        " WHEN 'ALIGNED' THEN 5 WHEN 'STRUCTURAL_DRIFT' THEN 4 WHEN 'UNKNOWN' THEN 3"
        " WHEN 'KV_MISALIGNMENT' THEN 1 WHEN 'REAL_MISMATCH' THEN 1 ELSE 2 END),"
        " sum(interpretation NOT IN ('ALIGNED', 'STRUCTURAL_DRIFT'))"
        " OVER (PARTITION BY prompt, layer)"
        " FROM kv_alignment WHERE run_id = ? ORDER BY prompt_id, layer");
    std::map<std::pair<std::string, int64_t>, std::string> cells;
    std::vector<std::string> prompts;
    std::vector<int64_t> layers;
    while (rows.step()) {
      if (rows.integer(4) != 1) continue;
      const std::string prompt = rows.text(0);
      if (std::find(prompts.begin(), prompts.end(), prompt) == prompts.end())
        prompts.push_back(prompt);
      const int64_t layer = rows.integer(1);
      if (std::find(layers.begin(), layers.end(), layer) == layers.end()) layers.push_back(layer);
      cells[{prompt, layer}] = rows.text(2);
    }
    if (prompts.empty()) return;
    std::sort(layers.begin(), layers.end());
    begin("kv");
    html_ << "<p class=lead>";
    html_.text(words_("page.kv.text")) << "</p>\n";
    kv_legend(cells);
    html_ << "<div class=wide><table class=strip><thead><tr><th scope=col>";
    html_.text(words_("prompt")) << "</th>";
    for (const int64_t layer : layers) html_ << "<th scope=col>" << Html().number(layer) << "</th>";
    html_ << "</tr></thead>\n<tbody>\n";
    for (const std::string& prompt : prompts) {
      html_ << "<tr><th scope=row>";
      html_.text(prompt) << "</th>";
      for (const int64_t layer : layers) {
        const auto cell = cells.find({prompt, layer});
        if (cell == cells.end()) {
          html_ << "<td></td>";
          continue;
        }
        html_ << "<td class=\"" << look(cell->second) << "\" title=\"";
        html_.text(meaning(cell->second)) << "\">" << letter(cell->second) << "</td>";
      }
      html_ << "</tr>\n";
    }
    html_ << kTableEnd << "</section>\n";
  }

  static Markup look(const std::string& kind) {
    if (kind == "ALIGNED") return "k-good";
    if (kind == "STRUCTURAL_DRIFT") return "k-round";
    if (kind == "UNKNOWN") return "k-open";
    return "k-bad";
  }
  static Markup letter(const std::string& kind) {
    if (kind == "ALIGNED") return "=";
    if (kind == "STRUCTURAL_DRIFT") return "≈";
    if (kind == "REAL_MISMATCH") return "R";
    if (kind == "KV_MISALIGNMENT") return "K";
    if (kind == "Q_MISMATCH") return "Q";
    return "?";
  }
  std::string meaning(const std::string& kind) const {
    const ReportText* name = find_report_text("guide." + kind);
    return name ? words_.line(*name) : kind;
  }
  void kv_legend(const std::map<std::pair<std::string, int64_t>, std::string>& cells) {
    std::map<std::string, int> kinds;
    for (const auto& [place, kind] : cells) ++kinds[kind];
    html_ << "<ul class=legend>\n";
    for (const auto& [kind, n] : kinds) {
      html_ << "<li><span class=\"letter " << look(kind) << "\">" << letter(kind) << "</span>";
      std::string text = meaning(kind);
      if (const ReportText* more = find_report_text("guide." + kind + ".meaning"))
        text += ": " + words_.line(*more);
      html_.text(text) << "</li>\n";
    }
    html_ << "</ul>\n";
  }

  static std::string token(const Query& row, int id, int logit) {
    if (row.is_null(id)) return "-";
    return row.text(id).empty() && row.is_null(logit)
               ? "-"
               : display_text(row.cell(id)) +
                     (row.is_null(logit) ? "" : " (" + short_real(row.cell(logit).real) + ")");
  }

  void logits() {
    RunQuery rows(
        statements_, run_.id,
        "SELECT l.prompt, l.prefill_route, l.decode_route, p.top1_id, p.top1_logit, p.top2_id,"
        " p.top2_logit, d.top1_id, d.top1_logit, d.top2_id, d.top2_logit, l.prefill_gap,"
        " l.decode_gap, l.prefill_top1 = l.decode_top1, l.prefill_pos_id, l.decode_pos_id"
        " FROM lm_head_delta l JOIN prompt q ON q.run_id = l.run_id AND q.name = l.prompt"
        " JOIN tensor_name n ON n.name = l.tensor"
        " JOIN readout p ON p.run_id = l.run_id AND p.prompt_id = q.id AND p.side = 0"
        "  AND p.name_id = n.id AND p.pos_id = l.prefill_pos_id"
        " JOIN readout d ON d.run_id = l.run_id AND d.prompt_id = q.id AND d.side = 1"
        "  AND d.name_id = n.id AND d.pos_id = l.decode_pos_id"
        " WHERE l.run_id = ? GROUP BY q.id, n.id ORDER BY q.id");
    bool any = false;
    while (rows.step()) {
      if (!any) {
        begin("page.logits");
        html_ << "<p class=lead>";
        html_.text(words_("lm_head.text"))
            << "</p>\n<div class=wide><table><thead><tr><th scope=col>";
        html_.text(words_("prompt")) << "</th>";
        for (const TextId side : {TextId("prefill"), TextId("decode")}) {
          html_ << "<th scope=col>";
          html_.text(words_(side) + ": " + words_("page.logits.top")) << "</th><th scope=col>";
          html_.text(words_("page.logits.gap")) << "</th>";
        }
        html_ << "<th scope=col>";
        html_.text(words_("page.logits.same")) << "</th><th scope=col>";
        html_.text(words_("lm_head.routes")) << "</th></tr></thead>\n<tbody>\n";
      }
      any = true;
      html_ << "<tr><td>";
      html_.text(rows.text(0)) << "</td><td>";
      html_.text(token(rows, 3, 4) + ", " + token(rows, 5, 6)) << "</td><td class=number>";
      html_.text(gap(rows, 11)) << "</td><td>";
      html_.text(token(rows, 7, 8) + ", " + token(rows, 9, 10)) << "</td><td class=number>";
      html_.text(gap(rows, 12)) << "</td><td>";
      html_.text(rows.is_null(13)   ? "-"
                 : rows.integer(13) ? words_("yes")
                                    : words_("not"))
          << "</td><td>";
      html_.text(shown(rows, 1) + " → " + shown(rows, 2)) << "</td></tr>\n";
    }
    if (any) html_ << kTableEnd << "</section>\n";
  }
  static std::string gap(const Query& row, int column) {
    return row.is_null(column) ? "-" : short_real(row.cell(column).real);
  }
  static std::string shown(const Query& row, int column) {
    return row.is_null(column) ? "-" : row.text(column);
  }

  void conflicts() {
    // what they say takes longest of all to prepare, and most runs have no document
    RunQuery documents(statements_, run_.id,
                       "SELECT 1 FROM (SELECT run_id FROM report UNION ALL SELECT run_id FROM"
                       " report_claim) WHERE run_id = ? LIMIT 1");
    if (!documents.step()) return;
    RunQuery rows(statements_, run_.id,
                  "SELECT report_file, claimed, pass, fail, missing, conflict, claim_line"
                  " FROM report_conflict WHERE run_id = ? ORDER BY report_file, claim_line");
    bool any = false;
    while (rows.step()) {
      if (!any) {
        begin("conflict");
        html_ << "<p class=lead>";
        html_.text(words_("conflict.text")) << "</p>\n"
                                            << table_head("<table>",
                                                          {"conflict.document", "conflict.claims",
                                                           "conflict.pairs", "conflict.conflict"},
                                                          words_);
      }
      any = true;
      html_ << "<tr><td>";
      html_.text(rows.text(0));
      if (!rows.is_null(6)) html_.text(", " + words_("conflict.line", {rows.text(6)}));
      html_ << "</td><td>";
      html_.text(rows.is_null(1) ? words_("conflict.nothing") : rows.text(1)) << "</td><td>";
      html_.text(display_text(rows.cell(2)) + ", " + display_text(rows.cell(3)) + ", " +
                 display_text(rows.cell(4)))
          << "</td><td>";
      html_.text(rows.text(5)) << "</td></tr>\n";
    }
    if (any) html_ << kTableEnd << "</section>\n";
  }

  QueryPool& statements_;
  const JudgedRow& row_;
  const Run& run_;
  const RunVerdict& verdict_;
  const Headline& head_;
  const Wording& words_;
  Html html_;
};

/// The values that are stated of a run, the most believed first.
std::map<std::string, std::string> attributes_of(QueryPool& statements, const Run& run) {
  RunQuery rows(statements, run.id,
                "SELECT dim, value FROM stated_attribute WHERE run_id = ? GROUP BY dim, value"
                " ORDER BY dim, min(believed)");
  std::map<std::string, std::string> values;
  while (rows.step()) {
    std::string& text = values[rows.text(0)];
    text += (text.empty() ? "" : ", ") + rows.text(1);
  }
  return values;
}

}  // namespace

Html sections_of_run(QueryPool& statements, const JudgedRow& row, const Wording& words) {
  return Sections(statements, row, words).write();
}

Html attribute_table(QueryPool& statements, const Run& a, const Run* b, const Wording& words) {
  std::map<std::string, std::pair<std::string, std::string>> rows;
  for (const auto& [dim, value] : attributes_of(statements, a)) rows[dim].first = value;
  if (b) {
    for (const auto& [dim, value] : attributes_of(statements, *b)) rows[dim].second = value;
  }
  Html html;
  if (rows.empty()) return html;
  html << "<div class=wide><table class=attributes><thead><tr><th scope=col>";
  html.text(words("page.attribute")) << "</th><th scope=col>";
  html.text(b ? "A" : words("value")) << "</th>";
  if (b) html << "<th scope=col>B</th><th scope=col></th>";
  html << "</tr></thead>\n<tbody>\n";
  for (const bool differing : {true, false}) {  // what differs first
    for (const auto& [dim, values] : rows) {
      const bool differs = b && values.first != values.second;
      if (differs != differing) continue;
      if (differs) {
        html << "<tr class=differs>";
      } else {
        html << "<tr>";
      }
      html << "<th scope=row>";
      html.text(dim) << "</th><td>";
      html.text(values.first.empty() ? "-" : values.first) << "</td>";
      if (b) {
        html << "<td>";
        html.text(values.second.empty() ? "-" : values.second) << "</td><td>";
        if (differs) html.text("≠ " + words("page.attributes.differ"));
        html << "</td>";
      }
      html << "</tr>\n";
    }
  }
  html << kTableEnd;
  return html;
}

}  // namespace greta
