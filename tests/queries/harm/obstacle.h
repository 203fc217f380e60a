// A second opinion, worked out from the rows themselves: why a run must not pass.
#pragma once
#include <string>

#include "tests/queries/harm/court.h"

namespace greta::harm {

/// What stands in the way of a PASS, in words; "" when nothing does.
std::string obstacle(const ToldRun& run, Via via, Reading reading);

/// Whether a document says that the run fails, or lists pairs that do not match.
bool a_document_fails_it(const ToldRun& run);

}  // namespace greta::harm
