#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "cli/greta_infer/calibration.h"
#include "cli/greta_infer/commands.h"
#include "cli/greta_infer/verdict.h"
#include "cli/options/shared_options.h"
#include "common/exit_status.h"
#include "common/shell_word.h"
#include "common/temporary_folder.h"
#include "common/trouble.h"
#include "common/utc_time.h"
#include "db/database.h"
#include "db/judge.h"
#include "db/transaction.h"

namespace greta {
namespace {

struct CalibrateCommand {
  ProbeArguments probe;
  std::optional<int64_t> max_runs;  ///< all
  Format format = Format::kTable;
};

/// The options by which `probe` does the same.
std::string options_of(const Combination& combination) {
  std::string text;
  for (const auto& [key, value] : combination) {
    const bool route = key.starts_with("route.");
    text += route ? " --route " + key.substr(6) + "=" + value : " --" + key + " " + value;
  }
  return text;
}

/// Says that a clean probe is no measure of noise.
int refuse(const CalibrateCommand& command, const Combination& combination,
           const InferVerdict& verdict) {
  complain("greta-infer", "a clean probe is " + verdict.line);
  complain("greta-infer",
           verdict.verdict == "FAIL"
               ? "that is beyond the shipped tolerances, so the engine is wrong and not noisy; "
                 "nothing was stored"
               : "that is no measure of noise; nothing was stored");
  complain("greta-infer", "to see it: greta-infer probe --model " +
                              shell_word(command.probe.model.file) + " --mode as_designed" +
                              options_of(combination));
  return exit_of_verdict(verdict.verdict);
}

/// What was measured, the worst layer of each trace point.
void print_measured(Output& out, Format format, std::span<const Calibration::Measured> measured) {
  RowPrinter printer(out, format,
                     {"backend", "dtype", "tensor", "layers", "pairs", "rel_l2", "gain"});
  printer.hide_empty_columns();
  for (const Calibration::Measured& one : measured) {
    for (auto first = one.floors.begin(); first != one.floors.end();) {
      const auto end = std::find_if(first, one.floors.end(), [&](const NoiseFloor& floor) {
        return floor.tensor != first->tensor;
      });
      int64_t pairs = 0;
      double rel_l2 = 0;
      std::optional<double> gain;
      for (auto floor = first; floor != end; ++floor) {
        pairs += floor->pairs;
        rel_l2 = std::max(rel_l2, floor->rel_l2);
        if (floor->gain) gain = std::max(gain.value_or(0), *floor->gain);
      }
      printer.row({Cell(one.model.backend), Cell(one.model.dtype), Cell(first->tensor),
                   Cell(static_cast<int64_t>(end - first)), Cell(pairs), Cell(rel_l2),
                   gain ? Cell(*gain) : Cell()});
      first = end;
    }
  }
  printer.finish();
  out.flush();
}

/// Stores it, and judges again what its runs were judged by.
void store(const std::string& database, std::span<const Calibration::Measured> measured) {
  SQLite::Database db = open_for_writing(database);
  const std::string now = utc_now();
  in_transaction(db, [&] {
    for (const Calibration::Measured& one : measured) {
      store_noise_floor(db, one.model, one.floors, now);
    }
  });
  judge_rest(db);
  make_durable(db);
}

int calibrate(CalibrateCommand& command, const Environment& environment) {
  command.probe.compute.mode = "as_designed";
  if (!command.probe.trace.layers) command.probe.trace.layers = "all";
  const std::string database = resolve_targets(command.probe.record, environment).database;
  const std::unique_ptr<Session> session = open_probe_session(command.probe, {}, environment);
  std::vector<Combination> probes = calibration_probes(session->backend());
  if (command.max_runs) {
    probes.resize(std::min(probes.size(), static_cast<size_t>(*command.max_runs)));
  }
  const TemporaryFolder folder;
  Calibration calibration;
  for (size_t i = 0; i < probes.size(); ++i) {
    const ProbeArguments arguments = varied(command.probe, probes[i]);
    const std::string file = folder / ("probe_" + std::to_string(i) + ".db");
    session->compute_with(arguments.model.backend, arguments.model.threads);
    ProbeJob job = resolve_job(arguments, {.database = file, .jsonl_folder = {}, .delta_file = {}},
                               environment, *session);
    job.progress = "probe " + std::to_string(i + 1) + " of " + std::to_string(probes.size());
    const ProbeOutcome outcome = run_probe(std::move(job), *session, environment);
    const InferVerdict verdict = read_verdict(file, outcome.run);
    if (verdict.verdict != "PASS") return refuse(command, probes[i], verdict);
    calibration.add(file, outcome.run);
    std::filesystem::remove(file);
  }
  const std::vector<Calibration::Measured> measured = calibration.measured();
  if (std::all_of(measured.begin(), measured.end(),
                  [](const auto& one) { return one.floors.empty(); })) {
    complain("greta-infer", "no place has " + std::to_string(Calibration::kMinPairs) +
                                " pairs that differ, which are too few pairs to measure by; "
                                "nothing was stored");
    return kExitNoVerdict;
  }
  store(database, measured);
  Output out;
  print_measured(out, command.format, measured);
  return kExitDone;
}

}  // namespace

void add_infer_calibrate(CLI::App& app, Infer& infer) {
  CLI::App* command = app.add_subcommand(
      "calibrate", "Measures what rounding amounts to in a model, for verdicts to go by");
  auto arguments = std::make_shared<CalibrateCommand>();
  ProbeArguments& probe = arguments->probe;
  add_model_options(*command, probe.model);
  command
      ->add_option("--suite", probe.suite,
                   "Set of prompts and tensors, or a file of prompts as JSON lines (default)")
      ->check(offers_suites())
      ->option_text("NAME|FILE");
  command->add_option("--layers", probe.trace.layers, "Layers to measure, as 0,5-7 (all)")
      ->option_text("LIST");
  add_number_option(*command, "--runs", arguments->max_runs,
                    "Take the first N of the probes, which differ by routes, batches and threads "
                    "(all)",
                    1);
  command
      ->add_option("--db", probe.record.database,
                   "Database to store it in (default: $GRETA_DB, else greta.db)")
      ->option_text("FILE");
  add_wait_option(*command);
  add_format_option(*command, arguments->format);
  command->callback([&infer, arguments] {
    infer.action = [&infer, arguments] { return calibrate(*arguments, infer.environment); };
  });
}

}  // namespace greta
