#include "cli/options/shared_options.h"

#include <charconv>

#include "common/near_words.h"
#include "common/utc_time.h"
#include "db/lock_wait.h"

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

CLI::Option* add_number_option(CLI::App& command, const std::string& usage,
                               std::optional<int64_t>& value, const std::string& help,
                               int64_t least, int64_t most) {
  const std::string name = name_in(usage);
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
      ->option_text(value_in(usage));
}

std::string wrong_date(const std::string& text) {
  if (is_date(text)) return "";
  return "'" + text + "' is no date: give YYYY-MM-DD, YYYY-MM or YYYY";
}

CLI::Option* add_format_option(CLI::App& app, Format& format, bool pages) {
  Choices<Format> choices{{"table", Format::kTable},
                          {"json", Format::kJson},
                          {"csv", Format::kCsv},
                          {"tsv", Format::kTsv},
                          {"md", Format::kMarkdown}};
  if (pages) choices.emplace_back("html", Format::kHtml);
  return add_choice_option<Format>(
      app, "--format FORMAT", format, choices,
      std::string("table (default, also when not on a terminal), json, csv, tsv or md") +
          (pages ? "; html of report, compare, history and gate" : ""));
}

CLI::Option* add_wait_option(CLI::App& app) {
  return app
      .add_option_function<std::string>(
          "--wait",
          [](const std::string& text) {
            const auto patience = parse_duration(text);
            if (!patience) throw CLI::ValidationError("--wait", "'" + text + "' is not like 10m");
            LockWait::usual().set_patience(*patience);
          },
          "How long to wait for others that write to the database, as 90s or 2h (10m)")
      ->option_text("DURATION");
}

std::optional<UsageError> unknown_command(const CLI::App& app) {
  if (!app.get_subcommands().empty()) return std::nullopt;  // those that were parsed
  for (const std::string& word : app.remaining()) {
    if (word.starts_with('-')) continue;
    std::vector<std::string> commands;
    for (const CLI::App* command : app.get_subcommands(nullptr))
      commands.push_back(command->get_name());
    return unknown_name("command", word, commands, "`" + app.get_name() + " --help`");
  }
  return std::nullopt;
}

}  // namespace greta
