#pragma once
#include <CLI/CLI.hpp>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

/// What the completion scripts of both programs take from their command lines, so that no option is
/// forgotten in them.
namespace greta {

/// Long option names of a command: "--run --gate".
std::string option_words(const CLI::App& command);

/// Names of the subcommands: "ingest runs".
std::string command_words(const CLI::App& app);

/// Branches of bash's case, one per subcommand, that set `options` to its option_words.
std::string bash_option_cases(const CLI::App& app);

/// A script with every @NAME@ replaced by its words; words are not looked into.
std::string fill_script(
    std::string_view script,
    std::initializer_list<std::pair<std::string_view, std::string_view>> words_by_name);

}  // namespace greta
