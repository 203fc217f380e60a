#include "cli/options/checked_value.h"

#include <charconv>
#include <chrono>

namespace greta {
namespace {

/// The number that the whole text is; nothing for anything else.
std::optional<int64_t> number_of(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Digits alone, so many.
bool are_digits(std::string_view text, size_t count) {
  return text.size() == count && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_date(std::string_view text) {
  using namespace std::chrono;
  if (!are_digits(text.substr(0, 4), 4)) return false;
  const year of_year(static_cast<int>(*number_of(text.substr(0, 4))));
  if (text.size() == 4) return true;
  if (text[4] != '-' || !are_digits(text.substr(5, 2), 2)) return false;
  const month of_month(static_cast<unsigned>(*number_of(text.substr(5, 2))));
  if (text.size() == 7) return of_month.ok();
  if (text[7] != '-' || !are_digits(text.substr(8), 2)) return false;
  return (of_year / of_month / day(static_cast<unsigned>(*number_of(text.substr(8))))).ok();
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
