#include "common/utc_time.h"

#include <algorithm>
#include <chrono>
#include <ctime>

namespace greta {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Digits where the shape has a 'd', else what it has.
bool has_shape(std::string_view text, std::string_view shape) {
  return std::equal(
      text.begin(), text.end(), shape.begin(), shape.end(),
      [](char c, char of_shape) { return of_shape == 'd' ? is_digit(c) : c == of_shape; });
}

/// Of two digits.
unsigned number_at(std::string_view text, size_t at) {
  return static_cast<unsigned>((text[at] - '0') * 10 + text[at + 1] - '0');
}

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

bool is_day(std::string_view text) {
  using namespace std::chrono;
  if (!has_shape(text, "dddd-dd-dd")) return false;
  const auto of_year = static_cast<int>(number_at(text, 0) * 100 + number_at(text, 2));
  return (year(of_year) / month(number_at(text, 5)) / day(number_at(text, 8))).ok();
}

std::string utc_time(std::string_view text) {
  using namespace std::chrono;
  constexpr size_t kDayEnd = 10, kSecondEnd = 19;
  if (text.size() < kSecondEnd || !is_day(text.substr(0, kDayEnd)) ||
      (text[kDayEnd] != 'T' && text[kDayEnd] != 't') ||
      !has_shape(text.substr(kDayEnd + 1, kSecondEnd - kDayEnd - 1), "dd:dd:dd")) {
    return "";
  }
  constexpr unsigned kMostSeconds = 60;  // a leap second
  if (number_at(text, 11) > 23 || number_at(text, 14) > 59 || number_at(text, 17) > kMostSeconds) {
    return "";
  }
  std::string_view rest = text.substr(kSecondEnd);
  if (rest.starts_with('.')) {
    const auto end = std::find_if_not(rest.begin() + 1, rest.end(), is_digit);
    if (end == rest.begin() + 1) return "";
    rest.remove_prefix(static_cast<size_t>(end - rest.begin()));
  }
  std::string time(text.substr(0, text.size() - rest.size()));
  time[kDayEnd] = 'T';
  if (rest.empty() || rest == "Z" || rest == "z") return time + "Z";
  const bool is_zone = has_shape(rest, "+dd:dd") || has_shape(rest, "-dd:dd") ||
                       has_shape(rest, "+dddd") || has_shape(rest, "-dddd");
  const size_t minute = rest.size() - 2;
  if (!is_zone || number_at(rest, 1) > 23 || number_at(rest, minute) > 59) return "";
  const auto of_year = static_cast<int>(number_at(text, 0) * 100 + number_at(text, 2));
  const sys_days date = year(of_year) / month(number_at(text, 5)) / day(number_at(text, 8));
  const minutes zone = hours(number_at(rest, 1)) + minutes(number_at(rest, minute));
  const auto at = date + hours(number_at(text, 11)) + minutes(number_at(text, 14)) -
                  (rest[0] == '-' ? -zone : zone);
  // the seconds and their parts stay as they are written
  return utc_text(system_clock::to_time_t(sys_seconds(at)), "%Y-%m-%dT%H:%M:") +
         time.substr(kSecondEnd - 2) + "Z";
}

}  // namespace greta
