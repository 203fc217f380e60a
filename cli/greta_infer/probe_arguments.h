#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/greta_infer/model_options.h"
#include "cli/greta_infer/options.h"
#include "cli/greta_infer/probe.h"

namespace greta {

/// What a command line asks of a probe.
struct ProbeArguments {
  std::string suite = "default";
  ModelArguments model;
  PromptArguments prompt;
  std::string name = "prompt";
  TraceArguments trace;
  ComputeArguments compute;
  RecordArguments record;
  int64_t decode_steps = kDefaultDecodeSteps;
  int64_t repeats = kDefaultRepeats;
  std::optional<int64_t> sequences;  ///< nothing: as the mode has it
  bool rms_verify = false, cpu_probe = false;
  std::string label;  ///< RunRecord's
};

/// The options of a probe: all that one run of it can be asked, --model among them, not required.
void add_probe_options(CLI::App& command, ProbeArguments& arguments);

/// --gate.
void add_gate_option(CLI::App& command, std::string& gate);

/// What the run is, as far as it is known before the model is.
RunSetup resolve_probe_setup(const ProbeArguments& arguments);

/// Opens the model of a probe. When the device is missing, the run is left in the database as
/// failed. Throws std::invalid_argument without --model.
std::unique_ptr<Session> open_probe_session(const ProbeArguments& arguments,
                                            const RunTargets& targets);

/// The probe with everything decided. Throws std::invalid_argument for what this model, backend or
/// suite cannot do.
ProbeJob resolve_job(const ProbeArguments& arguments, RunTargets targets, Session& session);

}  // namespace greta
