#include "cli/greta_infer/prompt_options.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <system_error>

#include "cli/greta_infer/word_list.h"
#include "common/shell_word.h"

namespace greta {
namespace {

std::string read_all(const std::string& file) {
  if (file == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    throw std::invalid_argument("--prompt-file " + file + " is a directory");
  }
  std::ifstream in(file, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (!in.is_open() || in.bad()) {
    throw std::invalid_argument("--prompt-file " + file + " cannot be read");
  }
  return text;
}

bool is_file(const std::string& text) {
  constexpr size_t kLongestPath = 4096;
  if (text.empty() || text.size() > kLongestPath || text.find('\0') != std::string::npos) {
    return false;
  }
  std::error_code error;
  return std::filesystem::is_regular_file(text, error);
}

}  // namespace

void add_prompt_options(CLI::App& command, PromptArguments& arguments) {
  CLI::Option* text =
      command
          .add_option("-p,--prompt", arguments.text,
                      "Text of the prompt as it is: no template of a chat is applied")
          ->option_text("TEXT");
  command
      .add_option("-f,--prompt-file", arguments.file,
                  "File with the prompt, - for standard input; one line end at its end is left out")
      ->excludes(text)
      ->option_text("FILE");
}

void add_tokens_option(CLI::App& command, PromptArguments& arguments) {
  command
      .add_option("--tokens", arguments.tokens,
                  "Token ids of the prompt instead of its text, as 1,15043; nothing is added")
      ->excludes("--prompt")
      ->excludes("--prompt-file")
      ->option_text("IDS");
}

std::string prompt_text(const PromptArguments& arguments) {
  if (arguments.text) {
    if (is_file(*arguments.text)) {
      std::fprintf(stderr,
                   "greta-infer: warning: --prompt %s names a file, and its name is the prompt; "
                   "its content is --prompt-file %s\n",
                   shell_word(*arguments.text).c_str(), shell_word(*arguments.text).c_str());
    }
    return *arguments.text;
  }
  std::string text = read_all(arguments.file);
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

std::vector<int32_t> parse_token_ids(const std::string& text, int64_t vocab) {
  std::vector<int32_t> ids;
  for (const std::string& word : split_words(text)) {
    const auto id = parse_number<int64_t>(word, "token id");
    if (id < 0 || id >= vocab) {
      throw std::invalid_argument("--tokens: there is no token " + std::to_string(id) +
                                  "; the model has 0 to " + std::to_string(vocab - 1));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

}  // namespace greta
