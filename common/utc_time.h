#pragma once

#include <string>

namespace greta {

/// The time of the clock, as 2026-02-07T00:00:00Z.
std::string utc_now();

/// The day so many days ago, in UTC: 2026-02-07.
std::string utc_day_before(int days);

}  // namespace greta
