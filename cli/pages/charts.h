#pragma once
#include "cli/pages/html.h"
#include "cli/pages/pair_map.h"
#include "cli/report/texts.h"

namespace greta {

/// The worst distance of each layer of a panel as a line on a logarithmic scale, with what rounding
/// explains as a band below it; nothing where nothing differs or is measured.
Html growth_chart(const PairMap& map, size_t panel, const Wording& words);

/// The worst distance over its tolerance of each position; nothing of fewer than two positions.
Html positions_chart(const PairMap& map, size_t panel, const Wording& words);

}  // namespace greta
