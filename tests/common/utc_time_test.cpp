#include "common/utc_time.h"

#include <gtest/gtest.h>

namespace greta {
namespace {

TEST(UtcTime, ADayThatNoCalendarHasIsNone) {
  for (const char* day : {"2026-02-28", "2024-02-29", "2000-02-29", "2026-12-31", "2026-04-30"}) {
    EXPECT_TRUE(is_day(day)) << day;
  }
  for (const char* day :
       {"", "2026", "2026-02", "2026-02-30", "2026-02-29", "1900-02-29", "2026-04-31", "2026-13-01",
        "2026-00-01", "2026-01-00", "2026-1-01", "26-01-01", "2026/01/01", "2026-01-01 ",
        " 2026-01-01", "+026-01-01", "2026-01-0a", "2026-01-01T00:00:00Z"}) {
    EXPECT_FALSE(is_day(day)) << day;
  }
  EXPECT_TRUE(is_day(utc_day_before(0)));
}

TEST(UtcTime, ATimeThatNoClockShowsIsNone) {
  for (const char* time : {"2026-02-07T12:00:00Z", "2026-02-07T23:59:60Z", "2026-02-07T12:00:00",
                           "2026-02-07T12:00:00.25Z", "2026-02-07T12:00:00.123456+00:00"}) {
    EXPECT_TRUE(is_utc_time(time)) << time;
  }
  for (const char* time : {"", "2026-02-07", "2026-02-30T12:00:00Z", "2026-02-07T24:00:00Z",
                           "2026-02-07T12:60:00Z", "2026-02-07T12:00:61Z", "2026-02-07T12:00:00.Z",
                           "2026-02-07T12:00:00+02:00", "2026-02-07T12:00:00Zx",
                           "2026-02-07 12:00:00Z", "2026-02-07T12:00Z", "2026-02-07Tgarbage00"}) {
    EXPECT_FALSE(is_utc_time(time)) << time;
  }
  EXPECT_TRUE(is_utc_time(utc_now()));
}

}  // namespace
}  // namespace greta
