#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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

  /// Takes the pairs of a run; false if it fails by more than distances. Throws SQLite::Exception,
  /// std::runtime_error when there is no such run or it does not say what it ran.
  bool add(const std::filesystem::path& database, const std::string& run) {
    SQLite::Database db = open_for_reading(database);
    Query stated(db,
                 "SELECT (SELECT value FROM attribute WHERE run_id = r.id AND dim IN"
                 " ('model_root', 'model_sha256') ORDER BY dim LIMIT 1),"
                 " r.dtype || substr(m.lineage, instr(m.lineage || '/kv_cache=', '/kv_cache=')),"
                 " (SELECT value FROM attribute WHERE run_id = r.id AND dim = 'backend'),"
                 " v.numeric_verdict = 'PASS' OR v.numeric_verdict = 'FAIL' AND v.missing = 0"
                 " AND v.fail = v.rounding + v.divergent"
                 " FROM run r JOIN lineage_member m ON m.run_id = r.id"
                 " JOIN verdict v ON v.run_id = r.id AND v.level = 'run' WHERE r.name = ?");
    stated.bind(1, run);
    if (!stated.step() || stated.is_null(0) || stated.is_null(1) || stated.is_null(2)) {
      throw std::runtime_error("run " + run + " does not say what it ran");
    }
    if (stated.integer(3) == 0) return false;
    const Model model{stated.text(0), stated.text(1), stated.text(2)};
    probes_.try_emplace(model, Probed{database, run});
    auto& places = drift_[model];
    Query pairs(db, sql_of_file("queries/canned/drift_gain.sql"));
    pairs.bind(1, run);
    while (pairs.step()) {
      const double rel_l2 = pairs.cell(3).real;
      if (!(rel_l2 > 0)) continue;
      Drift& drift = places[{pairs.integer(5), pairs.integer(1), pairs.text(0)}];
      drift.rel_l2.push_back(rel_l2);
      if (pairs.text(6) == "DIVERGENT") ++drift.beyond;
      const double input = pairs.is_null(4) ? 0 : pairs.cell(4).real;
      if (input > 0) drift.gain.push_back(std::min(rel_l2 / input, 1e30));  // underflowed
    }
    return true;
  }

  /// True if the database is that of the one probe of an arithmetic that is asked again.
  bool keeps(const std::filesystem::path& database) const {
    return std::any_of(probes_.begin(), probes_.end(),
                       [&](const auto& one) { return one.second.database == database; });
  }

  /// A probe that was taken: its database, and the run.
  struct Probed {
    std::filesystem::path database;
    std::string run;
  };

  /// Noise floors of the model by each arithmetic that its probes had; places with too few pairs
  /// are not in them.
  struct Measured {
    CalibratedModel model;
    Probed probe;
    std::vector<NoiseFloor> floors;
    std::vector<int64_t> beyond;  ///< for each floor: pairs beyond the tolerance by dtype
  };
  std::vector<Measured> measured() const {
    std::vector<Measured> all;
    for (const auto& [model, places] : drift_) {
      const auto& [digest, dtype, backend] = model;
      Measured& one =
          all.emplace_back(Measured{{digest, dtype, backend}, probes_.at(model), {}, {}});
      for (const auto& [place, drift] : places) {
        const auto& [ord, layer, tensor] = place;
        if (drift.rel_l2.size() < kMinPairs && drift.beyond == 0) continue;
        const auto n = static_cast<int64_t>(drift.rel_l2.size());
        one.floors.push_back({tensor, layer, p999(drift.rel_l2), std::nullopt, n});
        one.beyond.push_back(drift.beyond);
        if (drift.gain.size() >= kMinPairs) one.floors.back().gain = p999(drift.gain);
      }
    }
    return all;
  }

 private:
  using Place = std::tuple<int64_t, int64_t, std::string>;  ///< tensor's order, layer, tensor
  struct Drift {
    std::vector<double> rel_l2, gain;
    int64_t beyond = 0;
  };
  using Model = std::tuple<std::string, std::string, std::string>;  ///< as CalibratedModel
  std::map<Model, std::map<Place, Drift>> drift_;
  std::map<Model, Probed> probes_;  ///< one of each
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
  complain("greta-infer", "that is no measure of noise; nothing was stored");
  complain("greta-infer", "to see it: greta-infer probe --model " +
                              shell_word(command.probe.model.file) + " --mode as_designed" +
                              options_of(combination));
  return exit_of_verdict(verdict.verdict);
}

/// Tolerances of a probe's places, by tensor and layer.
using Tolerances = std::map<std::pair<std::string, int64_t>, double>;

Tolerances tolerances_of(SQLite::Database& db, const std::string& run) {
  Query query(db,
              "SELECT t.name, s.key_layer, max(s.tolerance) FROM comparison_graded s"
              " JOIN tensor t ON t.id = s.key_tensor_id"
              " WHERE s.run_id = (SELECT id FROM run WHERE name = ?) AND s.other_run_id = s.run_id"
              " AND s.side = 0 AND s.steady GROUP BY s.key_tensor_id, s.key_layer");
  query.bind(1, run);
  Tolerances tolerances;
  while (query.step()) tolerances[{query.text(0), query.integer(1)}] = query.cell(2).real;
  return tolerances;
}

