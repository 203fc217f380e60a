#include "cli/greta_infer/probe_arguments.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "cli/greta_infer/environment.h"
#include "common/sha256.h"
#include "common/trouble.h"
#include "engine/probe/suite.h"

namespace greta {
namespace {

/// What a probe works on: a suite of greta's own, or the prompts of a file.
struct ChosenSuite {
  const Suite* suite = nullptr;  ///< nullptr: the file's
  std::string experiment;
};

/// Letters, digits, '_', '-' and '.' of a file's name without its ending; others become '_'.
std::string experiment_of_file(const std::string& file) {
  std::string name = std::filesystem::path(file).stem().string();
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool fits = byte < 0x80 && (std::isalnum(byte) != 0 || c == '-' || c == '.');
    if (!fits) c = '_';
  }
  if (name.empty() || name.front() == '.' || name.front() == '-') name.insert(0, "_");
  return name;
}

ChosenSuite choose_suite(const std::string& suite) {
  std::error_code error;
  if (std::filesystem::is_regular_file(suite, error)) return {nullptr, experiment_of_file(suite)};
  return {&find_suite(suite), suite};
}

/// Prompts with what could not be taken.
struct ResolvedPrompts {
  std::vector<ProbePrompt> prompts;
  std::vector<std::string> left_out;
};

ResolvedPrompts resolve_suite(const Suite& suite, int64_t most_steps, int64_t positions,
                              Session& session) {
  ResolvedPrompts resolved;
  for (const SuitePrompt& prompt : suite.prompts) {
    const int64_t n_steps = std::min(prompt.most_steps, most_steps);
    ProbePrompt made{std::string(prompt.name), Sha256::hex_of(prompt.text),
                     prompt_tokens(prompt, session.tokenizer()), n_steps};
    const auto n = static_cast<int64_t>(made.tokens.size());
    if (suite.drops_prompts && n + n_steps > positions && n > 1) {
      std::fprintf(stderr,
                   "greta-infer: prompt %s is left out: %s and %lld decoded ones do not fit %lld "
                   "positions\n",
                   made.name.c_str(), counted(n, "token").c_str(), static_cast<long long>(n_steps),
                   static_cast<long long>(positions));
      resolved.left_out.push_back(made.name);
      continue;
    }
    check_length(made.name, n, n_steps, positions);
    resolved.prompts.push_back(std::move(made));
  }
  return resolved;
}

/// Says what is wrong with the lines of a suite's file, and throws when anything is.
void refuse_mistakes(const std::string& file, const std::vector<std::string>& mistakes) {
  constexpr size_t kShown = 20;
  if (mistakes.empty()) return;
  for (size_t i = 0; i < std::min(mistakes.size(), kShown); ++i) {
    complain("greta-infer", mistakes[i]);
  }
  throw std::invalid_argument("suite " + file + ": " +
                              counted(static_cast<int64_t>(mistakes.size()), "line") +
                              " cannot be taken; nothing was run");
}

ResolvedPrompts resolve_file(const std::string& file, int64_t n_steps, int64_t positions,
                             Session& session) {
  SuiteFile suite = read_suite_file(file, session.model().config().vocab);
  ResolvedPrompts resolved;
  Progress progress("reading the suite");
  for (FilePrompt& prompt : suite.prompts) {
    progress.show(static_cast<int64_t>(resolved.prompts.size()),
                  static_cast<int64_t>(suite.prompts.size()));
    ProbePrompt made{prompt.name, "", std::move(prompt.tokens), prompt.decode_steps};
    try {
      if (prompt.text) {
        made.text_sha256 = Sha256::hex_of(*prompt.text);
        made.tokens = session.tokenizer().encode(*prompt.text, true, true);
      }
      check_length(made.name, static_cast<int64_t>(made.tokens.size()),
                   made.decode_steps.value_or(n_steps), positions);
    } catch (const std::invalid_argument& mistake) {
      suite.mistakes.push_back(file + ":" + std::to_string(prompt.line) + ": " + mistake.what());
    }
    resolved.prompts.push_back(std::move(made));
  }
  progress.clear();
  refuse_mistakes(file, suite.mistakes);
  if (resolved.prompts.empty()) throw std::invalid_argument("suite " + file + " has no prompt");
  return resolved;
}

/// The prompts of the command line, else those of the suite.
ResolvedPrompts resolve_prompts(const ProbeArguments& arguments, const Suite* suite,
                                int64_t positions, Session& session) {
  const int64_t n_steps = arguments.decode_steps;
  if (arguments.prompt.given()) {
    return {{resolve_prompt(arguments.prompt, arguments.name, n_steps, positions, session)}, {}};
  }
  if (suite == nullptr) return resolve_file(arguments.suite, n_steps, positions, session);
  return resolve_suite(*suite, n_steps, positions, session);
}

void add_probe_prompt_options(CLI::App& command, ProbeArguments& arguments) {
  add_prompt_options(command, arguments.prompt);
  add_tokens_option(command, arguments.prompt);
  command.add_option("--name", arguments.name, "Name of that prompt in the database (prompt)")
      ->check([](const std::string& name) { return name.empty() ? "a prompt needs a name" : ""; })
      ->option_text("NAME");
}

}  // namespace

