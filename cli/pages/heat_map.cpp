#include "cli/pages/heat_map.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "cli/pages/cell_columns.h"
#include "cli/pages/charts.h"
#include "cli/pages/markdown_html.h"
#include "cli/pages/page.h"

namespace greta {
namespace {

using std::to_string;

constexpr size_t kListed = 14;   // rows that differ, beside the map
constexpr size_t kMostOpen = 3;  // maps that need no click

/// Classes of cells in the order of the legend, by their first letter.
constexpr std::string_view kLooks = "mrfunxico";

TextId look_text(char look) {
  switch (look) {
    case 'm':
      return "cell.m";
    case 'r':
      return "cell.r";
    case 'f':
      return "cell.f";
    case 'u':
      return "cell.u";
    case 'n':
      return "cell.n";
    case 'x':
      return "cell.x";
    case 'i':
      return "cell.i";
    case 'c':
      return "cell.c";
    case 'o':
      return "cell.o";
    default:
      return "cell.t";
  }
}

class MapHtml {
 public:
  MapHtml(const PairMap& map, size_t index, std::optional<CellPlace> first, const Wording& words)
      : map_(map), index_(index), first_(first), words_(words) {}

  Html write() {
    legend();
    std::vector<size_t> open, closed;
    for (size_t p = 0; p < map_.panels.size(); ++p) {
      const bool leads = first_ && first_->panel == p;
      if (leads) {
        open.insert(open.begin(), p);
      } else {
        open.push_back(p);
      }
    }
    for (size_t i = kMostOpen; i < open.size(); ++i) closed.push_back(open[i]);
    open.resize(std::min(open.size(), kMostOpen));
    html_ << "<div class=prompts>\n";
    for (const size_t p : open) panel(p, true);
    for (const size_t p : closed) panel(p, false);
    html_ << "</div>\n";
    list();
    return html_;
  }

 private:
  void swatch(Markup cell, TextId text) {
    html_ << "<li><span class=\"cell " << cell << "\"></span>";
    html_.text(words_(text)) << "</li>\n";
  }

  void legend() {
    std::map<char, int> seen;
    bool untraced = false;
    for (const MapPanel& panel : map_.panels) {
      for (size_t l = 0; l < map_.layers.size(); ++l) {
        for (size_t t = 0; t < map_.tensors.size(); ++t) {
          if (const auto& cell = panel.cells[l][t]) {
            ++seen[look_of(*cell).front()];
          } else if (map_.applies(l, t)) {
            untraced = true;
          }
        }
      }
    }
    html_ << "<ul class=legend aria-label=\"";
    html_.text(words_("page.legend")) << "\">\n";
    if (seen['m']) swatch("m", "cell.m");
    if (seen['r']) {
      html_ << "<li><span class=\"cell r0\"></span><span class=\"cell r1\"></span>"
               "<span class=\"cell r2\"></span><span class=\"cell r3\"></span>";
      html_.text(words_("cell.r")) << "</li>\n";
    }
    if (seen['f']) {
      html_ << "<li><span class=\"cell f0\"></span><span class=\"cell f1\"></span>"
               "<span class=\"cell f2\"></span><span class=\"cell f3\"></span>";
      html_.text(words_("cell.f")) << "</li>\n";
    }
    if (seen['u']) swatch("u", "cell.u");
    if (seen['n']) swatch("n", "cell.n");
    if (seen['x']) swatch("x", "cell.x");
    if (seen['i']) swatch("i", "cell.i");
    if (seen['c']) swatch("c", "cell.c");
    if (seen['o']) swatch("o", "cell.o");
    if (untraced) swatch("t", "cell.t");
    if (first_) swatch("m first", "cell.first");
    html_ << "</ul>\n";
    if (seen['r'] || seen['f']) {
      html_ << "<p class=note>";
      html_.text(words_("page.legend.scale")) << "</p>\n";
    }
  }

