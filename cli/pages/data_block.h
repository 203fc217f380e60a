#pragma once
#include <string>

#include "cli/pages/pair_map.h"
#include "cli/warehouse/sql_query.h"

namespace greta {

/// The cells of a map as JSON. A cell is 0 where there is none, else an array in the order of
/// "columns", without the nulls at its end; "state" counts in "states", "tolerance" in
/// "tolerances", texts in "texts" (0: none), hashes are 16 hex digits, a right hash of 0 is that of
/// the left, shares are in thousandths. Reals have five digits.
std::string json_of_map(const PairMap& map);

/// {"sketch":[low,high],...}: what times a distance is the 95 % interval of an estimate.
std::string json_of_measures(QueryPool& statements);

/// A real in at most five digits and the fewest characters: 0.00012, 1.2345e-7.
std::string short_real(double value);

}  // namespace greta
