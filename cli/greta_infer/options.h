#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/greta_infer/environment.h"
#include "engine/forward/forward.h"
#include "engine/record/run_sinks.h"
#include "engine/session/session.h"

// Options that several commands share. What the command line gives is kept as text and resolved
// when the model is known; resolving throws std::invalid_argument with one line for the user.

namespace greta {

struct ModelArguments {
  std::string file;
  std::string backend = "auto";
  int threads = 0;
  std::optional<int64_t> max_seq_len;
  int64_t batch = 0;    ///< tokens; 0: what suits the backend
  bool sha256 = false;  ///< of the file, to be recorded beside the model's root
};
/// --model alone, for commands that compute nothing.
void add_model_option(CLI::App& command, std::string& file);
/// --model, --backend, --threads, --max-seq-len, --batch.
void add_model_options(CLI::App& command, ModelArguments& arguments);

/// Says on standard error when the file does not say how text is split, and how it is split then.
void warn_of_missing_pre_tokenizer(const GgufFile& file);

/// --model-sha256, of commands that record.
void add_model_sha256_option(CLI::App& command, ModelArguments& arguments);

/// What a command is going to ask of a session.
struct SessionNeeds {
  bool tokenizer = false, digest = false;
};

/// The model, ready to run, with progress on standard error while it is loaded. Refuses one that
/// GRETA_INT4_WEIGHTS rules out.
std::unique_ptr<Session> open_session(const ModelArguments& arguments,
                                      const Environment& environment, const SessionNeeds& needs);

/// What it works out, with progress on standard error meanwhile. Throws Stopped.
const ModelDigests& await_digests(ModelDigest& digest);

/// Positions to use: --max-seq-len, else GRETA_MAX_SEQ_LEN, never more than the model's context.
int64_t positions_in_use(const ModelArguments& arguments, const Environment& environment,
                         const Model& model);

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
