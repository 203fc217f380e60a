#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace greta {

/// One side of a pair: as view `trace` has its row.
struct MapSide {
  std::string hash;  ///< unsigned decimal; "" without one
  std::string source_file, route;
  std::optional<int64_t> source_line, n, nan, inf;
  std::optional<double> min, max, mean, abs_sum;
};

/// What is looked up for as many cells as a page has room for.
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
  std::optional<int64_t> pos_id;
  int64_t positions = 0,
          failing = 0;  ///< that were compared or should have been; that do not match
  std::optional<double> rel_l2, tolerance;
  std::string measure, details;
  MapSide left, right;
  std::optional<MapDetail> detail;

  bool failed() const { return status != "MATCH" && !is_context(); }
  /// A row that nothing demands a partner for.
  bool is_context() const { return status == "DECODE_ONLY" || status == "PREFILL_ONLY"; }
  bool beyond_rounding() const { return failed() && row_class != "ROUNDING"; }
  /// rel_l2 over the tolerance, where both are known.
  std::optional<double> ratio() const;
};

/// How a cell looks, as its CSS class: m match, r0 to r3 within rounding and f0 to f3 beyond it (by
/// decades of its distance over the tolerance), u of unknown size, n not finite, x without a
/// partner, i undecided, c contradictory, o context.
std::string look_of(const MapCell& cell);

/// Where a trace point stands.
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
  bool beyond_rounding() const;
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
  /// Whether that tensor can have a row in that layer at all.
  bool applies(size_t layer, size_t tensor) const;
};

}  // namespace greta
