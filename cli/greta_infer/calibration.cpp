#include "cli/greta_infer/calibration.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "cli/warehouse/sql_query.h"
#include "db/database.h"
#include "db/schema.h"

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

}  // namespace

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

void Calibration::add(const std::filesystem::path& database, const std::string& run) {
  SQLite::Database db = open_for_reading(database);
  Query stated(db,
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

std::vector<Calibration::Measured> Calibration::measured() const {
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

}  // namespace greta
