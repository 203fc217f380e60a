#include "cli/pages/pair_map.h"

#include <algorithm>
#include <cmath>

namespace greta {

std::optional<double> MapCell::ratio() const {
  if (!rel_l2 || !tolerance) return std::nullopt;
  if (*rel_l2 == 0) return 0;
  return *tolerance > 0 ? *rel_l2 / *tolerance : HUGE_VAL;
}

std::string look_of(const MapCell& cell) {
  if (cell.status == "MATCH") return "m";
  if (cell.is_context()) return "o";
  if (cell.status == "NONFINITE") return "n";
  if (cell.status == "MISSING" || cell.status.starts_with("ONLY_")) return "x";
  if (cell.status == "AMBIGUOUS" || cell.status == "CONFLICT") return "c";
  const double decades = std::log10(std::max(cell.ratio().value_or(1), 1e-30));
  if (cell.row_class == "ROUNDING") {
    return "r" + std::to_string(std::clamp(static_cast<int>(std::ceil(decades)) + 3, 0, 3));
  }
  if (cell.status == "INCOMPARABLE") return "i";
  if (cell.row_class == "DIVERGENT") {
    return "f" + std::to_string(std::clamp(static_cast<int>(std::floor(decades)), 0, 3));
  }
  return "u";
}

bool MapPanel::beyond_rounding() const {
  return std::any_of(cells.begin(), cells.end(), [](const auto& row) {
    return std::any_of(row.begin(), row.end(),
                       [](const auto& cell) { return cell && cell->beyond_rounding(); });
  });
}

size_t PairMap::count() const {
  size_t n = 0;
  for (const MapPanel& panel : panels) {
    for (const auto& row : panel.cells) {
      n += static_cast<size_t>(
          std::count_if(row.begin(), row.end(), [](const auto& cell) { return cell.has_value(); }));
    }
  }
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

}  // namespace greta
