#include "common/completion.h"

#include <cstdio>
#include <memory>

#include "cli/greta_infer/commands.h"
#include "cli/greta_infer/options.h"
#include "common/exit_status.h"

namespace greta {

void add_infer_completion(CLI::App& app, Infer& infer) {
  CLI::App* command = app.add_subcommand("completion", "Prints the completion script of a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember(completed_shells()))
      ->option_text("SHELL");
  command->callback([&app, &infer, shell] {
    infer.action = [&app, shell] {
      std::fputs(completion_script(app, *shell).c_str(), stdout);
      finish_output();
      return static_cast<int>(kExitDone);
    };
  });
}

}  // namespace greta
