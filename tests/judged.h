// Verdicts kept, as every program leaves a file that it wrote runs to.
#pragma once
#include "db/judge.h"
#include "tests/queries/warehouse.h"

namespace greta {

inline void judge_all(Warehouse& w) { judge_rest(w.db); }

}  // namespace greta