  /// "Prompt p0: 176 squares; 100 equal, 70 within rounding, 6 beyond rounding. The first ..."
  std::string caption(size_t p) const {
    std::map<char, int> counts;
    int total = 0;
    for (const auto& row : map_.panels[p].cells) {
      for (const auto& cell : row) {
        if (cell) ++counts[look_of(*cell).front()], ++total;
      }
    }
    std::string list;
    for (const char look : kLooks) {
      if (counts[look] == 0) continue;
      list += (list.empty() ? "" : ", ") + to_string(counts[look]) + " " + words_(look_text(look));
    }
    std::string text = words_("page.caption", {name_of(p), to_string(total), list});
    if (const auto first = first_beyond(map_, p)) {
      text += " " + words_("page.caption.first", {map_.tensors[first->tensor].written,
                                                  layer_text(map_, first->layer, words_)});
    }
    return text;
  }

  std::string name_of(size_t p) const {
    const MapPanel& panel = map_.panels[p];
    return panel.phase.empty() ? panel.prompt : panel.prompt + ", " + panel.phase;
  }

  void panel(size_t p, bool open) {
    html_ << "<details class=prompt data-panel=" << Html().number(static_cast<int64_t>(p));
    if (open) html_ << " open";
    html_ << ">\n<summary>";
    html_.text(words_("prompt")) << " <strong>";
    html_.text(name_of(p)) << "</strong> ";
    strip(p);
    html_ << "</summary>\n";
    table(p);
    const Html growth = growth_chart(map_, p, words_), positions = positions_chart(map_, p, words_);
    if (!growth.str().empty() || !positions.str().empty()) {
      html_ << "<div class=charts>\n" << growth << positions << "</div>\n";
    }
    html_ << "</details>\n";
  }

  /// How many cells of each kind, beside the name of the prompt.
  void strip(size_t p) {
    std::map<char, int> counts;
    for (const auto& row : map_.panels[p].cells) {
      for (const auto& cell : row) {
        if (cell) ++counts[look_of(*cell).front()];
      }
    }
    html_ << "<span class=counts>";
    bool any = false;
    for (const char look : kLooks) {
      if (counts[look] == 0) continue;
      if (any) html_ << " · ";
      html_.number(counts[look]).text(" " + words_(look_text(look)));
      any = true;
    }
    html_ << "</span>";
  }

  void table(size_t p) {
    html_ << "<div class=wide><table class=map data-map="
          << Html().number(static_cast<int64_t>(index_))
          << " data-panel=" << Html().number(static_cast<int64_t>(p)) << ">\n<caption>";
    html_.text(caption(p)) << "</caption>\n<thead><tr><th scope=col>";
    html_.text(words_("layer")) << "</th>";
    for (const MapTensor& tensor : map_.tensors) {
      html_ << "<th><span>";  // the scope of what only heads a column goes without saying
      html_.text(tensor.written.empty() ? words_("tensor.none") : tensor.written) << "</span>";
    }
    html_ << "</tr></thead>\n<tbody>\n";
    for (size_t l = 0; l < map_.layers.size(); ++l) {
      html_ << "<tr><th scope=row>";
      html_.text(layer_text(map_, l, words_)) << "</th>";
      for (size_t t = 0; t < end_of_row(p, l); ++t) cell(p, l, t);
      html_ << "\n";
    }
    html_ << kTableEnd;
  }

  /// Behind the last tensor that can have a row in that layer.
  size_t end_of_row(size_t p, size_t l) const {
    size_t end = map_.tensors.size();
    while (end > 0 && !map_.panels[p].cells[l][end - 1] && !map_.applies(l, end - 1)) --end;
    return end;
  }

  void cell(size_t p, size_t l, size_t t) {
    const auto& cell = map_.panels[p].cells[l][t];
    if (!cell) {
      if (map_.applies(l, t)) {
        html_ << "<td class=t>";
      } else {
        html_ << "<td>";
      }
      return;
    }
    const bool begins = first_ && first_->panel == p && first_->layer == l && first_->tensor == t;
    if (begins) {
      html_ << "<td class=\"";
      html_.text(look_of(*cell)) << " first\">";
    } else {
      html_ << "<td class=";
      html_.text(look_of(*cell)) << ">";
    }
  }

