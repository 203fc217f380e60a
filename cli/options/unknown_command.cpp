#include "cli/options/unknown_command.h"

#include <string>
#include <vector>

#include "common/near_words.h"

namespace greta {

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
