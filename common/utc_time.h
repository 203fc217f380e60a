#pragma once

#include <string>

namespace greta {

/// The time of the clock, as 2026-02-07T00:00:00Z.
std::string utc_now();

}  // namespace greta
