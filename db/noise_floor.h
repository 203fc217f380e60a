#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace greta {

/// Whose noise floor it is.
struct CalibratedModel {
  std::string model;  ///< its root, or the SHA-256 of its file, as its runs say
  std::string dtype, backend;
};

/// How far the pairs of a trace point differ in clean probes: a row of the table noise_floor.
struct NoiseFloor {
  std::string tensor;  ///< as tensor.name has it
  int64_t layer = 0;
  double rel_l2 = 0;
  std::optional<double> gain;
  int64_t pairs = 0;
};

/// Stores what was measured, in place of what there was of the same places, in a transaction that
/// the caller owns; verdicts of the model's runs are forgotten. Throws SQLite::Exception when
/// the tables refuse a row.
void store_noise_floor(SQLite::Database& db, const CalibratedModel& model,
                       std::span<const NoiseFloor> floors, const std::string& measured_at);

}  // namespace greta