/// Gives a probe's database a table of `database` that decides there, for the trace points it has.
void copy_table(const std::string& database, const std::string& table, SQLite::Database& probe) {
  if (!std::filesystem::exists(database)) return;
  SQLite::Statement attach(probe, "ATTACH ? AS own");
  attach.bind(1, database);
  attach.exec();
  probe.exec("DELETE FROM " + table + "; INSERT INTO " + table + " SELECT * FROM own." + table +
             " WHERE tensor_id IS NULL OR tensor_id IN (SELECT id FROM tensor); DETACH own");
}

/// To three digits.
Cell rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return {std::strtod(text, nullptr)};
}

/// The worst of the layers of a trace point.
struct MeasuredTensor {
  int64_t layers = 0, pairs = 0, beyond = 0;
  double rel_l2 = 0, was = 0, is = 0;
  std::optional<double> gain;

  void take(const NoiseFloor& floor, int64_t pairs_beyond, double before, double now) {
    ++layers;
    pairs += floor.pairs;
    beyond += pairs_beyond;
    rel_l2 = std::max(rel_l2, floor.rel_l2);
    was = std::max(was, before);
    is = std::max(is, now);
    if (floor.gain) gain = std::max(gain.value_or(0), *floor.gain);
  }
};

/// Stores what was measured, and judges again what its runs were judged by. Prints each trace
/// point: what the tolerance was and is now, and the pairs that were beyond what they had. Returns
/// how many these are.
int64_t store(const std::string& database, Format format,
              std::span<const Calibration::Measured> measured) {
  const std::string now = utc_now();
  Output out;
  RowPrinter printer(out, format,
                     {"backend", "dtype", "tensor", "layers", "pairs", "rel_l2", "gain",
                      "tolerance_was", "tolerance", "beyond"});
  printer.hide_empty_columns();
  int64_t beyond = 0;
  for (const Calibration::Measured& one : measured) {
    SQLite::Database probe = open_for_writing(one.probe.database);
    copy_table(database, "noise_floor", probe);
    const Tolerances before = tolerances_of(probe, one.probe.run);
    store_noise_floor(probe, one.model, one.floors, now);
    const Tolerances after = tolerances_of(probe, one.probe.run);
    for (size_t i = 0; i < one.floors.size();) {
      const std::string& tensor = one.floors[i].tensor;
      MeasuredTensor worst;
      for (; i < one.floors.size() && one.floors[i].tensor == tensor; ++i) {
        const std::pair place(tensor, one.floors[i].layer);
        worst.take(one.floors[i], one.beyond[i], before.at(place), after.at(place));
      }
      beyond += worst.beyond;
      printer.row({Cell(one.model.backend), Cell(one.model.dtype), Cell(tensor), Cell(worst.layers),
                   Cell(worst.pairs), rounded(worst.rel_l2),
                   worst.gain ? rounded(*worst.gain) : Cell(), rounded(worst.was),
                   rounded(worst.is), Cell(worst.beyond)});
    }
  }
  SQLite::Database db = open_for_writing(database);
  in_transaction(db, [&] {
    for (const Calibration::Measured& one : measured) {
      store_noise_floor(db, one.model, one.floors, now);
    }
  });
  judge_rest(db);
  make_durable(db);
  printer.finish();
  out.flush();
  return beyond;
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
    {
      SQLite::Database probe_database = open_for_writing(file);
      copy_table(database, "tolerance", probe_database);
    }
    session->compute_with(arguments.model.backend, arguments.model.threads);
    ProbeJob job =
        resolve_job(arguments, {.database = file, .jsonl_folder = {}, .delta_file = {}}, *session);
    job.progress = "probe " + std::to_string(i + 1) + " of " + std::to_string(probes.size());
    const ProbeOutcome outcome = run_probe(std::move(job), *session);
    const InferVerdict verdict = read_verdict(file, outcome.run);
    if (!calibration.add(file, outcome.run)) return refuse(command, probes[i], verdict);
    if (!calibration.keeps(file)) std::filesystem::remove(file);
  }
  const std::vector<Calibration::Measured> measured = calibration.measured();
  if (std::all_of(measured.begin(), measured.end(),
                  [](const auto& one) { return one.floors.empty(); })) {
    complain("greta-infer", "no place has " + std::to_string(Calibration::kMinPairs) +
                                " pairs that differ, which are too few pairs to measure by; "
                                "nothing was stored");
    return kExitNoVerdict;
  }
  const int64_t beyond = store(database, command.format, measured);
  if (beyond == 0) return kExitDone;
  complain("greta-infer", std::to_string(beyond) +
                              " pairs of clean probes are beyond their tolerance (column beyond). "
                              "What was measured is stored and excuses none of them");
  return kExitFail;
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
  add_option(*command, "--kv-cache TYPE", probe.compute.kv_cache,
             "How the cache stores keys and values: f32, or rounded to f16 (f32)")
      ->check(offers({"f32", "f16"}));
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
