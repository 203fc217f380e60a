#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "cli/show/pair_map.h"

namespace greta {
namespace {

/// The place of a cell: panel (prompt and phase), layer and tensor, by forward order.
using Key = std::tuple<std::pair<int64_t, int64_t>, std::pair<int64_t, int64_t>,
                       std::pair<int64_t, std::string>>;

constexpr int64_t kNoId = std::numeric_limits<int64_t>::max();

/// Puts the rows of a view together. Columns: prompt_id, phase_id, prompt, phase, forward_layer,
/// layer, tensor_id, tensor, pos_id, status, class, rel_l2, tolerance, measure, left hash, right
/// hash, details, the name as written.
class MapBuilder {
 public:
  void add(const Query& row) {
    const auto id = [&](int column) { return row.is_null(column) ? kNoId : row.integer(column); };
    const auto panel = std::pair(id(0), id(1));
    const auto layer = std::pair(id(4), id(5));
    const auto tensor = std::pair(id(6), row.text(7));
    panels_.try_emplace(panel, row.text(2), row.text(3));
    layers_.try_emplace(layer, 0);
    tensors_.try_emplace(tensor, 0, row.text(17));
    MapCell seen;
    seen.status = row.text(9);
    seen.row_class = row.text(10);
    seen.meaning = meaning_of(seen.state());
    seen.rel_l2 = row.cell(11).number();
    seen.tolerance = row.cell(12).number();
    note_position(panel, row, seen);
    MapCell& cell = cells_[{panel, layer, tensor}];
    const int64_t positions = cell.positions + 1, failing = cell.failing + seen.failed();
    if (cell.positions == 0 || is_worse(seen, cell)) {
      seen.pos_id = row.cell(8).id();
      seen.measure = row.text(13);
      seen.left.hash = row.text(14);
      seen.right.hash = row.text(15);
      seen.details = row.text(16);
      cell = std::move(seen);
    }
    cell.positions = positions;
    cell.failing = failing;
  }

  PairMap build(QueryPool& statements) {
    PairMap map;
    for (auto& [key, index] : layers_) {
      index = map.layers.size();
      map.layers.push_back(key.second == kNoId ? std::nullopt : std::optional(key.second));
    }
    std::map<std::string, MapStage> stages;
    Query stage(statements, "SELECT name, stage FROM tensor");
    while (stage.step()) {
      const std::string name = stage.text(1);
      stages[stage.text(0)] = name == "embed"  ? MapStage::kEmbed
                              : name == "head" ? MapStage::kHead
                                               : MapStage::kLayer;
    }
    for (auto& [key, column] : tensors_) {
      column.first = map.tensors.size();
      const auto known = stages.find(key.second);
      map.tensors.push_back({key.second, column.second.empty() ? key.second : column.second,
                             known == stages.end() ? MapStage::kLayer : known->second,
                             key.first == kNoId ? std::nullopt : std::optional(key.first)});
    }
    std::map<std::pair<int64_t, int64_t>, size_t> panels;
    for (const auto& [key, names] : panels_) {
      panels[key] = map.panels.size();
      MapPanel panel;
      panel.prompt = names.first;
      panel.phase = names.second;
      panel.prompt_id = key.first;
      panel.cells.assign(map.layers.size(),
                         std::vector<std::optional<MapCell>>(map.tensors.size()));
      for (const auto& [pos, position] : positions_[key]) panel.positions.push_back(position);
      map.panels.push_back(std::move(panel));
    }
    for (auto& [key, cell] : cells_) {
      const auto& [panel, layer, tensor] = key;
      map.panels[panels[panel]].cells[layers_[layer]][tensors_.at(tensor).first] = std::move(cell);
    }
    add_inputs(statements, map);
    return map;
  }

 private:
  static bool is_worse(const MapCell& cell, const MapCell& than) {
    if (cell.meaning.rank != than.meaning.rank) return cell.meaning.rank > than.meaning.rank;
    return cell.ratio().value_or(0) > than.ratio().value_or(0);
  }

  void note_position(std::pair<int64_t, int64_t> panel, const Query& row, const MapCell& seen) {
    if (row.is_null(8) || seen.meaning.severity == Severity::kContext) return;
    MapPosition& position = positions_[panel][row.integer(8)];
    position.pos_id = row.integer(8);
    position.ratio = std::max(position.ratio, seen.ratio().value_or(0));
    if (seen.beyond_rounding()) position.beyond = true;
  }

