#include "cli/greta_infer/probe.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
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
#include "common/utf8.h"
#include "engine/probe/suite.h"

namespace greta {
namespace {

constexpr const char* kModelDigest = "model_sha256";

struct ProbeArguments {
  std::string suite = "b3_66_v2";
  ModelArguments model;
  PromptArguments prompt;
  std::string name = "prompt";
  TraceArguments trace;
  ComputeArguments compute;
  RecordArguments record;
  int64_t decode_steps = 0;
  bool rms_verify = false, cpu_probe = false, no_db = false, list = false;
  std::string gate;
};

/// The prompts of the command line, else those of the suite.
std::vector<ProbePrompt> resolve_prompts(const ProbeArguments& arguments, const Suite& suite,
                                         int64_t max_tokens, Session& session) {
  if (arguments.prompt.given()) {
    return {resolve_prompt(arguments.prompt, arguments.name, max_tokens, session)};
  }
  std::vector<ProbePrompt> prompts;
  for (const SuitePrompt& prompt : suite.prompts) {
    ProbePrompt resolved{std::string(prompt.name), Sha256::hex_of(prompt.text),
                         prompt_tokens(prompt, session.tokenizer())};
    check_length(resolved.name, static_cast<int64_t>(resolved.tokens.size()), max_tokens);
    prompts.push_back(std::move(resolved));
  }
  return prompts;
}

RunTargets resolve_probe_targets(const ProbeArguments& arguments, const Environment& environment) {
  RunTargets targets = resolve_targets(arguments.record, environment);
  if (arguments.no_db) targets.database.clear();
  return targets;
}

RunSetup resolve_setup(const ProbeArguments& arguments, const Environment& environment) {
  return {.experiment =
              arguments.record.experiment.empty() ? arguments.suite : arguments.record.experiment,
          .date = arguments.record.date,
          .mode = std::string(mode_name(resolve_mode(arguments.compute, environment))),
          .seed = resolve_seed(arguments.compute, environment, 0)};
}

ProbeJob resolve_job(const ProbeArguments& arguments, const Environment& environment,
                     Session& session) {
  const Suite& suite = find_suite(arguments.suite);
  const int64_t positions = positions_in_use(arguments.model, environment, session.model());
  if (arguments.decode_steps >= positions) {
    throw std::invalid_argument("--decode-steps " + std::to_string(arguments.decode_steps) +
                                " leaves no room for a prompt in " + std::to_string(positions) +
                                " positions");
  }
  const Mode mode = resolve_mode(arguments.compute, environment);
  const bool head_checks =
      suite.head_checks || environment.flag("GRETA_TRACE_PREFILL_DECODE_DELTA");
  ProbeJob job{
      .options = {.forward = resolve_forward(arguments.compute, mode, session,
                                             std::min(arguments.model.batch, positions)),
                  .selection =
                      resolve_trace(arguments.trace, environment, session.model().config().n_layers,
                                    {.layers = {}, .points = suite.points}),
                  .rms_verify = arguments.rms_verify || head_checks ||
                                environment.flag("GRETA_TRACE_RMS_VERIFY"),
                  .cpu_probe = arguments.cpu_probe || head_checks ||
                               environment.flag("GRETA_TRACE_LMHEAD_CPU_PROBE"),
                  .decode_steps = arguments.decode_steps,
                  .n_threads = session.n_threads()},
      .prompts = resolve_prompts(arguments, suite, positions - arguments.decode_steps, session),
      .setup = resolve_setup(arguments, environment),
      .targets = resolve_probe_targets(arguments, environment),
      .model = arguments.model};
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

void check_length(const std::string& name, int64_t n_tokens, int64_t max_tokens) {
  if (n_tokens < 1) throw std::invalid_argument("prompt " + name + " has no tokens");
  if (n_tokens <= max_tokens) return;
  throw std::invalid_argument("prompt " + name + " has " + counted(n_tokens, "token") +
                              "; there is " + "room for " + std::to_string(max_tokens) +
                              " (the model's context, --max-seq-len, GRETA_MAX_SEQ_LEN)");
}

ProbePrompt resolve_prompt(const PromptArguments& arguments, const std::string& name,
                           int64_t max_tokens, Session& session) {
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
  check_length(name, static_cast<int64_t>(prompt.tokens.size()), max_tokens);
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
    longest = std::max(longest, static_cast<int64_t>(prompt.tokens.size()));
  }
  ForwardOptions& forward = job.options.forward;
  forward.max_batch = std::min(forward.max_batch, longest);
  const RunRecord record =
      make_run_record(job.setup, session, forward, job.options.selection, environment.in_force());
  Progress progress("probing");
  Probe probe = begin_or_fail(job.targets.database, job.setup, job.model, [&] {
    return Probe(session.model(), session.weights(), session.backend(), longest, job.options);
  });
  std::string prompt_name;
  probe.on_progress = [&](const std::string&, const char* phase) {
    progress.show(prompt_name + ", " + phase + " done");
  };
  const auto start = std::chrono::steady_clock::now();
  const StopSignals heeded;
  RunSinks sinks = open_sinks(job.targets, record, session);
  for (const ProbePrompt& prompt : job.prompts) {
    prompt_name = prompt.name;
    progress.show(prompt_name + ", " +
                  counted(static_cast<int64_t>(prompt.tokens.size()), "token"));
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
  command->add_option("--suite", arguments->suite, "Set of prompts and tensors (b3_66_v2)")
      ->option_text("NAME");
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
                   "Decode N more tokens, greedily, as phase decode (0)")
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
