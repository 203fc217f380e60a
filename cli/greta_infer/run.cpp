#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <utility>

#include "cli/greta_infer/commands.h"
#include "cli/greta_infer/environment.h"
#include "cli/greta_infer/probe.h"
#include "common/exit_status.h"
#include "common/stop_signal.h"
#include "common/utf8.h"
#include "engine/probe/fault_effect.h"
#include "engine/probe/generate.h"
#include "engine/probe/suite.h"

namespace greta {
namespace {

struct RunArguments {
  ModelArguments model;
  PromptArguments prompt;
  TraceArguments trace;
  ComputeArguments compute;
  RecordArguments record;
  SamplerOptions sampler;
  int64_t max_tokens = 64;
  bool ignore_eos = false, no_bos = false;
};

/// Standard output for text that comes token by token: whole characters only, at once. A model may
/// write escape sequences too: on a terminal they are spelled out, elsewhere the text is as it is.
class TextStream {
 public:
  void push(std::string_view bytes) { write(characters_.push(bytes)); }
  void finish() {
    write(characters_.finish());
    write("\n");
    finish_output();
  }

 private:
  void write(const std::string& characters) {
    const std::string text = on_terminal_ ? shown(characters) : characters;
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (!text.empty()) finish_output();
  }

  /// What is printable of the characters, which follow those before: a joiner may be a token.
  std::string shown(const std::string& characters) {
    const size_t before = utf8::printable(last_, kKept).size();
    std::string text = utf8::printable(last_ + characters, kKept).substr(before);
    size_t begin = characters.size();
    while (begin > 0 && (characters[--begin] & 0xc0) == 0x80) {
    }
    if (!characters.empty()) last_ = characters.substr(begin);
    return text;
  }

