#pragma once
#include <string>

#include "cli/pages/pair_map.h"
#include "cli/warehouse/sql_query.h"

namespace greta {

/// A map as JSON: what its sides, layers and tensors are, what feeds what, and per panel "rows",
/// which cells there are ("1" per tensor of a layer, as number in the map's "rows"), and "cells"
/// (json_of_cells), whose numbers count in "states", "texts" and "tolerances".
std::string json_of_map(const PairMap& map);

/// {"sketch":[low,high],...}: what times a distance is the 95 % interval of an estimate.
std::string json_of_measures(QueryPool& statements);

}  // namespace greta
