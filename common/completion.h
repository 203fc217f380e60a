#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

/// Completion scripts of both programs, made from their command lines: what a command takes, and
/// what its values can be, is said where the option is added, and nowhere else. A value that is one
/// of a few has CLI::IsMember; a file or directory has an option_text that says FILE, DIR, PATH or
/// .db; for others there are the validators below, which refuse nothing.
namespace greta {

/// These words are offered for the value.
CLI::Validator offers(std::vector<std::string> words);
/// The same, worked out when a script is written.
CLI::Validator offers(std::function<std::vector<std::string>()> words);
/// Several of these words are offered, with commas between them.
CLI::Validator offers_list(std::vector<std::string> words);
/// Offered is the first column of what the program answers to these words of a shell: "query
/// 'SELECT name FROM run'".
CLI::Validator offers_answer(const std::string& command);

/// The shells that there is a script for.
const std::vector<std::string>& completed_shells();

/// The script of one of them.
std::string completion_script(CLI::App& app, const std::string& shell);

}  // namespace greta
