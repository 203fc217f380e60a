#include "cli/options/checked_value.h"

#include <charconv>

#include "common/utc_time.h"

namespace greta {
namespace {

/// The number that the whole text is; nothing for anything else.
std::optional<int64_t> number_of(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// A day, or the month or year that one begins with.
bool is_date(std::string_view text) {
  constexpr std::string_view kFirstDay = "0000-01-01";
  const bool may_be_cut = text.size() == 4 || text.size() == 7;
  return is_day(may_be_cut ? std::string(text).append(kFirstDay.substr(text.size())) : text);
}

}  // namespace

CLI::Option* add_number_option(CLI::App& command, const std::string& name,
                               std::optional<int64_t>& value, const std::string& help,
                               int64_t least, int64_t most) {
  return command
      .add_option_function<std::string>(
          name,
          [name, &value, least, most](const std::string& text) {
            value = number_of(text);
            if (value && *value >= least && *value <= most) return;
            throw CLI::ValidationError(
                name, "'" + text + "' is no whole number " +
                          (most == std::numeric_limits<int64_t>::max()
                               ? "of " + std::to_string(least) + " or more"
                               : "from " + std::to_string(least) + " to " + std::to_string(most)));
          },
          help)
      ->option_text("N");
}

std::string wrong_date(const std::string& text) {
  if (is_date(text)) return "";
  return "'" + text + "' is no date: give YYYY-MM-DD, YYYY-MM or YYYY";
}

}  // namespace greta
