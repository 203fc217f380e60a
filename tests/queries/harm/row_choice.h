// Which rows of a run an edit damages.
#pragma once
#include <functional>
#include <vector>

#include "tests/queries/harm/harmful_edit.h"

namespace greta::harm {

/// One of the rows that suit; null when none does.
ToldRow* any_row(ToldRun& run, Random& random, const std::function<bool(const ToldRow&)>& suits);
ToldRow* any_traced_row(ToldRun& run, Random& random);

std::vector<const ToldRow*> rows_of_pair(const ToldRun& run, const ToldRow& row);

/// Whether the other side has a row of the same pair.
bool is_compared(const ToldRun& run, const ToldRow& row);

/// Whether each side has one row, of a trace, and both say the same.
bool has_twin(const ToldRun& run, const ToldRow& row);

/// Notes that a row leaves its pair.
void take_apart(Harm& harm, const ToldRow& row);

}  // namespace greta::harm