void add_probe_options(CLI::App& command, ProbeArguments& arguments) {
  command
      .add_option("--suite", arguments.suite,
                  "Set of prompts and tensors, or a file of prompts as JSON lines (default)")
      ->check(offers_suites())
      ->option_text("NAME|FILE");
  add_model_options(command, arguments.model);
  command.get_option("--model")->required(false);
  add_probe_prompt_options(command, arguments);
  command
      .add_option("--sequences", arguments.sequences,
                  "Most prompts that are computed together, as far as memory and --batch allow "
                  "(batch_invariant: 64, else 1)")
      ->check(CLI::Range(1, 4096))
      ->option_text("N");
  add_compute_options(command, arguments.compute);
  add_trace_options(command, arguments.trace);
  command
      .add_option("--decode-steps", arguments.decode_steps,
                  "Decode N more tokens, greedily, as phase decode, and prefill them again (8)")
      ->check(CLI::NonNegativeNumber)
      ->option_text("N")
      ->group("Tracing");
  command
      .add_option(
          "--repeats", arguments.repeats,
          "Run a prompt N times more that has a pair beyond rounding, to tell a race (2). 0: "
          "run no prompt again")
      ->check(CLI::Range(0, 100))
      ->option_text("N")
      ->group("Tracing");
  command.add_flag("--rms-verify", arguments.rms_verify, "Recompute the final norm in double")
      ->group("Tracing");
  command.add_flag("--cpu-probe", arguments.cpu_probe, "Recompute the logits in double")
      ->group("Tracing");
  add_record_options(command, arguments.record);
  add_model_sha256_option(command, arguments.model);
}

void add_gate_option(CLI::App& command, std::string& gate) {
  command
      .add_option("--gate", gate,
                  "Verdict that the exit status follows: strict or numeric (default: verdict)")
      ->check(CLI::IsMember({"strict", "numeric"}))
      ->option_text("GATE");
}

RunSetup resolve_probe_setup(const ProbeArguments& arguments) {
  return {.experiment = arguments.record.experiment.empty()
                            ? choose_suite(arguments.suite).experiment
                            : arguments.record.experiment,
          .date = arguments.record.date,
          .mode = std::string(mode_name(resolve_mode(arguments.compute))),
          .label = arguments.label,
          .seed = resolve_seed(arguments.compute),
          .name = arguments.record.run_name,
          .replaces_failed = arguments.record.replace_failed,
          .commit = arguments.record.commit,
          .suite = arguments.prompt.given() ? "" : choose_suite(arguments.suite).experiment};
}

std::unique_ptr<Session> open_probe_session(const ProbeArguments& arguments,
                                            const RunTargets& targets) {
  if (arguments.model.file.empty()) {
    throw std::invalid_argument("a probe needs --model FILE; greta-infer synth makes one");
  }
  return begin_or_fail(targets.database, resolve_probe_setup(arguments), arguments.model, [&] {
    return open_session(arguments.model, {.tokenizer = !arguments.prompt.tokens, .digest = true});
  });
}

ProbeJob resolve_job(const ProbeArguments& arguments, RunTargets targets, Session& session) {
  const Suite* const suite = choose_suite(arguments.suite).suite;
  const int64_t positions = positions_in_use(arguments.model, session.model());
  const Mode mode = resolve_mode(arguments.compute);
  const bool head_checks = (suite != nullptr && suite->head_checks) ||
                           environment::flag("GRETA_TRACE_PREFILL_DECODE_DELTA");
  ProbeJob job{
      .options = {.forward = resolve_forward(arguments.compute, mode, session,
                                             std::min(arguments.model.batch, positions)),
                  .selection = resolve_trace(
                      arguments.trace, session.model().config().n_layers,
                      {.layers = {},
                       .points = suite != nullptr ? suite->points : std::vector<TracePoint>{}}),
                  .rms_verify = arguments.rms_verify || head_checks ||
                                environment::flag("GRETA_TRACE_RMS_VERIFY"),
                  .cpu_probe = arguments.cpu_probe || head_checks ||
                               environment::flag("GRETA_TRACE_LMHEAD_CPU_PROBE"),
                  .decode_steps = arguments.decode_steps,
                  .n_threads = session.n_threads(),
                  .repeats = arguments.repeats,
                  .sequences = arguments.sequences.value_or(
                      mode == Mode::kBatchInvariant ? kMostSequences : 1)},
      .prompts = {},
      .setup = resolve_probe_setup(arguments),
      .targets = std::move(targets),
      .model = arguments.model,
      .left_out = {}};
  ResolvedPrompts resolved = resolve_prompts(arguments, suite, positions, session);
  job.prompts = std::move(resolved.prompts);
  job.left_out = std::move(resolved.left_out);
  job.setup.max_seq_len = positions;
  return job;
}

}  // namespace greta
