#include "common/completion.h"

#include <memory>

#include "cli/greta_db/commands.h"

namespace greta {

void add_completion_command(CLI::App& app, Options& options) {
  for (CLI::Option* run : app.get_subcommand("compare")->get_options()) {
    if (!run->nonpositional()) run->check(offers_answer(kListRuns));
  }
  CLI::App* command = app.add_subcommand(
      "completion", "Prints the completion script of a shell, run names included");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember(completed_shells()))
      ->option_text("SHELL");
  command->callback([&app, &options, shell] {
    options.action = [&app, &options, shell] {
      options.out.write(completion_script(app, *shell));
      return static_cast<int>(kExitDone);
    };
  });
}

}  // namespace greta
