#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/output/row_printer.h"
#include "common/completion.h"
#include "common/exit_status.h"

// Options that several commands of both programs share.

namespace greta {

template <class T>
using Choices = std::vector<std::pair<const char*, T>>;

/// The name in "--commit REV", the usage of an option, or in "file FILE", that of an argument.
inline std::string name_in(const std::string& usage) { return usage.substr(0, usage.find(' ')); }
/// The word for its value there: REV, FILE.
inline std::string value_in(const std::string& usage) { return usage.substr(usage.find(' ') + 1); }

template <class T>
CLI::Option* add_option(CLI::App& app, const std::string& usage, T& value,
                        const std::string& help) {
  return app.add_option(name_in(usage), value, help)->option_text(value_in(usage));
}

/// The value that `name` stands for. Throws CLI::ValidationError that lists
/// them.
template <class T>
T choose(const std::string& option, const std::string& name, const Choices<T>& choices) {
  std::string known;
  for (const auto& [choice, value] : choices) {
    if (name == choice) return value;
    known += (known.empty() ? "" : ", ") + std::string(choice);
  }
  throw CLI::ValidationError(option, "'" + name + "' is none of " + known);
}

/// Adds an option whose value is one of a few words, which shells complete.
template <class T>
CLI::Option* add_choice_option(CLI::App& app, const std::string& usage, T& value,
                               const Choices<T>& choices, const std::string& help) {
  const std::string name = name_in(usage);
  std::vector<std::string> words;
  for (const auto& [word, meaning] : choices) words.emplace_back(word);
  return app
      .add_option_function<std::string>(
          name,
          [name, &value, choices](const std::string& word) { value = choose(name, word, choices); },
          help)
      ->option_text(value_in(usage))
      ->check(offers(words));
}

/// Adds an option that takes a whole number from `least` to `most`; another word is refused in a
/// sentence that says so.
CLI::Option* add_number_option(CLI::App& command, const std::string& usage,
                               std::optional<int64_t>& value, const std::string& help,
                               int64_t least = 0,
                               int64_t most = std::numeric_limits<int64_t>::max());

/// For CLI::Option::check: what is wrong with a date, or the year or month that one begins with; ""
/// when nothing is.
std::string wrong_date(const std::string& text);

/// Adds --format; `pages`: html is among its words.
CLI::Option* add_format_option(CLI::App& app, Format& format, bool pages = false);

/// Adds --wait DURATION, which sets the patience of LockWait::usual().
CLI::Option* add_wait_option(CLI::App& app);

/// The error of a command line that could not be parsed because it names no command of the program:
/// the word in its place, and the nearest ones. Nothing when something else is wrong.
std::optional<UsageError> unknown_command(const CLI::App& app);

}  // namespace greta