  void list() {
    std::vector<CellPlace> places;
    for (size_t p = 0; p < map_.panels.size(); ++p) {
      for (size_t l = 0; l < map_.layers.size(); ++l) {
        for (size_t t = 0; t < map_.tensors.size(); ++t) {
          if (const auto& cell = map_.panels[p].cells[l][t]; cell && cell->failed())
            places.push_back({p, l, t});
        }
      }
    }
    if (places.empty()) return;
    const auto rank = [&](const CellPlace& at) {
      return map_.panels[at.panel].cells[at.layer][at.tensor]->beyond_rounding() ? 0 : 1;
    };
    std::stable_sort(places.begin(), places.end(), [&](const CellPlace& a, const CellPlace& b) {
      return std::tuple(rank(a), a.layer, a.tensor, a.panel) <
             std::tuple(rank(b), b.layer, b.tensor, b.panel);
    });
    html_ << "<h3>";
    html_.text(words_("page.list")) << "</h3>\n"
                                    << table_head("<table class=sortable>",
                                                  {"layer", "tensor", "prompt", "kv.status",
                                                   "rel_l2", "page.list.worst", "position"},
                                                  words_);
    for (size_t i = 0; i < std::min(places.size(), kListed); ++i) row(places[i]);
    html_ << kTableEnd;
    if (places.size() > kListed) {
      html_ << "<p class=note>";
      html_.text(words_("page.list.rest", {to_string(places.size() - kListed)})) << "</p>\n";
    }
  }

  void row(const CellPlace& at) {
    const MapCell& cell = *map_.panels[at.panel].cells[at.layer][at.tensor];
    html_ << "<tr><td>";
    html_.text(layer_text(map_, at.layer, words_)) << "</td><td><code>";
    html_.text(map_.tensors[at.tensor].written) << "</code></td><td>";
    html_.text(name_of(at.panel)) << "</td><td><span class=\"cell ";
    html_.text(look_of(cell)) << "\"></span>";
    html_.text(words_(look_text(look_of(cell).front()))) << "</td><td class=number>";
    html_.text(cell.rel_l2 ? short_real(*cell.rel_l2) : "-") << "</td><td class=number>";
    html_.text(cell.ratio() ? short_real(*cell.ratio()) : "-") << "</td><td class=number>";
    html_.text(cell.pos_id ? to_string(*cell.pos_id) : "-") << "</td></tr>\n";
  }

  const PairMap& map_;
  size_t index_;
  std::optional<CellPlace> first_;
  const Wording& words_;
  Html html_;
};

}  // namespace

std::optional<CellPlace> first_beyond(const PairMap& map, size_t panel) {
  for (size_t l = 0; l < map.layers.size(); ++l) {
    for (size_t t = 0; t < map.tensors.size(); ++t) {
      const auto& cell = map.panels[panel].cells[l][t];
      if (cell && cell->beyond_rounding()) return CellPlace{panel, l, t};
    }
  }
  return std::nullopt;
}

std::string layer_text(const PairMap& map, size_t layer, const Wording& words) {
  return map.layers[layer] ? layer_name(map.layers[layer], words) : "-";
}

Html filter_box(const Wording& words) {
  Html html;
  html << "<div class=script hidden><p><label>";
  html.text(words("page.filter"))
      << " <input type=search class=filter autocomplete=off spellcheck=false placeholder=\"";
  html.text(words("page.filter.hint")) << "\"></label></p><p class=note>";
  html.text(words("page.keys")) << "</p></div>\n";
  return html;
}

Html html_of_map(const PairMap& map, size_t index, std::optional<CellPlace> first,
                 const Wording& words) {
  return MapHtml(map, index, first, words).write();
}

}  // namespace greta
