#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/greta_infer/environment.h"
#include "engine/forward/forward.h"
#include "engine/record/run_queue.h"
#include "engine/session/session.h"

// Options that several commands share. What the command line gives is kept as text and resolved
// when the model is known; resolving throws std::invalid_argument with one line for the user.

namespace greta {

struct TraceArguments {
  std::optional<std::string> layers, tensors, phases;
  int64_t sample = 0;
};
/// For CLI::Option::check of --suite: the suites are offered.
CLI::Validator offers_suites();

/// --layers, --tensors, --phases, --sample.
void add_trace_options(CLI::App& command, TraceArguments& arguments);
/// What to trace of an n_layers model. `usual` has the tensors and phases for when no option names
/// any; its layers are 0, 1, 2, 4 and 8 as far as the model has them.
TraceSelection resolve_trace(const TraceArguments& arguments, const Environment& environment,
                             int64_t n_layers, TraceSelection usual);

struct ComputeArguments {
  std::optional<std::string> mode;
  std::vector<std::string> routes, faults;
  std::string kv_cache = "f32";
  std::optional<int64_t> seed;
};
/// --mode, --route, --kv-cache, --inject, --seed.
void add_compute_options(CLI::App& command, ComputeArguments& arguments);
/// --mode, else GRETA_B3_66_MODE, else as_designed.
Mode resolve_mode(const ComputeArguments& arguments, const Environment& environment);
/// --seed, else GRETA_SEED, else `usual`.
int64_t resolve_seed(const ComputeArguments& arguments, const Environment& environment,
                     int64_t usual);
/// Throws for a fault in a layer that the model does not have.
ForwardOptions resolve_forward(const ComputeArguments& arguments, Mode mode, const Session& session,
                               int64_t max_batch);

struct RecordArguments {
  std::optional<std::string> database;
  std::string experiment, date, jsonl, delta_out, commit, run_name;
};
/// --db, --experiment, --date, --wait, --trace-jsonl.
void add_record_options(CLI::App& command, RecordArguments& arguments);
/// The database is --db, else GRETA_DB, else greta.db; the delta file delta_out, else
/// GRETA_TRACE_PREFILL_DECODE_OUT.
RunTargets resolve_targets(const RecordArguments& arguments, const Environment& environment);

/// "3 tokens", "1 token".
std::string counted(int64_t n, const char* noun);

/// Flushes standard output; throws std::system_error when something was not written.
void finish_output();

}  // namespace greta
