#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "cli/show/page.h"
#include "cli/show/pair_map.h"
#include "cli/show/report.h"
#include "cli/show/section.h"
#include "common/json_text.h"
#include "common/utf8.h"

namespace greta {
namespace {

using std::to_string;

/// Runs of several that have a section of their own.
constexpr size_t kMostRunSections = 8;

/// "{"run": ..., "map": ...}"
JsonObject map_object(const Run& run) {
  return JsonObject().add("run", std::string_view(utf8::printable(run.name)));
}

/// The data of a page with maps.
std::string data_of_maps(QueryPool& statements, std::string_view kind, const std::string& maps,
                         TextId untold, const Wording& words) {
  JsonObject object;
  object.add("version", 1).add("kind", kind).raw("words", json_of_map_words(words, untold));
  object.raw("measures", json_of_measures(statements));
  return object.raw("maps", "[" + maps + "]").str();
}

/// Attributes that sources state of one run or of two; what differs is marked and first.
Blocks attribute_blocks(QueryPool& statements, const Run& a, const Run* b, const Wording& words) {
  std::map<std::string, std::pair<std::string, std::string>> stated;
  for (const auto& [dim, value] : stated_attributes(statements, a)) stated[dim].first = value;
  if (b) {
    for (const auto& [dim, value] : stated_attributes(statements, *b)) stated[dim].second = value;
  }
  if (stated.empty()) return {};
  ShownTable table{{words("page.attribute"), b ? "A" : words("value")}};
  table.keyed = true;
  if (b) table.columns.insert(table.columns.end(), {"B", ""});
  const auto shown = [](const std::string& text) { return text.empty() ? "-" : text; };
  for (const auto& [dim, values] : stated) {
    ShownRow row{{dim, shown(values.first)}, b && values.first != values.second};
    if (b) {
      row.cells.emplace_back(shown(values.second));
      row.cells.emplace_back(row.marked ? "≠ " + words("page.attributes.differ") : "");
    }
    table.rows.push_back(std::move(row));
  }
  std::stable_partition(table.rows.begin(), table.rows.end(),
                        [](const ShownRow& row) { return row.marked; });
  return {Heading{2, words("page.attributes")}, std::move(table)};
}

/// K and V of each layer and prompt, of several positions the worst.
Blocks kv_map(QueryPool& statements, const Run& run, const Wording& words) {
  RunQuery rows(statements, run.id,
                "SELECT prompt, layer, interpretation FROM kv_alignment WHERE run_id = ?"
                " ORDER BY prompt_id, layer");
  const std::map<std::string, std::string> letters = {
      {"ALIGNED", "="},         {"STRUCTURAL_DRIFT", "≈"}, {"REAL_MISMATCH", "R"},
      {"KV_MISALIGNMENT", "K"}, {"Q_MISMATCH", "Q"},       {"UNKNOWN", ""}};
  const auto square = [&](const std::string& kind) {
    return Square{look_of(meaning_of(kind).severity), letters.at(kind)};
  };
  const auto text = [&](const std::string& id) {
    return words.line(*find_report_text("guide." + id)).text();
  };
  std::map<int64_t, size_t> columns;
  std::map<std::string, std::map<int64_t, std::string>> kinds;  // by prompt and layer
  std::set<std::string> seen;
  Map map{.kind = "map letters", .caption = words("page.kv.text"), .corner = words("prompt")};
  while (rows.step()) {
    auto& of_prompt = kinds[rows.text(0)];
    if (of_prompt.empty()) map.rows.push_back(rows.text(0));
    columns[rows.integer(1)];
    std::string& worst = of_prompt[rows.integer(1)];
    if (worst.empty() || meaning_of(rows.text(2)).rank > meaning_of(worst).rank)
      worst = rows.text(2);
  }
  for (const auto& [prompt, of_prompt] : kinds) {
    for (const auto& [layer, kind] : of_prompt) seen.insert(kind);
  }
  if (seen.empty()) return {};
  for (auto& [layer, column] : columns) {
    column = map.columns.size();
    map.columns.push_back(to_string(layer));
  }
  for (const std::string& prompt : map.rows) {
    auto& row = map.squares.emplace_back(columns.size());
    for (const auto& [layer, kind] : kinds[prompt]) {
      row[columns[layer]] = square(kind);
      row[columns[layer]]->label = text(kind);
    }
  }
  Legend legend{words("page.legend"), {}};
  for (const std::string& kind : seen)
    legend.items.push_back({{square(kind)}, text(kind) + ": " + text(kind + ".meaning")});
  return {Heading{2, words("kv")}, Note{words.line("page.kv.text"), Note::Kind::kLead},
          std::move(legend), std::move(map)};
}

/// The section of a map, with what is said where not all is told.
Blocks map_section(const PairMap& map, size_t index, std::optional<CellPlace> first, TextId lead,
                   TextId few, size_t told, const Wording& words) {
  Blocks blocks{Heading{2, words("page.map")}};
  if (map.empty()) {
    blocks.push_back(Note{words.line("page.map.none")});
    return blocks;
  }
  blocks.push_back(Note{words.line(lead), Note::Kind::kLead});
  for (Block& block : blocks_of_map(map, index, first, words)) blocks.push_back(std::move(block));
  if (told < map.count()) {
    blocks.push_back(
        Note{words.line(few, {to_string(told), to_string(map.count())}), Note::Kind::kSmall});
  }
  return blocks;
}

/// The cell of a place, whose tensor is named canonically.
std::optional<CellPlace> cell_of(const PairMap& map, const FailPlace& place,
                                 const std::string& phase) {
  for (size_t p = 0; p < map.panels.size(); ++p) {
    if (map.panels[p].prompt != place.prompt || map.panels[p].phase != phase) continue;
    for (size_t l = 0; l < map.layers.size(); ++l) {
      if (map.layers[l] != place.layer) continue;
      for (size_t t = 0; t < map.tensors.size(); ++t) {
        if (map.tensors[t].name == place.tensor && map.panels[p].cells[l][t])
          return CellPlace{p, l, t};
      }
    }
  }
  return std::nullopt;
}

class RunPage {
 public:
  RunPage(QueryPool& statements, Language language) : statements_(statements), words_(language) {}

