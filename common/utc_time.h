#pragma once

#include <string>
#include <string_view>

namespace greta {

/// The time of the clock, as 2026-02-07T00:00:00Z.
std::string utc_now();

/// The day so many days ago, in UTC: 2026-02-07.
std::string utc_day_before(int days);

/// Whether a text is a day of the calendar as YYYY-MM-DD: 2026-02-30 is none.
bool is_day(std::string_view text);

/// The same time in UTC as 2026-02-07T12:00:00Z; "" of a text that is no time of ISO 8601: of a day
/// that is one, with parts of a second or without, and with Z, a zone as +01:00 or +0100, or
/// nothing (UTC) behind. T and Z may be small.
std::string utc_time(std::string_view text);

}  // namespace greta
