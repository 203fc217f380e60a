#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "cli/greta_infer/combination.h"
#include "cli/greta_infer/commands.h"
#include "cli/greta_infer/probe.h"
#include "cli/options/shared_options.h"
#include "cli/warehouse/verdict.h"
#include "common/exit_status.h"

namespace greta {
namespace {

struct SweepCommand {
  ProbeArguments probe;
  std::vector<std::string> vary;
  size_t max_runs = 64;
  Format format = Format::kTable;
  std::string gate;
};

/// A combination with the probe that it is.
struct SweepRun {
  Combination combination;
  ProbeArguments arguments;
  std::optional<ProbeJob> job;  ///< until it is run
};

/// Everything that can be refused is, before the first is run: a sweep takes long.
std::vector<SweepRun> resolve_runs(const SweepCommand& command, const RunTargets& targets,
                                   std::unique_ptr<Session>& session) {
  std::vector<Variation> variations;
  for (const std::string& text : command.vary) variations.push_back(parse_variation(text));
  std::vector<SweepRun> runs;
  for (Combination& combination : combinations(std::move(variations), command.max_runs)) {
    ProbeArguments arguments = varied(command.probe, combination);
    runs.push_back({std::move(combination), std::move(arguments), {}});
  }
  for (SweepRun& run : runs) {
    try {
      if (!session) session = open_probe_session(run.arguments, targets);
      session->compute_with(run.arguments.model.backend, run.arguments.model.threads);
      run.job = resolve_job(run.arguments, targets, *session);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(text_of(run.combination) + ": " + error.what() +
                                  "; nothing was run");
    }
  }
  return runs;
}

/// One row per combination: its values, and what its run is.
class Matrix {
 public:
  Matrix(Output& out, Format format, const Combination& keys)
      : for_readers_(format == Format::kTable || format == Format::kMarkdown),
        printer_(out, format, columns(keys)) {
    printer_.hide_empty_columns();
  }

  void row(const Combination& combination, const std::string& run, const InferVerdict& verdict) {
    const FailPlace& fail = verdict.fail;
    std::vector<Cell> cells;
    for (const auto& value : combination) cells.emplace_back(value.second);
    const std::string& own = for_readers_ ? verdict.headline : verdict.verdict;
    cells.insert(cells.end(), {Cell(own), Cell(verdict.strict), Cell(verdict.numeric),
                               or_null(fail.cause), or_null(fail.layer), or_null(fail.tensor),
                               or_null(fail.prompt), or_null(fail.pos), Cell(run)});
    printer_.row(cells);
  }

  void finish() { printer_.finish(); }

 private:
  static std::vector<std::string> columns(const Combination& keys) {
    std::vector<std::string> names;
    for (const auto& key : keys) names.push_back(key.first);
    names.insert(names.end(), {"verdict", "strict_verdict", "numeric_verdict", "first_fail",
                               "layer", "tensor", "prompt", "pos", "run"});
    return names;
  }

  bool for_readers_;
  RowPrinter printer_;
};

int sweep(SweepCommand& command) {
  if (command.probe.record.experiment.empty()) command.probe.record.experiment = "sweep";
  const RunTargets targets = resolve_targets(command.probe.record);
  std::unique_ptr<Session> session;
  std::vector<SweepRun> runs = resolve_runs(command, targets, session);
  Output out;
  Matrix matrix(out, command.format, runs.front().combination);
  ExitOfVerdicts exit;
  const auto finish = [&] {
    matrix.finish();
    out.flush();
  };
  try {
    for (size_t i = 0; i < runs.size(); ++i) {
      SweepRun& run = runs[i];
      session->compute_with(run.arguments.model.backend, run.arguments.model.threads);
      run.job->progress = "run " + std::to_string(i + 1) + " of " + std::to_string(runs.size()) +
                          ", " + text_of(run.combination);
      const ProbeOutcome outcome = run_probe(*std::move(run.job), *session);
      const InferVerdict verdict = read_verdict(targets.database, outcome.run);
      matrix.row(run.combination, outcome.run, verdict);
      exit.add(verdict.by(command.gate));
    }
  } catch (...) {
    finish();  // what has run stays, and is told
    throw;
  }
  finish();
  return exit.status();
}

}  // namespace

void add_infer_sweep(CLI::App& app, Infer& infer) {
  CLI::App* command = app.add_subcommand(
      "sweep", "Probes every combination of some options, and prints the verdicts");
  auto arguments = std::make_shared<SweepCommand>();
  command
      ->add_option("--vary", arguments->vary,
                   "An option of probe and its values, as batch=1,7 or route.lm_head=dot,gemm. "
                   "Repeatable")
      ->required()
      ->allow_extra_args(false)
      ->option_text("KEY=V1,V2");
  add_probe_options(*command, arguments->probe);
  add_gate_option(*command, arguments->gate);
  command->add_option("--max-runs", arguments->max_runs, "Refuse more combinations than N (64)")
      ->check(CLI::Range(size_t{1}, size_t{1} << 20))
      ->option_text("N");
  add_format_option(*command, arguments->format);
  command->callback(
      [&infer, arguments] { infer.action = [arguments] { return sweep(*arguments); }; });
}

}  // namespace greta
