#include "cli/greta_infer/probe.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>

#include "cli/greta_infer/commands.h"
#include "cli/greta_infer/environment.h"
#include "cli/greta_infer/probe_arguments.h"
#include "cli/warehouse/origin.h"
#include "cli/warehouse/verdict.h"
#include "common/exit_status.h"
#include "common/json_text.h"
#include "common/sha256.h"
#include "common/shell_word.h"
#include "common/stop_signal.h"
#include "common/utf8.h"
#include "db/database.h"
#include "engine/probe/fault_effect.h"
#include "engine/probe/suite.h"

namespace greta {
namespace {

std::string line_of(const RunVerdict& run, const Headline& head, const Origin& origin) {
  std::string text = head.text();
  if (!head.fail.cause.empty()) text += ": " + fail_text(head.fail);
  if (!origin.text().empty()) text += " (" + origin.text() + ")";
  text += ", " + run.show("pairs") + " pairs, coverage " + run.show("coverage");
  if (!head.disputed()) return text + "; strict and numeric alike";
  text += "; " + std::string(gate_name(head.other_gate())) + " " + head.other;
  if (!head.other_fail.cause.empty()) text += " " + place_text(head.other_fail);
  if (head.verdict == "FAIL" && !head.excuse.empty()) text += " (" + head.excuse + ")";
  return text;
}

constexpr const char* kModelRoot = "model_root";
constexpr const char* kModelSha256 = "model_sha256";

/// What the subcommand can be asked beside what a probe can.
struct ProbeCommand {
  ProbeArguments probe;
  bool no_db = false, list = false, json = false, timings = false;
  std::string gate;
};

/// Refuses faults that none of the prompts can show.
void check_faults(const ProbeJob& job, const Model& model) {
  const ForwardOptions& forward = job.options.forward;
  std::vector<FaultScene> scenes;
  int64_t longest = 0;  // so far
  const auto add = [&](const ProbePrompt& prompt, int64_t n_steps, bool together) {
    const int64_t n = std::ssize(prompt.tokens);
    scenes.push_back(probe_scene(n, n_steps, forward.mode, job.options.selection));
    scenes.back().after_longer = n < longest && !together;
    longest = std::max(longest, n);
  };
  const bool together = forward.mode == Mode::kBatchInvariant;  // as far as they fit a batch
  for (const ProbePrompt& prompt : job.prompts) {
    add(prompt, prompt.decode_steps.value_or(job.options.decode_steps), together);
  }
  if (job.options.repeats > 0) {
    for (const ProbePrompt& prompt : job.prompts) {
      if (prompt.again) add(prompt, 0, false);
    }
  }
  refuse_faults_without_effect(forward.faults, model.config(), job.options.selection, scenes);
}

/// How far a probe has come, how fast it is, and what is left if it goes on so.
class ProbeProgress {
 public:
  ProbeProgress(Progress& progress, std::span<const ProbePrompt> suite)
      : progress_(progress), n_prompts_(std::ssize(suite)), n_tokens_(tokens_of(suite)) {}

