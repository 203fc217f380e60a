#include "common/completion.h"

#include <algorithm>

namespace greta {
namespace {

void append_word(std::string& words, std::string_view word) {
  words.append(words.empty() ? "" : " ").append(word);
}

}  // namespace

std::string option_words(const CLI::App& command) {
  std::string words;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) append_word(words, "--" + name);
  }
  return words;
}

std::string command_words(const CLI::App& app) {
  std::string words;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    append_word(words, command->get_name());
  }
  return words;
}

std::string bash_option_cases(const CLI::App& app) {
  std::string cases;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    cases += "    " + command->get_name() + ") options='" + option_words(*command) + "' ;;\n";
  }
  return cases;
}

std::string fill_script(
    std::string_view script,
    std::initializer_list<std::pair<std::string_view, std::string_view>> words_by_name) {
  std::string filled;
  while (!script.empty()) {
    const size_t at = script.find('@');
    filled += script.substr(0, at);
    if (at == std::string_view::npos) break;
    script.remove_prefix(at);
    const size_t end = script.find('@', 1);
    const std::string_view name = end == std::string_view::npos ? "" : script.substr(1, end - 1);
    const auto* found = std::find_if(words_by_name.begin(), words_by_name.end(),
                                     [&](const auto& entry) { return entry.first == name; });
    if (found == words_by_name.end()) {
      filled += '@';  // an @ of the script's own: "$@"
      script.remove_prefix(1);
      continue;
    }
    filled += found->second;
    script.remove_prefix(end + 1);
  }
  return filled;
}

}  // namespace greta
