// A second opinion, worked out from the rows themselves: why a run must not pass.
#pragma once
#include <string>

#include "tests/queries/harm/told_run.h"

namespace greta::harm {

enum class Reading { kStrict, kNumeric };

/// What stands in the way of a PASS, in words; "" when nothing does.
std::string obstacle(const ToldRun& run, Reading reading);

}  // namespace greta::harm