  void add_inputs(QueryPool& statements, PairMap& map) const {
    std::map<std::string, size_t> index;
    for (size_t i = 0; i < map.tensors.size(); ++i) index[map.tensors[i].name] = i;
    Query edges(statements,
                "SELECT t.name, f.name, e.layer FROM edge e JOIN tensor t ON t.id = e.to_id"
                " JOIN tensor f ON f.id = e.from_id ORDER BY e.to_id, e.from_id");
    while (edges.step()) {
      const auto to = index.find(edges.text(0)), from = index.find(edges.text(1));
      if (to == index.end() || from == index.end()) continue;
      map.inputs.push_back({to->second, from->second, edges.text(2)});
    }
  }

  std::map<std::pair<int64_t, int64_t>, std::pair<std::string, std::string>> panels_;
  std::map<std::pair<int64_t, int64_t>, size_t> layers_;
  std::map<std::pair<int64_t, std::string>, std::pair<size_t, std::string>> tensors_;
  std::map<Key, MapCell> cells_;
  std::map<std::pair<int64_t, int64_t>, std::map<int64_t, MapPosition>> positions_;
};

/// Cells of a map by where they lie.
using CellAt = std::map<std::tuple<std::string, std::optional<int64_t>, std::string>, MapCell*>;

CellAt cells_by_place(PairMap& map) {
  CellAt cells;
  for_each_cell(map, [&](const CellPlace& at, MapCell& cell) {
    cells[{map.panels[at.panel].prompt, map.layers[at.layer], map.tensors[at.tensor].name}] = &cell;
  });
  return cells;
}

/// The room in a page of 300 KB beside style, scripts and sections, and what takes
/// it: a panel with its charts, a cell in markup and data, and what is given of some cells only.
struct RoomOfPage {
  size_t bytes, panel, cell, more;
};
constexpr RoomOfPage kRoomOfRun{230'000, 4500, 52, 165}, kRoomOfTwoRuns{250'000, 3000, 28, 22};

/// The number of cells that it can be given of.
size_t most_cells(const PairMap& map, const RoomOfPage& room) {
  const size_t cells = map.count(), taken = map.panels.size() * room.panel + cells * room.cell;
  const size_t left = room.bytes - std::min(room.bytes, taken);
  return std::min(cells, std::max(size_t{200}, left / room.more));
}

/// The `most` cells that matter, in that order: what is beyond rounding before all else.
std::vector<CellPlace> chosen_cells(const PairMap& map, size_t most, const std::string& first) {
  std::vector<std::tuple<int, size_t, size_t, size_t>> all;  // rank, layer, panel, tensor
  for_each_cell(map, [&](const CellPlace& at, const MapCell& cell) {
    const int rank = cell.beyond_rounding() ? 0 : cell.failed() ? 2 : 4;
    const bool leads = map.panels[at.panel].prompt == first;
    all.emplace_back(rank + (leads ? 0 : 1), at.layer, at.panel, at.tensor);
  });
  std::sort(all.begin(), all.end());
  all.resize(std::min(all.size(), most));
  std::vector<CellPlace> chosen;
  for (const auto& [rank, l, p, t] : all) chosen.push_back({p, l, t});
  return chosen;
}

/// But for those of hashed_cells(), which then are the cells with a MapDetail.
void leave_out_hashes(PairMap& map) {
  const size_t most = hashed_cells(map);
  if (most == map.count()) return;
  for (const auto& [p, l, t] : chosen_cells(map, most, ""))
    map.panels[p].cells[l][t]->detail.emplace();
  for_each_cell(map, [](const CellPlace&, MapCell& cell) {
    if (cell.detail) return;
    cell.left.hash.clear();
    cell.right.hash.clear();
  });
}

void read_sides(QueryPool& statements, const Run& run, PairMap& map) {
  const CellAt cells = cells_by_place(map);
  RunQuery rows(
      statements, run.id,
      "SELECT t.prompt, t.layer, t.canonical_tensor, t.pos_id, t.side, t.hash, t.n, t.min,"
      " t.max, t.mean, t.abs_sum, t.nan, t.inf, t.route, t.source_id, t.source_line"
      " FROM trace t WHERE t.run_id = ? AND t.side IS NOT NULL");
  std::map<int64_t, std::string> files;
  Query file(statements, "SELECT min(path) FROM source_location WHERE source_id = ?");
  while (rows.step()) {
    const auto found = cells.find({rows.text(0), rows.cell(1).id(), rows.text(2)});
    if (found == cells.end() || found->second->pos_id != rows.cell(3).id()) continue;
    MapSide& side = rows.text(4) == "prefill" ? found->second->left : found->second->right;
    if (side.source_line || (!side.hash.empty() && side.hash != rows.text(5))) continue;
    if (side.hash.empty()) side.hash = rows.text(5);
    side.n = rows.cell(6).id();
    side.min = rows.cell(7).number();
    side.max = rows.cell(8).number();
    side.mean = rows.cell(9).number();
    side.abs_sum = rows.cell(10).number();
    side.nan = rows.cell(11).id();
    side.inf = rows.cell(12).id();
    side.route = rows.text(13);
    const int64_t source = rows.integer(14);
    auto known = files.find(source);
    if (known == files.end()) {
      file.reset();
      known = files.emplace(source, file.bind(1, source).step() ? file.text(0) : "").first;
    }
    side.source_file = known->second;
    side.source_line = rows.cell(15).id();
  }
}

/// The part of read_details for the pairs of a report.
void read_report(QueryPool& statements, const Run& run, PairMap& map) {
  const CellAt cells = cells_by_place(map);
  RunQuery pairs(
      statements, run.id,
      "SELECT p.prompt, p.layer, ifnull(p.canonical_tensor, p.tensor), p.pos_id, p.status,"
      " p.numeric_origin, p.caused_by, p.segment FROM pair p"
      " WHERE p.run_id = ? AND p.evidence = 'report'");
  while (pairs.step()) {
    const auto found = cells.find({pairs.text(0), pairs.cell(1).id(), pairs.text(2)});
    if (found == cells.end() || !found->second->detail) continue;
    MapCell& cell = *found->second;
    if (cell.pos_id != pairs.cell(3).id() || cell.status != pairs.text(4)) continue;
    cell.detail->origin = pairs.text(5);
    cell.detail->caused_by = pairs.text(6);
    if (cell.detail->origin != "PROPAGATED") cell.detail->segment = pairs.text(7);
  }
}

}  // namespace

std::optional<double> MapCell::ratio() const {
  if (!rel_l2 || !tolerance) return std::nullopt;
  if (*rel_l2 == 0) return 0;
  return *tolerance > 0 ? *rel_l2 / *tolerance : HUGE_VAL;
}

Look look_of(const MapCell& cell) {
  const char look = cell.meaning.look;
  const double decades = std::log10(std::max(cell.ratio().value_or(1), 1e-30));
  const auto degree = [&](double at) {
    return look + std::to_string(std::clamp(static_cast<int>(at), 0, 3));
  };
  if (look == 'r') return degree(std::ceil(decades) + 3);
  return look == 'f' ? degree(std::floor(decades)) : Look(1, look);
}

size_t PairMap::count() const {
  size_t n = 0;
  for_each_cell(*this, [&n](const CellPlace&, const MapCell&) { ++n; });
  return n;
}

bool PairMap::applies(size_t layer, size_t tensor) const {
  const bool after = layers[layer] == -1;
  switch (tensors[tensor].stage) {
    case MapStage::kEmbed:
      return layer == 0 && !after;
    case MapStage::kHead:
      return after;
    case MapStage::kLayer:
      return !after;
  }
  return true;
}

size_t detailed_cells(const PairMap& map) { return most_cells(map, kRoomOfRun); }

size_t hashed_cells(const PairMap& map) { return most_cells(map, kRoomOfTwoRuns); }

PairMap read_map(QueryPool& statements, const Run& run) {
  RunQuery rows(
      statements, run.id,
      "SELECT p.prompt_id, 0, p.prompt, '', p.forward_layer, p.layer, p.tensor_id,"
      " ifnull(p.canonical_tensor, p.tensor), p.pos_id, p.status, p.class, p.rel_l2,"
      " p.tolerance, p.measure, p.prefill_hash, p.decode_hash,"
      // the hashes of a drift stand beside it
      " CASE WHEN p.status NOT IN ('MATCH', 'DRIFT') OR p.evidence = 'report' THEN p.details END,"
      " p.tensor"
      " FROM pair p"
      " WHERE p.run_id = ? ORDER BY p.prompt_id, p.pos_id");
  MapBuilder builder;
  while (rows.step()) builder.add(rows);
  PairMap map = builder.build(statements);
  map.left = "prefill";
  map.right = "decode";
  return map;
}

void read_details(QueryPool& statements, const Run& run, const std::string& first, PairMap& map) {
  if (map.empty()) return;
  read_sides(statements, run, map);
  // the columns of view pair, by keys that SQLite can seek
  RunQuery pairs(statements, run.id,
                 "SELECT s.numeric_origin, s.caused_by, s.segment, d.location, d.differing, "
                 "d.max_abs, d.max_abs_at,"
                 " d.max_ulp, d.heads, CASE WHEN d.rel_l2 IS NULL THEN 0 ELSE d.segments END, d.id"
                 " FROM comparison_origin s"
                 " LEFT JOIN located_difference d ON d.id = s.difference_id"
                 " WHERE s.side IN (0, 1) AND s.run_id = ?1 AND s.other_run_id = ?1"
                 " AND s.key_prompt_id = ?2 AND s.key_pos_id = ?3 AND s.key_layer = ?4"
                 " AND s.key_tensor_id = ?5 AND s.status = ?6 LIMIT 1");
  Query parts(statements, "SELECT segment, share_ppm FROM difference_part WHERE difference_id = ?");
  bool of_report = false;  // which has no rows, and few pairs
  for (const auto& [p, l, t] : chosen_cells(map, detailed_cells(map), first)) {
    MapCell& cell = *map.panels[p].cells[l][t];
    MapDetail& detail = cell.detail.emplace();
    if (!cell.failed() || !map.layers[l] || !map.tensors[t].id) continue;
    pairs.reset();
    pairs.bind(2, map.panels[p].prompt_id).bind(3, cell.pos_id.value_or(-1));
    pairs.bind(4, *map.layers[l]).bind(5, *map.tensors[t].id).bind(6, cell.status);
    if (!pairs.step()) {
      of_report = true;
      continue;
    }
    detail.origin = pairs.text(0);
    detail.caused_by = pairs.text(1);
    // of what is propagated, caused_by tells more
    if (detail.origin != "PROPAGATED") detail.segment = pairs.text(2);
    detail.location = pairs.text(3);
    detail.differing = pairs.cell(4).id();
    detail.max_abs = pairs.cell(5).number();
    detail.max_abs_at = pairs.cell(6).id();
    detail.max_ulp = pairs.cell(7).id();
    if (detail.location.empty()) continue;
    detail.heads = pairs.integer(8);
    detail.shares.assign(static_cast<size_t>(pairs.integer(9)), 0);
    if (detail.shares.empty()) continue;
    parts.reset();
    parts.bind(1, pairs.integer(10));
    bool any = false;
    while (parts.step()) {
      any = true;
      detail.shares[static_cast<size_t>(parts.integer(0))] =
          static_cast<double>(parts.integer(1)) / 1e6;
    }
    if (!any) detail.shares.clear();  // spread over all of the row
  }
  if (of_report) read_report(statements, run, map);
}

PairMap read_map(QueryPool& statements, const Run& a, const Run& b) {
  Query rows(
      statements,
      "SELECT q.id, h.id, d.prompt, d.phase, d.forward_layer, d.layer, d.tensor_id, d.tensor,"
      " d.pos_id, d.status, d.class, d.rel_l2, d.tolerance, d.measure, d.hash_a, d.hash_b, NULL, "
      "d.tensor"
      " FROM run_diff d JOIN phase h ON h.name = d.phase"
      " LEFT JOIN prompt q ON q.run_id = ?1 AND q.name = d.prompt"
      " WHERE d.run_a_id = ?1 AND d.run_b_id = ?2 AND d.prompt NOT IN (SELECT p.prompt FROM "
      "run_pair p"
      " WHERE p.run_a_id = ?1 AND p.run_b_id = ?2 AND p.prompt IS NOT NULL)");
  rows.bind(1, a.id).bind(2, b.id);
  MapBuilder builder;
  while (rows.step()) builder.add(rows);
  PairMap map = builder.build(statements);
  map.left = "A";
  map.right = "B";
  leave_out_hashes(map);
  return map;
}

}  // namespace greta
