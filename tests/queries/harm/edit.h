// Edits of a run: each spoils its evidence, or tells the same otherwise.
#pragma once
#include <vector>

#include "tests/queries/harm/random_run.h"

namespace greta::harm {

struct Edit {
  const char* name;
  /// Edits the run; false when it has nothing that can be edited so.
  bool (*apply)(ToldRun& run, Random& random);
  bool tells_the_same = false;  ///< the verdicts stay, and where the run first fails
};

const std::vector<Edit>& edits();

}  // namespace greta::harm