  /// Some prompts of the suite, the next ones, are computed together.
  void begin(std::span<const ProbePrompt> together) {
    what_ = std::to_string(prompts_done_ + 1);
    if (together.size() > 1) {
      what_ += " to " + std::to_string(prompts_done_ + std::ssize(together));
    }
    what_ += " of " + counted(n_prompts_, "prompt");
    if (together.size() == 1) what_ += ", " + together.front().name;
    progress_.show(what_ + ", " + counted(tokens_of(together), "token") + pace_);
  }
  void begin_again() { what_ = "some prompts again"; }
  void show(const char* phase) { progress_.show(what_ + ", " + phase + " done" + pace_); }
  void end(std::span<const ProbePrompt> together) {
    prompts_done_ += std::ssize(together);
    tokens_done_ += tokens_of(together);
    const std::chrono::duration<double> time = Clock::now() - start_;
    const double left = static_cast<double>(n_tokens_ - tokens_done_);
    char text[64];
    std::snprintf(text, sizeof text, "; %.3g prompts/s, %.0f s left",
                  static_cast<double>(prompts_done_) / time.count(),
                  time.count() * left / static_cast<double>(tokens_done_));
    pace_ = text;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static int64_t tokens_of(std::span<const ProbePrompt> prompts) {
    int64_t n = 0;
    for (const ProbePrompt& prompt : prompts) n += std::ssize(prompt.tokens);
    return n;
  }

  Progress& progress_;
  const int64_t n_prompts_, n_tokens_;
  const Clock::time_point start_ = Clock::now();
  int64_t prompts_done_ = 0, tokens_done_ = 0;
  std::string what_, pace_;
};

void add_identity(const ModelDigests& digests, RunQueue& queue) {
  queue.attribute(kModelRoot, digests.root);
  if (!digests.file_sha256.empty()) queue.attribute(kModelSha256, digests.file_sha256);
}

void print_outcome(const ProbeOutcome& outcome, const std::string& database,
                   const std::optional<InferVerdict>& verdict) {
  if (!verdict) {
    std::printf("rows     %lld in %.2f s, in no database: no verdict\n",
                static_cast<long long>(outcome.n_rows), outcome.seconds);
    return;
  }
  std::printf("run      %s\n", utf8::printable(outcome.run).c_str());
  std::printf("rows     %lld in %.2f s\n", static_cast<long long>(outcome.n_rows), outcome.seconds);
  std::printf("verdict  %s\n", verdict->line.c_str());
  std::printf("more     greta-db --db %s firstfail --run %s\n", shell_word(database).c_str(),
              shell_word(outcome.run).c_str());
}

/// Where the time went, from the start of the program to the verdict.
void print_times(const StageTimes& times) {
  double all = 0;
  for (const StageTimes::Stage& stage : times.stages()) {
    std::printf("time     %-14s %8.3f s\n", stage.name.c_str(), stage.seconds);
    all += stage.seconds;
  }
  std::printf("time     %-14s %8.3f s\n", "all", all);
}

std::string json_of(const StageTimes& times) {
  JsonObject object;
  for (const StageTimes::Stage& stage : times.stages()) object.add(stage.name, stage.seconds);
  return object.str();
}

/// For a script: what to ask the database for, and what it says already.
void print_outcome_json(const ProbeOutcome& outcome, const std::string& database,
                        const std::optional<InferVerdict>& verdict, const StageTimes* times,
                        int status) {
  JsonObject object;
  object.add("rows", outcome.n_rows).add("seconds", outcome.seconds);
  if (verdict) {
    object.add("run", outcome.run).add("database", database);
    object.add("verdict", verdict->verdict).add("strict_verdict", verdict->strict);
    object.add("numeric_verdict", verdict->numeric);
    object.add("headline", verdict->headline).add("text", verdict->line);
    if (!verdict->fail.cause.empty()) {
      object.add("first_fail", verdict->fail.cause).add("place", place_text(verdict->fail));
    }
  }
  if (times != nullptr) object.raw("times", json_of(*times));
  object.add("exit", status);
  std::printf("%s\n", object.str().c_str());
}

int probe(const ProbeCommand& command) {
  if (command.list) {
    print_probe_lists();
    finish_output();
    return kExitDone;
  }
  RunTargets targets = resolve_targets(command.probe.record);
  if (command.no_db) targets.database.clear();
  const std::string database = targets.database;
  const std::unique_ptr<Session> session = open_probe_session(command.probe, targets);
  ProbeJob job = resolve_job(command.probe, std::move(targets), *session);
  session->times().end("prompts");
  const ProbeOutcome outcome = run_probe(std::move(job), *session);
  const StageTimes* const times = command.timings ? &session->times() : nullptr;
  std::optional<InferVerdict> verdict;
  int status = kExitDone;
  if (!database.empty()) {
    verdict = read_verdict(database, outcome.run);
    session->times().end("verdict");
    status = exit_of_verdict(verdict->by(command.gate));
  }
  if (command.json) {
    print_outcome_json(outcome, database, verdict, times, status);
  } else {
    print_outcome(outcome, database, verdict);
    if (verdict && status != exit_of_verdict(verdict->verdict)) {
      std::printf("exit     %d, by --gate %s\n", status, command.gate.c_str());
    }
    if (times != nullptr) print_times(*times);
  }
  finish_output();
  return status;
}

}  // namespace

const std::string& InferVerdict::by(std::string_view gate) const {
  return gate.empty() ? verdict : gate == "strict" ? strict : numeric;
}

InferVerdict read_verdict(const std::filesystem::path& database, const std::string& run) {
  SQLite::Database db = open_for_reading(database);
  QueryPool statements(db);
  Query id(statements, "SELECT id FROM run WHERE name = ?");
  id.bind(1, run);
  if (!id.step()) throw std::runtime_error(database.string() + " has no run " + run);
  const int64_t run_id = id.integer(0);
  RunQuery query(statements, run_id,
                 "SELECT " + std::string(kVerdictColumns) + " FROM run_verdict WHERE run_id = ?");
  if (!query.step()) throw std::runtime_error(database.string() + " has no run " + run);
  const RunVerdict verdict(query);
  const Headline head(verdict);
  const Origin origin = origin_at(statements, run_id, head.fail, head.gate);
  return {.verdict = head.verdict,
          .strict = std::string(verdict.at(Gate::kStrict)),
          .numeric = std::string(verdict.at(Gate::kNumeric)),
          .headline = head.text(),
          .fail = head.fail,
          .line = line_of(verdict, head, origin)};
}

const ModelDigests& model_digests(Session& session) {
  const ModelDigests& digests = await_digests(session.digest());
  session.model().check_whole();
  return digests;
}

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
                           int64_t n_steps, int64_t positions, Session& session, bool add_special) {
  ProbePrompt prompt{name, "", {}};
  if (arguments.tokens) {
    prompt.tokens = parse_token_ids(*arguments.tokens, session.model().config().vocab);
  } else {
    const std::string text = prompt_text(arguments);
    prompt.text_sha256 = Sha256::hex_of(text);
    prompt.tokens = session.tokenizer().encode(text, add_special, true);
  }
  check_length(name, static_cast<int64_t>(prompt.tokens.size()), n_steps, positions);
  return prompt;
}

std::unique_ptr<RunQueue> open_queue(const RunTargets& targets, const RunRecord& record,
                                     Session& session) {
  session.digest();  // begins: it is ready, or nearly, when the run ends
  return std::make_unique<RunQueue>(open_stores(targets, record));
}

bool identify_early(RunQueue& queue, Session& session) {
  if (!session.digest().advance(0)) return false;
  add_identity(model_digests(session), queue);
  return true;
}

void end_run(RunQueue& queue, Session& session, bool identified) {
  const ModelDigests& digests = model_digests(session);
  session.times().end("identity");
  if (!identified) add_identity(digests, queue);
  queue.end(true);
  session.times().end("record");
}

ProbeOutcome run_probe(ProbeJob job, Session& session) {
  std::vector<int64_t> n_tokens, lengths;
  for (const ProbePrompt& prompt : job.prompts) {
    n_tokens.push_back(std::ssize(prompt.tokens));
    lengths.push_back(n_tokens.back() + prompt.decode_steps.value_or(job.options.decode_steps));
  }
  if (lengths.empty()) throw std::invalid_argument("there is no prompt to probe");
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  for (const size_t number : prompts_to_run_again(n_tokens)) job.prompts[number].again = true;
  check_faults(job, session.model());
  ForwardOptions& forward = job.options.forward;
  GroupLimits limits{.sequences = job.options.sequences, .tokens = forward.max_batch};
  limits.sequences = sequences_that_fit(session.model().config(), lengths, limits,
                                        job.options.kept_bytes, session.backend().free_bytes());
  job.options.sequences = limits.sequences;
  forward.max_batch = std::min(forward.max_batch, longest);
  const RunRecord record =
      make_run_record(job.setup, session, forward, job.options.selection, environment::in_force());
  // A group of prompts has more tokens than the longest one: as many as it is allowed.
  forward.max_batch = std::max(forward.max_batch, extent_of(lengths, limits).tokens);
  Progress progress(job.progress);
  Probe probe = begin_or_fail(job.targets.database, job.setup, job.model, [&] {
    return Probe(session.model(), session.weights(), session.backend(), longest, job.options);
  });
  session.times().end("memory");
  ProbeProgress told(progress, job.prompts);
  probe.on_progress = [&](const char* phase) { told.show(phase); };
  const auto start = std::chrono::steady_clock::now();
  const StopSignals heeded;
  const std::unique_ptr<RunQueue> queue = open_queue(job.targets, record, session);
  probe.repeat_beyond(queue->tolerances());
  session.times().end("database");
  for (const std::string& name : job.left_out) queue->attribute("prompt_left_out", name);
  const std::vector<std::span<const ProbePrompt>> groups = probe.groups(job.prompts);
  bool identified = false;
  for (size_t i = 0; i < groups.size(); ++i) {
    identified = identified || identify_early(*queue, session);
    told.begin(groups[i]);
    probe.run(groups[i], *queue);
    told.end(groups[i]);
    session.times().end(i == 0 ? "first prompt" : "other prompts");
  }
  told.begin_again();
  probe.run_again(*queue);
  session.times().end("other prompts");
  progress.clear();
  end_run(*queue, session, identified);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  return {queue->run_name(), queue->n_rows(), time.count()};
}

void add_infer_probe(CLI::App& app, Infer& infer) {
  CLI::App* command = app.add_subcommand(
      "probe", "Runs prompts by prefill and by decode, and asks where the two part ways");
  auto arguments = std::make_shared<ProbeCommand>();
  add_probe_options(*command, arguments->probe);
  command->add_flag("--list", arguments->list,
                    "List suites, modes, phases, tensors, routes and faults");
  add_gate_option(*command, arguments->gate);
  command
      ->add_option("--delta-out", arguments->probe.record.delta_out,
                   "Also write one JSON line per prompt and phase about the LM head (default: "
                   "$GRETA_TRACE_PREFILL_DECODE_OUT)")
      ->option_text("FILE")
      ->group("Record");
  command->add_flag("--no-db", arguments->no_db, "Write to no database")
      ->excludes("--db")
      ->excludes("--gate")
      ->option_text(" ")
      ->group("Record");
  add_run_name_options(*command, arguments->probe.record);
  command->add_flag("--timings", arguments->timings,
                    "Also print where the time went, from the program's start to the verdict");
  command->add_flag("--json", arguments->json, "Print the run's name and verdict as a JSON object");
  command->callback(
      [&infer, arguments] { infer.action = [arguments] { return probe(*arguments); }; });
}

}  // namespace greta
