#include "common/utc_time.h"

#include <ctime>

namespace greta {

namespace {

std::string utc_text(std::time_t at, const char* format) {
  std::tm parts{};
  gmtime_r(&at, &parts);
  char text[sizeof "2026-02-07T00:00:00Z"];
  std::strftime(text, sizeof text, format, &parts);
  return text;
}

}  // namespace

std::string utc_now() { return utc_text(std::time(nullptr), "%Y-%m-%dT%H:%M:%SZ"); }

std::string utc_day_before(int days) {
  constexpr std::time_t kSecondsOfDay = 86'400;
  return utc_text(std::time(nullptr) - days * kSecondsOfDay, "%Y-%m-%d");
}

}  // namespace greta
