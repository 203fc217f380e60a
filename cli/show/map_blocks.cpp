#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "cli/show/judged_row.h"
#include "cli/show/pair_map.h"

namespace greta {
namespace {

constexpr size_t kListedCells = 14;  // that differ, beside the map
constexpr size_t kMostOpenMaps = 3;  // that need no click
constexpr size_t kLeastFolded = 4;   // layers that become one line

using Counts = std::map<char, size_t>;  // cells by what they are: the first letter of their look

std::string look_text(char look, const Wording& words) {
  return words.line(*find_report_text(std::string("cell.") + look)).text();
}

std::string layer_text(const PairMap& map, size_t layer, const Wording& words) {
  return map.layers[layer] ? layer_name(map.layers[layer], words) : "-";
}

/// Powers of ten around the values and the limit of a chart.
void scale(Chart& chart) {
  double low = chart.limit, high = chart.limit;
  for (const Chart::Point& point : chart.points) {
    if (!point.value) continue;
    low = std::min(low, *point.value);
    high = std::max(high, *point.value);
  }
  chart.low = std::floor(std::log10(low) - 0.2);
  chart.high = std::ceil(std::log10(high) + 0.2);
}

class MapBlocks {
 public:
  MapBlocks(const PairMap& map, size_t index, std::optional<CellPlace> first, const Wording& words)
      : map_(map), index_(index), first_(first), words_(words) {}

  Blocks write() {
    const Counts seen = legend();
    std::vector<size_t> order;
    for (size_t p = 0; p < map_.panels.size(); ++p) {
      const bool leads = first_ && first_->panel == p;
      order.insert(leads ? order.begin() : order.end(), p);
    }
    Group prompts{"prompts", {}};
    for (const size_t p : order) {
      Line name = words_("prompt") + " " + strong(name_of(p)) + " " + soft(list_of(counts_of(p)));
      prompts.blocks.push_back(
          Group{"prompt", panel(p), name, prompts.blocks.size() < kMostOpenMaps});
    }
    blocks_.push_back(std::move(prompts));
    if (seen.contains('r') || seen.contains('f'))
      blocks_.push_back(Note{words_.line("page.legend.scale"), Note::Kind::kSmall});
    blocks_.push_back(Controls{.label = words_("page.filter"),
                               .hint = words_("page.filter.hint"),
                               .keys = words_("page.keys")});
    list();
    return std::move(blocks_);
  }

  Map map_of(size_t p) const {
    Map map{.caption = caption(p), .corner = words_("layer"), .index = index_, .panel = p};
    map.name = name_of(p);
    for (const MapTensor& tensor : map_.tensors)
      map.columns.push_back(tensor.written.empty() ? words_("tensor.none") : tensor.written);
    for (size_t l = 0; l < map_.layers.size(); ++l) {
      map.rows.push_back(layer_text(map_, l, words_));
      auto& row = map.squares.emplace_back();
      for (size_t t = 0; t < map_.tensors.size(); ++t) {
        row.emplace_back();
        const auto& cell = map_.panels[p].cells[l][t];
        const bool begins = first_ == CellPlace{p, l, t};
        if (cell || map_.applies(l, t))
          row.back() = Square{!cell ? "t" : look_of(*cell) + (begins ? " first" : "")};
      }
      while (!row.empty() && !row.back()) row.pop_back();  // what cannot have a row in that layer
    }
    for (size_t l = 0, end = 0; l < map_.layers.size(); l = end) {
      for (end = l + 1; is_plain(p, l) && end < map_.layers.size() && continues(p, l, end);) ++end;
      if (end - l >= kLeastFolded) map.folds.push_back(fold(p, l, end - 1));
    }
    return map;
  }

