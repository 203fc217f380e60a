#include "cli/greta_infer/commands.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "cli/greta_infer/environment.h"
#include "cli/greta_infer/options.h"
#include "common/exit_status.h"
#include "engine/session/run_info.h"

namespace greta {
namespace {

std::string version_text() {
  const BuildInfo build = build_info();
  std::string text = "greta-infer " + std::string(build.version) + " (commit ";
  text += build.commit.empty() ? "unknown" : build.commit;
  if (build.dirty.value_or(false)) text += ", with changes";
  return text + ", SQLite " + sqlite3_libversion() + ")";
}

std::string footer() {
  std::string text = "Environment, where no flag says otherwise:\n";
  for (const EnvironmentVariable& variable : environment_variables()) {
    std::string line = "  " + std::string(variable.name);
    line.resize(std::max<size_t>(line.size() + 1, 37), ' ');
    text.append(line).append(variable.description).append("\n");
  }
  return text +
         "\nExit status: 0 done, 2 error; with --gate 0 PASS, 1 FAIL, 3 no verdict. "
         "All of it: `greta-infer manual | man -l -`";
}

}  // namespace

void add_infer_commands(CLI::App& app, Infer& infer) {
  app.name("greta-infer");
  app.description(
      "Runs GGUF models and writes what prefill and decode computed straight into a greta\n"
      "database, which says where the two part ways.");
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text(), "Print version and commit");
  add_infer_synth(app, infer);
  add_infer_probe(app, infer);
  add_infer_sweep(app, infer);
  add_infer_calibrate(app, infer);
  add_infer_replay(app, infer);
  add_infer_run(app, infer);
  add_infer_tokenize(app, infer);
  add_infer_info(app, infer);
  add_self_description(app, greta_infer_manual(), [&infer](std::function<std::string()> text) {
    infer.action = [text] {
      std::fputs(text().c_str(), stdout);
      finish_output();
      return static_cast<int>(kExitDone);
    };
  });
  app.footer(footer());  // commands made before do not inherit it
}

}  // namespace greta
