#pragma once
#include <optional>
#include <string>

#include "cli/pages/html.h"
#include "cli/pages/pair_map.h"
#include "cli/report/texts.h"

namespace greta {

/// A cell by its place.
struct CellPlace {
  size_t panel = 0, layer = 0, tensor = 0;
};

/// The first cell beyond rounding of a panel, in forward order.
std::optional<CellPlace> first_beyond(const PairMap& map, size_t panel);

/// "5", "head": a layer as maps name it.
std::string layer_text(const PairMap& map, size_t layer, const Wording& words);

/// The field that filters cells, and what the keys do: shown by the script alone.
Html filter_box(const Wording& words);

/// A map as a section of a page, number `index` of its data: legend, a table per panel with its
/// charts, and a list of what differs. `first` is marked as where it begins.
Html html_of_map(const PairMap& map, size_t index, std::optional<CellPlace> first,
                 const Wording& words);

}  // namespace greta
