#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/greta_infer/combination.h"
#include "cli/greta_infer/commands.h"
#include "cli/greta_infer/probe.h"
#include "cli/options/shared_options.h"
#include "cli/warehouse/sql_query.h"
#include "common/exit_status.h"
#include "common/shell_word.h"
#include "common/temporary_folder.h"
#include "common/trouble.h"
#include "common/utc_time.h"
#include "db/database.h"
#include "db/judge.h"
#include "db/run_records.h"
#include "db/schema.h"
#include "db/transaction.h"

namespace greta {

namespace {

/// Every operation by its routes number `prefill` and `decode`, or its last.
Combination by_routes(const Backend& backend, size_t prefill, size_t decode) {
  Combination combination;
  for (int i = 0; i < kOps; ++i) {
    const auto op = static_cast<Op>(i);
    const std::vector<Route> routes = backend.routes(op);
    const auto name = [&](size_t nth) {
      return std::string(route_name(routes[std::min(nth, routes.size() - 1)]));
    };
    const std::string key = "route." + std::string(op_name(op));
    combination.emplace_back(key, name(prefill) + "@prefill");
    combination.emplace_back(key, name(decode) + "@decode");
  }
  return combination;
}

/// The value that 99.9 % do not exceed.
double p999(std::vector<double> values) {
  const auto nth = static_cast<size_t>(std::ceil(0.999 * static_cast<double>(values.size())) - 1);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(nth), values.end());
  return values[nth];
}

/// Changes that may legitimately change bits, as probes: every pair of routes for the two phases,
/// other batches, one thread on the CPU. The usual probe first.
std::vector<Combination> calibration_probes(const Backend& backend) {
  size_t n_routes = 1;
  for (int i = 0; i < kOps; ++i) {
    n_routes = std::max(n_routes, backend.routes(static_cast<Op>(i)).size());
  }
  const size_t last = n_routes - 1;
  std::vector<Combination> probes{{}, {{"batch", "7"}}};
  if (backend.name() == "cpu") probes.push_back({{"threads", "1"}, {"batch", "33"}});
  for (size_t prefill = 0; prefill < n_routes; ++prefill) {
    for (size_t decode = 0; decode < n_routes; ++decode) {
      if (prefill == decode || (prefill == 0 && decode == last)) continue;  // equal bits; the first
      probes.push_back(by_routes(backend, prefill, decode));
      probes.push_back(probes.back());
      probes.back().emplace_back("batch", "7");
    }
  }
  return probes;
}

/// How far the pairs of clean probes differ, gathered run by run.
class Calibration {
 public:
  /// A place of which fewer pairs differed has no p99.9 to speak of.
  static constexpr size_t kMinPairs = 100;

  /// Takes the pairs of a run. Throws SQLite::Exception, std::runtime_error when there is no such
  /// run or it does not say what it ran.
  void add(const std::filesystem::path& database, const std::string& run) {
    SQLite::Database db = open_for_reading(database);
    Query stated(
        db,
        "SELECT (SELECT value FROM attribute WHERE run_id = r.id AND dim IN"
        " ('model_root', 'model_sha256') ORDER BY dim LIMIT 1), r.dtype, (SELECT value FROM "
        "attribute WHERE run_id = r.id AND"
        " dim = 'backend') FROM run r WHERE r.name = ?");
    stated.bind(1, run);
    if (!stated.step() || stated.is_null(0) || stated.is_null(1) || stated.is_null(2)) {
      throw std::runtime_error("run " + run + " does not say what it ran");
    }
    auto& places = drift_[{stated.text(0), stated.text(1), stated.text(2)}];
    Query pairs(db, sql_of_file("queries/canned/drift_gain.sql"));
    pairs.bind(1, run);
    while (pairs.step()) {
      const double rel_l2 = pairs.cell(3).real;
      if (!(rel_l2 > 0)) continue;
      Drift& drift = places[{pairs.integer(5), pairs.integer(1), pairs.text(0)}];
      drift.rel_l2.push_back(rel_l2);
      const double input = pairs.is_null(4) ? 0 : pairs.cell(4).real;
      if (input > 0) drift.gain.push_back(rel_l2 / input);
    }
  }

  /// Noise floors of the model by each arithmetic that its probes had; places with too few pairs
  /// are not in them.
  struct Measured {
    CalibratedModel model;
    std::vector<NoiseFloor> floors;
    int64_t left_out = 0;  ///< places with too few pairs
  };
  std::vector<Measured> measured() const {
    std::vector<Measured> all;
    for (const auto& [model, places] : drift_) {
      const auto& [digest, dtype, backend] = model;
      Measured& one = all.emplace_back(Measured{{digest, dtype, backend}, {}});
      for (const auto& [place, drift] : places) {
        const auto& [ord, layer, tensor] = place;
        if (drift.rel_l2.size() < kMinPairs) {
          ++one.left_out;
          continue;
        }
        const auto n = static_cast<int64_t>(drift.rel_l2.size());
        one.floors.push_back({tensor, layer, p999(drift.rel_l2), std::nullopt, n});
        if (drift.gain.size() >= kMinPairs) one.floors.back().gain = p999(drift.gain);
      }
    }
    return all;
  }

 private:
  using Place = std::tuple<int64_t, int64_t, std::string>;  ///< tensor's order, layer, tensor
  struct Drift {
    std::vector<double> rel_l2, gain;
  };
  using Model = std::tuple<std::string, std::string, std::string>;  ///< as CalibratedModel
  std::map<Model, std::map<Place, Drift>> drift_;
};

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

int calibrate(CalibrateCommand& command) {
  command.probe.compute.mode = "as_designed";
  if (!command.probe.trace.layers) command.probe.trace.layers = "all";
  const std::string database = resolve_targets(command.probe.record).database;
  const std::unique_ptr<Session> session = open_probe_session(command.probe, {});
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
    ProbeJob job =
        resolve_job(arguments, {.database = file, .jsonl_folder = {}, .delta_file = {}}, *session);
    job.progress = "probe " + std::to_string(i + 1) + " of " + std::to_string(probes.size());
    const ProbeOutcome outcome = run_probe(std::move(job), *session);
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
  add_number_option(*command, "--runs N", arguments->max_runs,
                    "Take the first N of the probes, which differ by routes, batches and threads "
                    "(all)",
                    1);
  command
      ->add_option("--db", probe.record.database,
                   "Database to store it in (default: $GRETA_DB, else greta.db)")
      ->option_text("FILE");
  add_wait_option(*command);
  add_format_option(*command, arguments->format);
  command->callback(
      [&infer, arguments] { infer.action = [arguments] { return calibrate(*arguments); }; });
}

}  // namespace greta