  PageContent one(const JudgedRow& row) {
    const Headline& head = row.head;
    PageContent content;
    content.title =
        row.run.name + ": " + headline_of(head.verdict, head.remark, head.mode, words_).text();
    content.kind = "run";
    content.body = section(row, 1);
    content.data = data_of_maps(statements_, "run", maps_, "page.untold", words_);
    return content;
  }

  PageContent several(const JudgedRows& rows) {
    std::set<std::string> names;
    for (const auto& row : rows) names.insert(row->verdict.text("experiment"));
    std::string experiments;
    for (const std::string& name : names) experiments += (experiments.empty() ? "" : ", ") + name;
    PageContent content;
    content.title = experiments + ": " + words_("brief.title");
    content.kind = "runs";
    Blocks& body = content.body;
    body.push_back(Heading{1, experiments});
    body.push_back(Note{words_.line("brief.counts", {to_string(rows.size()), counts_text(rows)})});
    ShownTable table{{words_("run"),
                      {words_("date"), ShownColumn::Kind::kDate},
                      words_("commit"),
                      words_("mode"),
                      words_("verdict"),
                      {words_("total_pairs"), ShownColumn::Kind::kNumber},
                      words_("location")},
                     {},
                     true};
    Blocks sections;
    size_t fails = 0;
    for (const auto& row : rows) {
      const RunVerdict& v = row->verdict;
      std::string id;
      if (row->head.verdict == "FAIL" && ++fails <= kMostRunSections) {
        id = "run" + to_string(row->run.id);
        sections.push_back(Group{.kind = "section run", .blocks = section(*row, 2), .id = id});
      }
      table.add({linked(row->run.name, id.empty() ? "" : "#" + id), v.show("date"),
                 v.show("commit_sha").substr(0, 12), v.show("mode"),
                 verdict_badge(row->head, words_), v.show("pairs"),
                 row->head.fail.cause.empty() ? "-" : place_text(row->head.fail, words_)});
    }
    body.push_back(std::move(table));
    for (Block& block : sections) body.push_back(std::move(block));
    if (fails > kMostRunSections) {
      body.push_back(Note{words_.line("page.unshown", {to_string(fails - kMostRunSections)}),
                          Note::Kind::kSmall});
    }
    content.data = data_of_maps(statements_, "runs", maps_, "page.untold", words_);
    return content;
  }

