#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/output/severity.h"
#include "cli/show/block.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"

namespace greta {

/// One side of a pair: as view `trace` has its row.
struct MapSide {
  std::string hash;  ///< unsigned decimal; "" without one
  std::string source_file, route;
  std::optional<int64_t> source_line, n, nan, inf;
  std::optional<double> min, max, mean, abs_sum;
};

/// Details that are looked up for as many cells as a page has room for.
struct MapDetail {
  std::string origin, caused_by, segment, location;
  std::optional<int64_t> differing, max_abs_at, max_ulp;
  std::optional<double> max_abs;
  std::vector<double> shares;  ///< of the squared distance, per head or equal slice
  int64_t heads = 0;           ///< that the shares are of; 0: slices
};

/// One trace point of one layer: of its positions the one that is worst, the earliest of several.
struct MapCell {
  std::string status, row_class;  ///< as view pair, or run_diff, says
  Meaning meaning;                ///< of both
  std::optional<int64_t> pos_id;
  int64_t positions = 0,
          failing = 0;  ///< that were compared or should have been; that do not match
  std::optional<double> rel_l2, tolerance;
  std::string measure, details;
  MapSide left, right;
  std::optional<MapDetail> detail;

  std::string state() const { return row_class.empty() ? status : status + " " + row_class; }
  bool failed() const { return meaning.severity > Severity::kGood; }
  /// Also by an unknown distance; not where nothing decides.
  bool beyond_rounding() const {
    return meaning.severity > Severity::kRounding && status != "INCOMPARABLE";
  }
  /// rel_l2 over the tolerance, where both are known.
  std::optional<double> ratio() const;
};

/// How a cell looks, as its CSS class: m match, r0 to r3 within rounding and f0 to f3 beyond it (by
/// decades of its distance over the tolerance), u of unknown size, n not finite, x without a
/// partner, i undecided, c contradictory, o context.
Look look_of(const MapCell& cell);
/// Their first letters in the order of a legend; t is what was not traced.
inline constexpr std::string_view kLooks = "mrfunxicot";

/// The part of the model that a trace point belongs to.
enum class MapStage { kEmbed, kLayer, kHead };

struct MapTensor {
  std::string name;     ///< canonical
  std::string written;  ///< as the rows name it
  MapStage stage = MapStage::kLayer;
  std::optional<int64_t> id;  ///< tensor.id
};

/// How large the worst difference of one position is.
struct MapPosition {
  int64_t pos_id = 0;
  double ratio = 0;  ///< the greatest rel_l2 over its tolerance
  bool beyond = false;
};

/// The cells of one prompt (of two runs: one prompt and phase), in forward order.
struct MapPanel {
  std::string prompt, phase;
  int64_t prompt_id = 0;
  std::vector<std::vector<std::optional<MapCell>>> cells;  ///< layer, tensor
  std::vector<MapPosition> positions;                      ///< ascending
};

/// Layer by tensor: every comparison of a run, or of two runs.
struct PairMap {
  std::string left, right;                     ///< what the sides are
  std::vector<std::optional<int64_t>> layers;  ///< in forward order; -1: after the stack
  std::vector<MapTensor> tensors;              ///< in forward order
  std::vector<MapPanel> panels;
  struct Input {
    size_t to, from;    ///< of tensors
    std::string layer;  ///< same, previous, last
  };
  std::vector<Input> inputs;  ///< what feeds what

  size_t count() const;  ///< of cells
  bool empty() const { return panels.empty(); }
  /// True if that tensor can have a row in that layer at all.
  bool applies(size_t layer, size_t tensor) const;
};

/// A cell by its place.
struct CellPlace {
  size_t panel = 0, layer = 0, tensor = 0;

  bool operator==(const CellPlace&) const = default;
};

/// Calls `each` with the place of every cell and the cell, panel by panel in forward order.
template <typename AnyMap, typename Each>
void for_each_cell(AnyMap& map, const Each& each) {
  for (size_t p = 0; p < map.panels.size(); ++p) {
    for (size_t l = 0; l < map.layers.size(); ++l) {
      for (size_t t = 0; t < map.tensors.size(); ++t) {
        if (auto& cell = map.panels[p].cells[l][t]) each(CellPlace{p, l, t}, *cell);
      }
    }
  }
}

/// The number of cells that a page tells all of: as many as leave it under 300 KB, which a run of
/// 32 layers, 29 trace points and 3 prompts is by far; of 200 at least.
size_t detailed_cells(const PairMap& map);

/// The number of cells of two runs that a page gives the hashes of, which are most of its data.
size_t hashed_cells(const PairMap& map);

/// Prefill against decode, as views pair and trace say it, without what read_details adds. Throws
/// SQLite::Exception, as all of these.
PairMap read_map(QueryPool& statements, const Run& run);

/// Adds where the rows are written, and statistics of as many as detailed_cells() says: those of
/// prompt `first` before others, what is beyond rounding before what is within.
void read_details(QueryPool& statements, const Run& run, const std::string& first, PairMap& map);

/// Run a against run b, as view run_diff says it; where there are more cells than hashed_cells(),
/// those whose hashes are there have a MapDetail.
PairMap read_map(QueryPool& statements, const Run& a, const Run& b);

/// The first cell beyond rounding of a panel, in forward order.
std::optional<CellPlace> first_beyond(const PairMap& map, size_t panel);

/// The panels as maps alone, for a terminal.
Blocks maps_of(const PairMap& map);

/// A map as number `index` of a page's data: how it is used, legend, a fold per panel with its map
/// and charts, and a list of what differs.
Blocks blocks_of_map(const PairMap& map, size_t index, std::optional<CellPlace> first,
                     const Wording& words);

/// A map as JSON: what its sides, layers and tensors are, what feeds what, and per panel "rows",
/// which cells there are ("1" per tensor of a layer, as number in the map's "rows"), and "cells"
/// by columns, whose numbers count in "states", "texts" and "tolerances".
std::string json_of_map(const PairMap& map);

/// {"sketch":[low,high],...}: what times a distance is the 95 % interval of an estimate.
std::string json_of_measures(QueryPool& statements);

/// The words of map.js; `untold` is what is said of a cell that not all is told of.
std::string json_of_map_words(const Wording& words, TextId untold);

}  // namespace greta
