#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// The prompt of a command, as text, file or ids.

namespace greta {

struct PromptArguments {
  std::optional<std::string> text;
  std::string file;                   ///< "-": standard input
  std::optional<std::string> tokens;  ///< ids, as text

  bool given() const { return text.has_value() || tokens.has_value() || !file.empty(); }
};
/// --prompt and --prompt-file.
void add_prompt_options(CLI::App& command, PromptArguments& arguments);
/// --tokens beside these.
void add_tokens_option(CLI::App& command, PromptArguments& arguments);
/// Text of --prompt or --prompt-file, without one line end at the end of a file. Says so on
/// standard error when --prompt names an existing file.
std::string prompt_text(const PromptArguments& arguments);
/// Ids of --tokens, separated by blanks or commas; vocab: how many the model has. Throws
/// std::invalid_argument for what is no id of it.
std::vector<int32_t> parse_token_ids(const std::string& text, int64_t vocab);

}  // namespace greta
