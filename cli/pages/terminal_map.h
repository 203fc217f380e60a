#pragma once
#include "cli/output/output.h"
#include "cli/pages/pair_map.h"

namespace greta {

/// Prints a map for a terminal, at most 80 columns wide: a line per layer, a character per trace
/// point (blocks with colours, else letters), and what they stand for. Panels that look alike are
/// one.
void print_map(Output& out, const PairMap& map);

}  // namespace greta
