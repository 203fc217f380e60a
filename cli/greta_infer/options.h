#pragma once
#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/options/shared_options.h"
#include "engine/forward/forward.h"
#include "engine/record/run_queue.h"
#include "engine/session/session.h"

// Options that several commands share. What the command line gives is kept as text and resolved
// when the model is known; resolving throws std::invalid_argument with one line for the user.

namespace greta {

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

/// Parts of a text between commas and blanks.
std::vector<std::string> split_words(std::string_view text);

/// A word as a whole number, which the message calls `what`. Throws std::invalid_argument.
template <class Number>
Number parse_number(const std::string& word, const char* what) {
  Number value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) {
    throw std::invalid_argument(std::string(what) + " '" + word + "' is not a whole number");
  }
  return value;
}

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
TraceSelection resolve_trace(const TraceArguments& arguments, int64_t n_layers,
                             TraceSelection usual);

struct ComputeArguments {
  std::optional<std::string> mode;
  std::vector<std::string> routes, faults;
  std::string kv_cache = "f32";
  std::optional<int64_t> seed;
};
/// --mode, --route, --kv-cache, --inject, --seed.
void add_compute_options(CLI::App& command, ComputeArguments& arguments);
/// --mode, else GRETA_B3_66_MODE, else as_designed.
Mode resolve_mode(const ComputeArguments& arguments);
/// --seed, else GRETA_SEED, else 0.
int64_t resolve_seed(const ComputeArguments& arguments);
/// Throws for a fault in a layer that the model does not have.
ForwardOptions resolve_forward(const ComputeArguments& arguments, Mode mode, const Session& session,
                               int64_t max_batch);

struct RecordArguments {
  std::optional<std::string> database;
  std::string experiment, date, jsonl, delta_out, commit, run_name;
  bool replace_failed = false;
};
/// --db, --experiment, --date, --wait, --trace-jsonl.
void add_record_options(CLI::App& command, RecordArguments& arguments);
/// --run-name, --replace-failed: of commands that write one run.
void add_run_name_options(CLI::App& command, RecordArguments& arguments);
/// The database is --db, else GRETA_DB, else greta.db; the delta file delta_out, else
/// GRETA_TRACE_PREFILL_DECODE_OUT.
RunTargets resolve_targets(const RecordArguments& arguments);

/// "3 tokens", "1 token".
std::string counted(int64_t n, const char* noun);

/// Flushes standard output; throws std::system_error when something was not written.
void finish_output();

/// One line on standard error that says how far slow work has come; only on a terminal. Wiped when
/// it is done.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::string_view detail);  ///< at once
  /// As percent, from half a second on and ten times a second: may be called as often as one likes.
  void show(int64_t done, int64_t total);
  void clear();  ///< for other output; the next show() brings it back

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  bool terminal_;
  bool visible_ = false;
  Clock::time_point next_;
};

}  // namespace greta
