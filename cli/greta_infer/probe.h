#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cli/greta_infer/model_options.h"
#include "cli/greta_infer/options.h"
#include "cli/warehouse/verdict.h"
#include "engine/probe/probe.h"
#include "engine/record/run_queue.h"
#include "engine/session/run_info.h"
#include "kernels/device_error.h"

namespace greta {

/// The verdict of one run, as the view run_verdict has it.
struct InferVerdict {
  std::string verdict, strict, numeric;
  std::string headline;  ///< verdict, as Headline::text() has it
  FailPlace fail;        ///< where it first fails
  /// One line for a terminal: the headline, where the run first fails, the command that shows more,
  /// how much was compared, and the verdict by the other gate.
  std::string line;

  /// By `gate`: strict, numeric, or "" for the verdict to act on.
  const std::string& by(std::string_view gate) const;
};

/// Throws DatabaseError, SQLite::Exception, std::runtime_error when there is no such run.
InferVerdict read_verdict(const std::filesystem::path& database, const std::string& run);

/// Tokens that a probe decodes behind a prompt, unless it is told otherwise.
inline constexpr int64_t kDefaultDecodeSteps = 8;

/// A probe with everything decided.
struct ProbeJob {
  ProbeOptions options;
  std::vector<ProbePrompt> prompts;
  RunSetup setup;
  RunTargets targets;
  ModelArguments model;
  std::vector<std::string> left_out = {};  ///< prompts of the suite that do not fit
  std::string progress = "probing";        ///< what a terminal is told
};

/// Ids of a prompt given on the command line, with what a record says of its text. add_special:
/// with the tokens that begin and end a text. Throws as check_length().
ProbePrompt resolve_prompt(const PromptArguments& arguments, const std::string& name,
                           int64_t n_steps, int64_t positions, Session& session,
                           bool add_special = true);

/// Throws std::invalid_argument when a prompt has no token, or does not fit with the tokens that
/// are decoded after it.
void check_length(const std::string& name, int64_t n_tokens, int64_t n_steps, int64_t positions);

struct ProbeOutcome {
  std::string run;  ///< its name in the database; empty without one
  int64_t n_rows = 0;
  double seconds = 0;  ///< of the prompts, until everything is on disk
};

/// What `begin` gives. When the device is missing, or has no memory for it, the run is left in the
/// database as failed, and the DeviceError goes on.
template <class Begin>
auto begin_or_fail(const std::string& database, const RunSetup& setup, const ModelArguments& model,
                   const Begin& begin) {
  try {
    return begin();
  } catch (const DeviceError& error) {
    leave_failed_run(database, make_failed_record(setup, model.file, model.backend, error.what()));
    throw;
  }
}

/// Runs a probe, with progress on standard error, and records it. Throws std::invalid_argument for
/// a fault that no prompt can show.
ProbeOutcome run_probe(ProbeJob job, Session& session);

/// What identifies the session's model, with progress on standard error while it is worked out.
const ModelDigests& model_digests(Session& session);

/// Begins a run. What identifies the model is worked out beside it.
std::unique_ptr<RunQueue> open_queue(const RunTargets& targets, const RunRecord& record,
                                     Session& session);
/// Adds that to the run if it is there already: tallies are worked out by it. Whether it was.
bool identify_early(RunQueue& queue, Session& session);
/// Adds it, unless it was, once it is there, and ends the run as complete.
void end_run(RunQueue& queue, Session& session, bool identified = false);

/// Suites, modes, phases, trace points, routes and faults, on standard output.
void print_probe_lists();

}  // namespace greta
