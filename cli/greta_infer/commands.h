#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "common/completion.h"

// The commands of greta-infer.

namespace greta {

/// What every command shares.
struct Infer {
  std::function<int()> action;  ///< set by the command that was named; returns the exit status
};

// Each adds one subcommand to `app`. Parsing sets infer.action; run_greta_infer runs it afterwards.
// Actions throw std::exception with one line for the user.

void add_infer_synth(CLI::App& app, Infer& infer);
void add_infer_probe(CLI::App& app, Infer& infer);
void add_infer_sweep(CLI::App& app, Infer& infer);
void add_infer_calibrate(CLI::App& app, Infer& infer);
void add_infer_replay(CLI::App& app, Infer& infer);
void add_infer_run(CLI::App& app, Infer& infer);
void add_infer_tokenize(CLI::App& app, Infer& infer);
void add_infer_info(CLI::App& app, Infer& infer);

/// The prose of the manual, by command.
const std::vector<ManualText>& greta_infer_manual();

/// The program's own options and every command.
void add_infer_commands(CLI::App& app, Infer& infer);

}  // namespace greta
