#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "cli/greta_infer/combination.h"
#include "db/run_records.h"

namespace greta {

/// What may legitimately change bits, as probes: every pair of routes for the two phases, other
/// batches, one thread on the CPU. The usual probe first.
std::vector<Combination> calibration_probes(const Backend& backend);

/// How far the pairs of clean probes differ, gathered run by run.
class Calibration {
 public:
  /// A place of which fewer pairs differed has no p99.9 to speak of.
  static constexpr size_t kMinPairs = 100;

  /// Takes the pairs of a run. Throws SQLite::Exception, std::runtime_error when there is no such
  /// run or it does not say what it ran.
  void add(const std::filesystem::path& database, const std::string& run);

  /// Noise floors of the model by each arithmetic that its probes had; places with too few pairs
  /// are not in them.
  struct Measured {
    CalibratedModel model;
    std::vector<NoiseFloor> floors;
    int64_t left_out = 0;  ///< places with too few pairs
  };
  std::vector<Measured> measured() const;

 private:
  using Place = std::tuple<int64_t, int64_t, std::string>;  ///< tensor's order, layer, tensor
  struct Drift {
    std::vector<double> rel_l2, gain;
  };
  using Model = std::tuple<std::string, std::string, std::string>;  ///< as CalibratedModel
  std::map<Model, std::map<Place, Drift>> drift_;
};

}  // namespace greta