  static constexpr std::string_view kKept = "\n\t";
  const bool on_terminal_ = isatty(STDOUT_FILENO) == 1;
  utf8::Stream characters_;
  std::string last_;  ///< character
};

/// A generation is recorded when it is said where, or what to trace.
bool is_traced(const RunArguments& arguments) {
  const TraceArguments& trace = arguments.trace;
  const RecordArguments& record = arguments.record;
  return record.database || !record.experiment.empty() || !record.jsonl.empty() ||
         !record.run_name.empty() || trace.layers || trace.tensors || trace.phases ||
         trace.sample > 0;
}

/// True if it is recorded, or a probe is before it.
bool is_recorded(const RunArguments& arguments) {
  return is_traced(arguments) || environment::flag("GRETA_TRACE_B3_66") ||
         environment::flag("GRETA_TRACE_PREFILL_DECODE_DELTA");
}

/// The probe that GRETA_TRACE_B3_66 and GRETA_TRACE_PREFILL_DECODE_DELTA ask for, of this prompt
/// and as many tokens behind it as there is room for.
void probe_first(const RunArguments& arguments, const ProbePrompt& prompt, int64_t positions,
                 Session& session) {
  const bool b3_66 = environment::flag("GRETA_TRACE_B3_66");
  const bool delta = environment::flag("GRETA_TRACE_PREFILL_DECODE_DELTA");
  if (!b3_66 && !delta) return;
  const Suite& suite = find_suite(b3_66 ? "b3_66" : "b3_13");
  const Mode mode = resolve_mode(arguments.compute);
  ProbeJob job{
      .options = {.forward =
                      resolve_forward(arguments.compute, mode, session, arguments.model.batch),
                  .selection = resolve_trace({.layers = arguments.trace.layers,
                                              .tensors = arguments.trace.tensors,
                                              .phases = {},
                                              .sample = arguments.trace.sample},
                                             session.model().config().n_layers,
                                             {.layers = {}, .points = suite.points}),
                  .rms_verify = delta || environment::flag("GRETA_TRACE_RMS_VERIFY"),
                  .cpu_probe = delta || environment::flag("GRETA_TRACE_LMHEAD_CPU_PROBE"),
                  .decode_steps = std::min(kDefaultDecodeSteps,
                                           positions - static_cast<int64_t>(prompt.tokens.size())),
                  .n_threads = session.n_threads()},
      .prompts = {prompt},
      .setup = {.experiment = std::string(suite.name),
                .date = arguments.record.date,
                .mode = std::string(mode_name(mode)),
                .seed = resolve_seed(arguments.compute),
                .max_seq_len = positions},
      .targets = resolve_targets(arguments.record),
      .model = arguments.model};
  const std::string database = job.targets.database;
  const ProbeOutcome outcome = run_probe(std::move(job), session);
  const std::string line = read_verdict(database, outcome.run).line;
  std::fprintf(stderr, "greta-infer: %s: %s\n",
               utf8::printable(outcome.run + " in " + database).c_str(), line.c_str());
}

GenerateOptions resolve_options(const RunArguments& arguments, const ProbePrompt& prompt,
                                const Session& session) {
  // kv_aligned is a way to compare; a generation has nothing to align.
  const Mode asked = resolve_mode(arguments.compute);
  const Mode mode = asked == Mode::kKvAligned ? Mode::kAsDesigned : asked;
  GenerateOptions options{
      .forward = resolve_forward(arguments.compute, mode, session, arguments.model.batch),
      .sampler = arguments.sampler,
      .selection = {},
      .max_tokens = arguments.max_tokens};
  options.forward.max_batch =
      std::min(options.forward.max_batch, static_cast<int64_t>(prompt.tokens.size()));
  if (is_traced(arguments)) {
    options.selection = resolve_trace(arguments.trace, session.model().config().n_layers,
                                      {.layers = {},
                                       .points = {},
                                       .phases = {Phase::kDecode0, Phase::kDecode},
                                       .compares = false});
  }
  options.sampler.seed = static_cast<uint64_t>(resolve_seed(arguments.compute));
  return options;
}

RunSetup resolve_setup(const RunArguments& arguments) {
  const Mode mode = resolve_mode(arguments.compute);
  return {.experiment = arguments.record.experiment.empty() ? "run" : arguments.record.experiment,
          .date = arguments.record.date,
          .mode = mode == Mode::kBatchInvariant ? std::string(mode_name(mode)) : "",
          .seed = resolve_seed(arguments.compute),
          .name = arguments.record.run_name,
          .replaces_failed = arguments.record.replace_failed};
}

/// The database of a generation that is traced; else empty.
std::string resolve_database(const RunArguments& arguments) {
  return is_traced(arguments) ? resolve_targets(arguments.record).database : "";
}

/// The run that a generation is recorded in; null when it is not.
std::unique_ptr<RunQueue> open_record(const RunArguments& arguments, const ProbePrompt& prompt,
                                      const GenerateOptions& options, int64_t positions,
                                      Session& session) {
  if (!is_traced(arguments)) return nullptr;
  RunSetup setup = resolve_setup(arguments);
  setup.max_seq_len = positions;
  RunRecord record =
      make_run_record(setup, session, options.forward, options.selection, environment::in_force());
  char sampling[96];
  std::snprintf(sampling, sizeof sampling, "temperature=%g top_k=%lld top_p=%g",
                options.sampler.temperature, static_cast<long long>(options.sampler.top_k),
                options.sampler.top_p);
  record.attributes.emplace_back("sampling", sampling);
  record.attributes.emplace_back("max_tokens", std::to_string(options.max_tokens));
  RunTargets targets = resolve_targets(arguments.record);
  targets.delta_file.clear();  // it compares two phases of one token: that is the probe's
  std::unique_ptr<RunQueue> queue = open_queue(targets, record, session);
  // No plan: how many tokens come is not known before.
  queue->begin_prompt({prompt.name, prompt.text_sha256, prompt.tokens, {}});
  return queue;
}

const char* stop_text(GenerateResult::Stop stop) {
  switch (stop) {
    case GenerateResult::Stop::kEndToken:
      return "end of text";
    case GenerateResult::Stop::kContextFull:
      return "context full";
    case GenerateResult::Stop::kNoChoice:
      return "no logit is a number above -inf";
    case GenerateResult::Stop::kMaxTokens:
      break;
  }
  return "--max-tokens reached";
}

std::string rate(int64_t n, double seconds) {
  char text[64];
  std::snprintf(text, sizeof text, "%s in %.2f s, %.1f tokens/s", counted(n, "token").c_str(),
                seconds, static_cast<double>(n) / std::max(seconds, 1e-9));
  return text;
}

void print_stats(const GenerateResult& result) {
  std::fprintf(stderr, "prompt   %s\n", rate(result.n_prompt, result.prefill_s).c_str());
  std::fprintf(stderr, "decode   %s\n", rate(result.n_decoded, result.decode_s).c_str());
  std::fprintf(stderr, "text     %s, %s\n", counted(result.n_generated, "token").c_str(),
               stop_text(result.stop));
}

int run(const RunArguments& arguments) {
  if (!arguments.prompt.given()) {
    throw std::invalid_argument("run needs --prompt TEXT, --prompt-file FILE or --tokens IDS");
  }
  const std::string database = resolve_database(arguments);
  const RunSetup setup = resolve_setup(arguments);
  const std::unique_ptr<Session> session = begin_or_fail(database, setup, arguments.model, [&] {
    return open_session(arguments.model, {.tokenizer = true, .digest = is_recorded(arguments)});
  });
  const int64_t positions = positions_in_use(arguments.model, session->model());
  const ProbePrompt prompt =
      resolve_prompt(arguments.prompt, "prompt", 0, positions, *session, !arguments.no_bos);
  const GenerateOptions options = resolve_options(arguments, prompt, *session);
  const auto n_prompt = static_cast<int64_t>(prompt.tokens.size());
  const int64_t capacity = std::min(positions, n_prompt + arguments.max_tokens);
  const FaultScene scene = generation_scene(
      n_prompt, std::clamp<int64_t>(arguments.max_tokens - 1, 0, positions - n_prompt));
  // Its text tells of a fault that no traced row does.
  refuse_faults_without_effect(options.forward.faults, session->model().config(), {}, {&scene, 1});
  probe_first(arguments, prompt, positions, *session);

  Generator generator = begin_or_fail(database, setup, arguments.model, [&] {
    return Generator(session->model(), session->weights(), session->backend(), capacity, options);
  });
  const StopSignals heeded;
  const std::unique_ptr<RunQueue> queue =
      open_record(arguments, prompt, options, positions, *session);
  const Tokenizer& tokenizer = session->tokenizer();
  TextStream out;
  Progress progress("reading the prompt");
  progress.show(counted(n_prompt, "token"));
  generator.on_prefill = [&](int64_t done, int64_t total) { progress.show(done, total); };
  generator.ends = [&](int32_t token) {
    return !arguments.ignore_eos && tokenizer.ends_generation(token);
  };
  generator.on_token = [&](int32_t token) {
    progress.clear();
    // A padded vocabulary has rows that are no token.
    if (token < tokenizer.size()) out.push(tokenizer.decode({&token, 1}));
  };
  const GenerateResult result = generator.run(prompt.tokens, queue.get());
  progress.clear();
  out.finish();
  print_stats(result);
  const bool no_choice = result.stop == GenerateResult::Stop::kNoChoice;
  if (queue) {
    if (no_choice) queue->attribute("decode_ended", stop_text(result.stop));
    end_run(*queue, *session);
    std::fprintf(stderr, "run      %s, %s\n", utf8::printable(queue->run_name()).c_str(),
                 counted(queue->n_rows(), "row").c_str());
  }
  if (no_choice) {
    throw std::runtime_error("after " + counted(result.n_generated, "token") + " " +
                             stop_text(result.stop) + ": nothing can be chosen");
  }
  return kExitDone;
}

void add_sampling_options(CLI::App& command, RunArguments& arguments) {
  add_option(command, "-n,--max-tokens N", arguments.max_tokens, "Tokens to generate at most (64)")
      ->check(CLI::NonNegativeNumber)
      ->group("Sampling");
  add_option(command, "--temperature T", arguments.sampler.temperature,
             "0 (default) takes the most likely token")
      ->check(CLI::NonNegativeNumber)
      ->group("Sampling");
  add_option(command, "--top-k K", arguments.sampler.top_k,
             "Only the K most likely tokens (0: all)")
      ->check(CLI::NonNegativeNumber)
      ->group("Sampling");
  add_option(command, "--top-p P", arguments.sampler.top_p,
             "Only the most likely tokens that together reach probability P (1)")
      ->check(CLI::Range(0.0, 1.0))
      ->group("Sampling");
  command.add_flag("--ignore-eos", arguments.ignore_eos, "Go on after a token that ends the text")
      ->group("Sampling");
}

}  // namespace

void add_infer_run(CLI::App& app, Infer& infer) {
  CLI::App* command = app.add_subcommand(
      "run", "Continues a prompt: text on standard output, figures on standard error");
  auto arguments = std::make_shared<RunArguments>();
  add_model_options(*command, arguments->model);
  add_prompt_options(*command, arguments->prompt);
  add_tokens_option(*command, arguments->prompt);
  command->add_flag("--no-bos", arguments->no_bos, "Without the tokens that begin and end a text")
      ->excludes("--tokens");
  add_compute_options(*command, arguments->compute);
  add_sampling_options(*command, *arguments);
  add_trace_options(*command, arguments->trace);
  add_record_options(*command, arguments->record);
  add_run_name_options(*command, arguments->record);
  add_model_sha256_option(*command, arguments->model);
  command->callback(
      [&infer, arguments] { infer.action = [arguments] { return run(*arguments); }; });
}

}  // namespace greta