 private:
  /// True if all of a layer is equal; where the map is of a failure beyond rounding, also if it is
  /// within that.
  bool is_plain(size_t p, size_t l) const {
    const bool beyond =
        first_ &&
        map_.panels[first_->panel].cells[first_->layer][first_->tensor]->beyond_rounding();
    const Severity most = beyond ? Severity::kRounding : Severity::kGood;
    const auto& row = map_.panels[p].cells[l];
    return std::all_of(row.begin(), row.end(),
                       [&](const auto& cell) { return !cell || cell->meaning.severity <= most; });
  }
  /// True if one line can stand for layers `from` to `l`: the same of them was traced.
  bool continues(size_t p, size_t from, size_t l) const {
    const auto& before = map_.layers[l - 1];
    if (!before || *before < 0 || map_.layers[l] != *before + 1 || !is_plain(p, l)) return false;
    const auto& cells = map_.panels[p].cells;
    for (size_t t = 0; t < map_.tensors.size(); ++t) {
      if (map_.applies(from, t) && map_.applies(l, t) && !cells[from][t] != !cells[l][t])
        return false;
    }
    return true;
  }
  Map::Fold fold(size_t p, size_t first, size_t last) const {
    Map::Fold fold{first, last};
    fold.name = layer_text(map_, first, words_) + "-" + layer_text(map_, last, words_);
    fold.squares.resize(map_.tensors.size());
    std::vector<int> ranks(map_.tensors.size());
    for (size_t l = first; l <= last; ++l) {
      for (size_t t = 0; t < map_.tensors.size(); ++t) {
        const auto& cell = map_.panels[p].cells[l][t];
        if (!cell && !map_.applies(l, t)) continue;
        const auto seen =
            cell ? std::pair(cell->meaning.rank, look_of(*cell)) : std::pair(0, Look("t"));
        auto& square = fold.squares[t];
        if (square && std::tie(ranks[t], square->look) >= std::tie(seen.first, seen.second))
          continue;
        ranks[t] = seen.first;
        square = Square{seen.second};
      }
    }
    while (!fold.squares.empty() && !fold.squares.back()) fold.squares.pop_back();
    return fold;
  }

  Blocks panel(size_t p) const {
    Blocks blocks{map_of(p)};
    Group charts{"charts", {}};
    if (auto chart = growth(p)) charts.blocks.push_back(*std::move(chart));
    if (auto chart = along_positions(p)) charts.blocks.push_back(*std::move(chart));
    if (!charts.blocks.empty()) blocks.push_back(std::move(charts));
    return blocks;
  }

  Counts counts_of(size_t p) const {
    Counts counts;
    for (const auto& row : map_.panels[p].cells) {
      for (const auto& cell : row) {
        if (cell) ++counts[look_of(*cell).front()];
      }
    }
    return counts;
  }
  /// "100 equal, 70 within rounding, 6 beyond rounding"
  std::string list_of(const Counts& counts) const {
    std::string list;
    for (const char look : kLooks) {
      const auto n = counts.find(look);
      if (n == counts.end()) continue;
      list +=
          (list.empty() ? "" : ", ") + std::to_string(n->second) + " " + look_text(look, words_);
    }
    return list;
  }

  /// Returns what there is.
  Counts legend() {
    Counts seen;
    for (size_t p = 0; p < map_.panels.size(); ++p) {
      for (const auto& [look, n] : counts_of(p)) seen[look] += n;
      for (size_t l = 0; l < map_.layers.size(); ++l) {
        for (size_t t = 0; t < map_.tensors.size(); ++t) {
          if (!map_.panels[p].cells[l][t] && map_.applies(l, t)) ++seen['t'];
        }
      }
    }
    Legend legend{words_("page.legend"), {}};
    for (const char look : kLooks) {
      if (!seen.contains(look)) continue;
      std::vector<Square> squares{{std::string(1, look)}};
      if (look == 'r') squares = {{"r0"}, {"r1"}, {"r2"}, {"r3"}};
      if (look == 'f') squares = {{"f0"}, {"f1"}, {"f2"}, {"f3"}};
      legend.items.emplace_back(std::move(squares), look_text(look, words_));
    }
    if (first_) legend.items.push_back({{{"m first"}}, words_("cell.first")});
    blocks_.push_back(std::move(legend));
    return seen;
  }

