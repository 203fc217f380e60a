#include <cstdio>
#include <memory>

#include "cli/greta_infer/commands.h"
#include "cli/greta_infer/model_options.h"
#include "cli/greta_infer/options.h"
#include "common/exit_status.h"
#include "engine/tokenizer/tokenizer.h"

namespace greta {
namespace {

struct TokenizeArguments {
  std::string model;
  PromptArguments prompt;
  bool lines = false, no_special = false, no_bos = false;
};

std::string id_line(const std::vector<int32_t>& ids) {
  std::string line;
  for (const int32_t id : ids) line += (line.empty() ? "" : " ") + std::to_string(id);
  return line + "\n";
}

int tokenize(const TokenizeArguments& arguments) {
  const GgufFile file = GgufFile::open(arguments.model);
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(file);
  warn_of_missing_pre_tokenizer(file);
  PromptArguments prompt = arguments.prompt;
  if (!prompt.given()) prompt.file = "-";
  const std::string text = prompt_text(prompt);
  const auto print = [&](std::string_view part) {
    const std::string line =
        id_line(tokenizer->encode(part, !arguments.no_bos, !arguments.no_special));
    std::fwrite(line.data(), 1, line.size(), stdout);
  };
  if (!arguments.lines) {
    print(text);
  } else {
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      print(std::string_view(text).substr(at, end - at));
      at = end + 1;
    }
  }
  finish_output();
  return kExitDone;
}

}  // namespace

void add_infer_tokenize(CLI::App& app, Infer& infer) {
  CLI::App* command = app.add_subcommand(
      "tokenize", "Prints the token ids of a text (of standard input, when no option gives one)");
  auto arguments = std::make_shared<TokenizeArguments>();
  add_model_option(*command, arguments->model);
  add_prompt_options(*command, arguments->prompt);
  command->add_flag("--lines", arguments->lines,
                    "Every line of the text by itself; one line of ids for each");
  command->add_flag("--no-bos", arguments->no_bos, "Without the tokens that begin and end a text");
  command->add_flag("--no-special", arguments->no_special,
                    "Special tokens spelled in the text are text");
  command->callback(
      [&infer, arguments] { infer.action = [arguments] { return tokenize(*arguments); }; });
}

}  // namespace greta