 private:
  Blocks section(const JudgedRow& row, int level) {
    Blocks blocks{Group{"header",
                        {Heading{level, row.run.name, verdict_badge(row.head, words_)},
                         Group{"brief", brief_of_run(statements_, row, words_)}}}};
    const auto add = [&](Blocks more) {
      if (!more.empty()) blocks.push_back(Group{"section", std::move(more)});
    };
    PairMap map = read_map(statements_, row.run);
    const FailPlace& fail = row.head.fail;
    read_details(statements_, row.run, fail.prompt, map);
    add(map_section(map, n_maps_, place_of(map, fail), "page.map.phases", "page.map.few",
                    detailed_cells(map), words_));
    Blocks spread, logits, documents;
    if (row.verdict.number("fail") > 0 && !fail.prompt.empty())
      Propagation(RunSection(statements_, row, words_, spread, 2)).add_folded(fail.prompt);
    add(std::move(spread));
    add(kv_map(statements_, row.run, words_));
    add_lm_head(RunSection(statements_, row, words_, logits, 2));
    add(std::move(logits));
    add(attribute_blocks(statements_, row.run, nullptr, words_));
    add_documents(RunSection(statements_, row, words_, documents, 2));
    add(std::move(documents));
    maps_ += (n_maps_ == 0 ? "" : ",\n") + map_object(row.run).raw("map", json_of_map(map)).str();
    ++n_maps_;
    return blocks;
  }

  /// The cell of a failure; that of its canonical name, for it may be named otherwise.
  std::optional<CellPlace> place_of(const PairMap& map, FailPlace fail) {
    if (fail.cause.empty()) return std::nullopt;
    Query named(
        statements_,
        "SELECT t.name FROM tensor_name n JOIN tensor t ON t.id = n.tensor_id WHERE n.name = ?");
    if (named.bind(1, fail.tensor).step()) fail.tensor = named.text(0);
    return cell_of(map, fail, "");
  }

  QueryPool& statements_;
  Wording words_;
  std::string maps_;
  size_t n_maps_ = 0;
};

}  // namespace

void write_run_page(QueryPool& statements, const std::vector<Run>& runs, Language language,
                    const TextSink& sink, const std::string& history) {
  const JudgedRows rows = judged_rows(statements, runs);
  RunPage page(statements, language);
  PageContent content = rows.size() == 1 ? page.one(*rows.front()) : page.several(rows);
  if (!history.empty()) {
    content.body.insert(content.body.begin(),
                        Note{linked(Wording(language)("history.title"), history)});
  }
  sink(page_of(content, language));
}

void write_compare_page(QueryPool& statements, const Run& a, const Run& b,
                        const ComparisonSummary& summary, Language language, const TextSink& sink) {
  const Wording words(language);
  const PairMap map = read_map(statements, a, b);
  const std::string remark = remark_text(summary.remark, "", words);
  Line badge = verdict_badge(summary.verdict, summary.kind, words);
  if (!remark.empty()) badge += " " + soft(remark);
  PageContent content;
  content.title = words("page.compare", {a.name, b.name}) + ": " + summary.verdict +
                  (remark.empty() ? "" : " " + remark);
  content.kind = "compare";
  content.body = {
      Group{"header",
            {Heading{1, words("page.compare", {"A", "B"}), badge},
             FactList{{{"A", a.name}, {"B", b.name}}}, Group{"brief", {List{summary.lines}}}}},
      Group{"section", map_section(map, 0, cell_of(map, summary.first, summary.phase),
                                   "page.map.runs", "page.map.hashed", hashed_cells(map), words)},
      Group{"section", attribute_blocks(statements, a, &b, words)}};
  content.data = data_of_maps(statements, "compare",
                              map_object(a)
                                  .add("other", std::string_view(utf8::printable(b.name)))
                                  .raw("map", json_of_map(map))
                                  .str(),
                              "page.unhashed", words);
  sink(page_of(content, language));
}

}  // namespace greta