  /// "Prompt p0: 176 squares; 100 equal, 70 within rounding, 6 beyond rounding. The first ..."
  std::string caption(size_t p) const {
    const Counts counts = counts_of(p);
    size_t total = 0;
    for (const auto& [look, n] : counts) total += n;
    std::string text = words_("page.caption", {name_of(p), std::to_string(total), list_of(counts)});
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

  /// The worst distance of each layer; nothing where fewer than two are measured.
  std::optional<Chart> growth(size_t p) const {
    Chart chart{.title = words_("page.growth"),
                .text = "",
                .axis = words_("page.growth.axis"),
                .band = words_("page.growth.band"),
                .x_name = words_("layer"),
                .limit = 0};
    std::optional<size_t> crosses, least, most;  // points
    for (size_t l = 0; l < map_.layers.size(); ++l) {
      Chart::Point point{.x = static_cast<double>(l), .label = layer_text(map_, l, words_)};
      const MapCell* worst = nullptr;
      bool any = false;
      for (const auto& cell : map_.panels[p].cells[l]) {
        if (!cell) continue;
        any = true;
        if (cell->tolerance) chart.limit = std::max(chart.limit, *cell->tolerance);
        if (!cell->failed() || cell->ratio().value_or(0) <= 0 || !std::isfinite(*cell->rel_l2))
          continue;
        if (!worst || cell->ratio() > worst->ratio()) worst = &*cell;
      }
      if (!any) continue;
      if (worst) {
        const size_t at = chart.points.size();
        point.value = *worst->rel_l2;
        point.mark = worst->beyond_rounding() ? Chart::Mark::kBeyond : Chart::Mark::kWithin;
        if (worst->beyond_rounding() && !crosses) crosses = at;
        if (!least) least = at;
        if (!most || point.value > chart.points[*most].value) most = at;
      }
      chart.points.push_back(std::move(point));
    }
    const auto measured = std::count_if(chart.points.begin(), chart.points.end(),
                                        [](const Chart::Point& point) { return point.value; });
    if (measured < 2 || chart.limit <= 0) return std::nullopt;
    const auto& points = chart.points;
    chart.text = words_("page.growth.text",
                        {short_real(*points[*least].value), points[*least].label,
                         short_real(*points[*most].value), points[*most].label,
                         crosses ? words_("page.growth.crosses", {points[*crosses].label})
                                 : words_("page.growth.within")});
    scale(chart);
    return chart;
  }

  /// The worst distance over its tolerance of each position; nothing of fewer than two positions.
  std::optional<Chart> along_positions(size_t p) const {
    Chart chart{.title = words_("page.positions"),
                .text = "",
                .axis = words_("page.positions.axis"),
                .band = words_("page.growth.band"),
                .x_name = words_("position")};
    size_t beyond = 0, measured = 0;
    std::string from;
    for (const MapPosition& position : map_.panels[p].positions) {
      Chart::Point point{.x = static_cast<double>(position.pos_id),
                         .label = std::to_string(position.pos_id)};
      if (position.ratio > 0 && std::isfinite(position.ratio)) {
        point.value = position.ratio;
        point.mark = position.beyond ? Chart::Mark::kBeyond : Chart::Mark::kWithin;
        ++measured;
      }
      if (position.beyond && beyond++ == 0) from = words_("page.positions.from", {point.label});
      chart.points.push_back(std::move(point));
    }
    if (chart.points.size() < 2 || measured == 0) return std::nullopt;
    chart.text = words_("page.positions.text",
                        {std::to_string(chart.points.size()), std::to_string(beyond), from});
    scale(chart);
    return chart;
  }

  void list() {
    std::vector<std::tuple<int, size_t, size_t, size_t>> places;  // rank, layer, tensor, panel
    for_each_cell(map_, [&](const CellPlace& at, const MapCell& cell) {
      if (!cell.failed()) return;
      const int rank = first_ == at ? 0 : cell.beyond_rounding() ? 1 : 2;
      places.emplace_back(rank, at.layer, at.tensor, at.panel);
    });
    if (places.empty()) return;
    std::sort(places.begin(), places.end());
    constexpr auto kNumber = ShownColumn::Kind::kNumber;
    ShownTable table{{words_("layer"),
                      words_("tensor"),
                      words_("prompt"),
                      words_("kv.status"),
                      {words_("rel_l2"), kNumber},
                      {words_("page.list.worst"), kNumber},
                      {words_("position"), kNumber}},
                     {},
                     true};
    for (size_t i = 0; i < std::min(places.size(), kListedCells); ++i) {
      const auto& [rank, l, t, p] = places[i];
      const MapCell& cell = *map_.panels[p].cells[l][t];
      table.add({layer_text(map_, l, words_), code(map_.tensors[t].written), name_of(p),
                 square_of(look_of(cell)) + look_text(look_of(cell).front(), words_),
                 cell.rel_l2 ? short_real(*cell.rel_l2) : "-",
                 cell.ratio() ? short_real(*cell.ratio()) : "-",
                 cell.pos_id ? std::to_string(*cell.pos_id) : "-"});
    }
    blocks_.push_back(Heading{3, words_("page.list")});
    blocks_.push_back(std::move(table));
    if (places.size() > kListedCells) {
      blocks_.push_back(
          Note{words_.line("page.list.rest", {std::to_string(places.size() - kListedCells)}),
               Note::Kind::kSmall});
    }
  }

  const PairMap& map_;
  size_t index_;
  std::optional<CellPlace> first_;
  const Wording& words_;
  Blocks blocks_;
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

Blocks maps_of(const PairMap& map) {
  Blocks blocks;
  for (size_t p = 0; p < map.panels.size(); ++p)
    blocks.push_back(MapBlocks(map, 0, std::nullopt, kEnglishWords).map_of(p));
  return blocks;
}

Blocks blocks_of_map(const PairMap& map, size_t index, std::optional<CellPlace> first,
                     const Wording& words) {
  return MapBlocks(map, index, first, words).write();
}

}  // namespace greta
