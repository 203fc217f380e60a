#include "cli/greta_infer/probe.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <utility>

#include "cli/greta_infer/commands.h"
#include "cli/greta_infer/progress.h"
#include "cli/greta_infer/verdict.h"
#include "common/exit_status.h"
#include "common/sha256.h"
#include "common/shell_word.h"
#include "common/stop_signal.h"
#include "common/trouble.h"
#include "common/utf8.h"
#include "engine/probe/fault_effect.h"
#include "engine/probe/suite.h"
#include "engine/probe/suite_file.h"

namespace greta {
namespace {

constexpr const char* kModelDigest = "model_sha256";

struct ProbeArguments {
  std::string suite = "default";
  ModelArguments model;
  PromptArguments prompt;
  std::string name = "prompt";
  TraceArguments trace;
  ComputeArguments compute;
  RecordArguments record;
  int64_t decode_steps = kDefaultDecodeSteps;
  bool rms_verify = false, cpu_probe = false, no_db = false, list = false;
  std::string gate;
};

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

ResolvedPrompts resolve_suite(const Suite& suite, int64_t n_steps, int64_t positions,
                              int64_t max_batch, Session& session) {
  ResolvedPrompts resolved;
  for (const SuitePrompt& prompt : suite.prompts) {
    ProbePrompt made{std::string(prompt.name), Sha256::hex_of(prompt.text),
                     prompt_tokens(prompt, session.tokenizer(), max_batch)};
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
                                int64_t positions, int64_t max_batch, Session& session) {
  const int64_t n_steps = arguments.decode_steps;
  if (arguments.prompt.given()) {
    return {{resolve_prompt(arguments.prompt, arguments.name, n_steps, positions, session)}, {}};
  }
  if (suite == nullptr) return resolve_file(arguments.suite, n_steps, positions, session);
  return resolve_suite(*suite, n_steps, positions, max_batch, session);
}

/// Refuses faults that none of the prompts can show.
void check_faults(const ProbeJob& job, const Model& model) {
  std::vector<FaultScene> scenes;
  for (const ProbePrompt& prompt : job.prompts) {
    scenes.push_back(probe_scene(static_cast<int64_t>(prompt.tokens.size()),
                                 prompt.decode_steps.value_or(job.options.decode_steps),
                                 job.options.forward.mode, job.options.selection));
  }
  refuse_faults_without_effect(job.options.forward.faults, model.config(), job.options.selection,
                               scenes);
}

RunTargets resolve_probe_targets(const ProbeArguments& arguments, const Environment& environment) {
  RunTargets targets = resolve_targets(arguments.record, environment);
  if (arguments.no_db) targets.database.clear();
  return targets;
}

RunSetup resolve_setup(const ProbeArguments& arguments, const Environment& environment) {
  return {.experiment = arguments.record.experiment.empty()
                            ? choose_suite(arguments.suite).experiment
                            : arguments.record.experiment,
          .date = arguments.record.date,
          .mode = std::string(mode_name(resolve_mode(arguments.compute, environment))),
          .seed = resolve_seed(arguments.compute, environment, 0)};
}

ProbeJob resolve_job(const ProbeArguments& arguments, const Environment& environment,
                     Session& session) {
  const Suite* const suite = choose_suite(arguments.suite).suite;
  const int64_t positions = positions_in_use(arguments.model, environment, session.model());
  const Mode mode = resolve_mode(arguments.compute, environment);
  const bool head_checks = (suite != nullptr && suite->head_checks) ||
                           environment.flag("GRETA_TRACE_PREFILL_DECODE_DELTA");
  ProbeJob job{
      .options = {.forward = resolve_forward(arguments.compute, mode, session,
                                             std::min(arguments.model.batch, positions)),
                  .selection = resolve_trace(
                      arguments.trace, environment, session.model().config().n_layers,
                      {.layers = {},
                       .points = suite != nullptr ? suite->points : std::vector<TracePoint>{}}),
                  .rms_verify = arguments.rms_verify || head_checks ||
                                environment.flag("GRETA_TRACE_RMS_VERIFY"),
                  .cpu_probe = arguments.cpu_probe || head_checks ||
                               environment.flag("GRETA_TRACE_LMHEAD_CPU_PROBE"),
                  .decode_steps = arguments.decode_steps,
                  .n_threads = session.n_threads()},
      .prompts = {},
      .setup = resolve_setup(arguments, environment),
      .targets = resolve_probe_targets(arguments, environment),
      .model = arguments.model,
      .left_out = {}};
  ResolvedPrompts resolved =
      resolve_prompts(arguments, suite, positions, job.options.forward.max_batch, session);
  job.prompts = std::move(resolved.prompts);
  job.left_out = std::move(resolved.left_out);
  job.setup.max_seq_len = positions;
  return job;
}

void print_outcome(const ProbeOutcome& outcome, const std::string& database,
                   const InferVerdict& verdict) {
  std::printf("run      %s\n", utf8::printable(outcome.run).c_str());
  std::printf("rows     %lld in %.2f s\n", static_cast<long long>(outcome.n_rows), outcome.seconds);
  std::printf("verdict  %s\n", verdict.line.c_str());
  std::printf("more     greta-db --db %s firstfail --run %s\n", shell_word(database).c_str(),
              shell_word(outcome.run).c_str());
}

int probe(const ProbeArguments& arguments, const Environment& environment) {
  if (arguments.list) {
    print_probe_lists();
    finish_output();
    return kExitDone;
  }
  if (arguments.model.file.empty()) {
    throw std::invalid_argument("probe needs --model FILE; greta-infer synth makes one");
  }
  const std::unique_ptr<Session> session = begin_or_fail(
      resolve_probe_targets(arguments, environment).database, resolve_setup(arguments, environment),
      arguments.model, [&] { return open_session(arguments.model, environment); });
  ProbeJob job = resolve_job(arguments, environment, *session);
  const std::string database = job.targets.database;
  const ProbeOutcome outcome = run_probe(std::move(job), *session, environment);
  if (database.empty()) {
    std::printf("rows     %lld in %.2f s, in no database: no verdict\n",
                static_cast<long long>(outcome.n_rows), outcome.seconds);
    finish_output();
    return kExitDone;
  }
  const InferVerdict verdict = read_verdict(database, outcome.run);
  print_outcome(outcome, database, verdict);
  const bool strict = arguments.gate == "strict";
  const int status = arguments.gate.empty()
                         ? kExitDone
                         : exit_of_verdict(strict ? verdict.strict : verdict.numeric);
  if (!arguments.gate.empty() && verdict.strict != verdict.numeric) {
    std::printf("exit     %d, by the %s verdict\n", status, arguments.gate.c_str());
  }
  finish_output();
  return status;
}

const std::string& model_digest(Session& session) {
  Progress progress("SHA-256 of the model");
  while (!session.digest().ready(100)) {
    throw_if_stopped();
    progress.show(session.digest().done_bytes(), session.digest().size_bytes());
  }
  const std::string& digest = session.digest().hex();
  session.model().check_whole();
  return digest;
}

void add_probe_prompt_options(CLI::App& command, ProbeArguments& arguments) {
  add_prompt_options(command, arguments.prompt);
  command.add_option("--tokens", arguments.prompt.tokens, "Token ids of the prompt, as \"1 2 3\"")
      ->excludes("--prompt")
      ->excludes("--prompt-file")
      ->option_text("IDS");
  command.add_option("--name", arguments.name, "Name of that prompt in the database (prompt)")
      ->check([](const std::string& name) { return name.empty() ? "a prompt needs a name" : ""; })
      ->option_text("NAME");
}

}  // namespace

void check_length(const std::string& name, int64_t n_tokens, int64_t n_steps, int64_t positions) {
  if (n_tokens < 1) throw std::invalid_argument("prompt " + name + " has no tokens");
  if (n_tokens + n_steps <= positions) return;
  const std::string prompt = "prompt " + name + " has " + counted(n_tokens, "token");
  const std::string limit = "the model's context, --max-seq-len, GRETA_MAX_SEQ_LEN";
  if (n_tokens > positions) {
    throw std::invalid_argument(prompt + "; there is room for " + std::to_string(positions) + " (" +
                                limit + ")");
  }
  throw std::invalid_argument(prompt + "; there is no room for " + std::to_string(n_steps) +
                              " decoded after it in " + std::to_string(positions) + " positions (" +
                              limit + "): shorten it, or pass --decode-steps " +
                              std::to_string(positions - n_tokens));
}

ProbePrompt resolve_prompt(const PromptArguments& arguments, const std::string& name,
                           int64_t n_steps, int64_t positions, Session& session) {
  ProbePrompt prompt{name, "", {}};
  if (arguments.tokens) {
    prompt.tokens = parse_token_ids(*arguments.tokens);
    const int64_t vocab = session.model().config().vocab;
    for (const int32_t id : prompt.tokens) {
      if (id < 0 || id >= vocab) {
        throw std::invalid_argument("--tokens: there is no token " + std::to_string(id) +
                                    "; the model has 0 to " + std::to_string(vocab - 1));
      }
    }
  } else {
    const std::string text = prompt_text(arguments);
    prompt.text_sha256 = Sha256::hex_of(text);
    prompt.tokens = session.tokenizer().encode(text, true, true);
  }
  check_length(name, static_cast<int64_t>(prompt.tokens.size()), n_steps, positions);
  return prompt;
}

RunSinks open_sinks(const RunTargets& targets, const RunRecord& record, Session& session) {
  session.digest();  // begins: it is ready, or nearly, when the run ends
  return RunSinks(targets, record);
}

void end_sinks(RunSinks& sinks, Session& session) {
  sinks.attribute(kModelDigest, model_digest(session));
  sinks.end(true);
}

ProbeOutcome run_probe(ProbeJob job, Session& session, const Environment& environment) {
  int64_t longest = 0;
  for (const ProbePrompt& prompt : job.prompts) {
    longest = std::max(longest, static_cast<int64_t>(prompt.tokens.size()) +
                                    prompt.decode_steps.value_or(job.options.decode_steps));
  }
  ForwardOptions& forward = job.options.forward;
  forward.max_batch = std::min(forward.max_batch, longest);
  check_faults(job, session.model());
  const RunRecord record =
      make_run_record(job.setup, session, forward, job.options.selection, environment.in_force());
  Progress progress("probing");
  Probe probe = begin_or_fail(job.targets.database, job.setup, job.model, [&] {
    return Probe(session.model(), session.weights(), session.backend(), longest, job.options);
  });
  std::string what;
  probe.on_progress = [&](const std::string&, const char* phase) {
    progress.show(what + ", " + phase + " done");
  };
  const auto start = std::chrono::steady_clock::now();
  const StopSignals heeded;
  RunSinks sinks = open_sinks(job.targets, record, session);
  for (const std::string& name : job.left_out) sinks.attribute("prompt_left_out", name);
  for (size_t i = 0; i < job.prompts.size(); ++i) {
    const ProbePrompt& prompt = job.prompts[i];
    what = std::to_string(i + 1) + " of " +
           counted(static_cast<int64_t>(job.prompts.size()), "prompt") + ", " + prompt.name;
    progress.show(what + ", " + counted(static_cast<int64_t>(prompt.tokens.size()), "token"));
    probe.run(prompt, sinks);
  }
  progress.clear();
  end_sinks(sinks, session);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  return {sinks.run_name(), sinks.n_rows(), time.count()};
}

void add_infer_probe(CLI::App& app, Infer& infer) {
  CLI::App* command = app.add_subcommand(
      "probe", "Runs prompts by prefill and by decode, and asks where the two part ways");
  auto arguments = std::make_shared<ProbeArguments>();
  command
      ->add_option("--suite", arguments->suite,
                   "Set of prompts and tensors, or a file of prompts as JSON lines (default)")
      ->option_text("NAME|FILE");
  command->add_flag("--list", arguments->list,
                    "List suites, modes, phases, tensors, routes and faults");
  add_model_options(*command, arguments->model);
  command->get_option("--model")->required(false);
  add_probe_prompt_options(*command, *arguments);
  add_compute_options(*command, arguments->compute);
  command
      ->add_option("--gate", arguments->gate, "Exit status follows the verdict: strict or numeric")
      ->check(CLI::IsMember({"strict", "numeric"}))
      ->option_text("GATE");
  add_trace_options(*command, arguments->trace);
  command
      ->add_option("--decode-steps", arguments->decode_steps,
                   "Decode N more tokens, greedily, as phase decode, and prefill them again (8)")
      ->check(CLI::NonNegativeNumber)
      ->option_text("N")
      ->group("Tracing");
  command->add_flag("--rms-verify", arguments->rms_verify, "Recompute the final norm in double")
      ->group("Tracing");
  command->add_flag("--cpu-probe", arguments->cpu_probe, "Recompute the logits in double")
      ->group("Tracing");
  add_record_options(*command, arguments->record);
  command
      ->add_option("--delta-out", arguments->record.delta_out,
                   "Also write one JSON line per prompt and phase about the LM head (default: "
                   "$GRETA_TRACE_PREFILL_DECODE_OUT)")
      ->option_text("FILE")
      ->group("Record");
  command->add_flag("--no-db", arguments->no_db, "Write to no database")
      ->excludes("--db")
      ->excludes("--gate")
      ->option_text(" ")
      ->group("Record");
  command->callback([&infer, arguments] {
    infer.action = [&infer, arguments] { return probe(*arguments, infer.environment); };
  });
}

}  // namespace greta
