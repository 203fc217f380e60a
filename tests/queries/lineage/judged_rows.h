// Rows of a told run held against each other: what becomes of two that are at one place.
#pragma once
#include <string>
#include <vector>

#include "tests/queries/lineage/told_history.h"

namespace greta::lineage {

struct Point {
  std::string name;  ///< canonical
  int64_t ord;
  bool is_head;
  std::string cause;
};

Point point_of(const std::string& written);

int64_t forward_layer(const Point& point, int64_t layer);

int phase_number(const std::string& phase);
inline bool is_prefill(const ToldRow& row) { return phase_number(row.phase) < 3; }

double tolerance(const ToldRun& run, const Point& point);

enum class Status { kMatch, kDrift, kNonfinite, kAmbiguous, kConflict, kIncomparable };
enum class Class { kNone, kRounding, kUnknown, kDivergent };
struct Judged {
  Status status;
  Class grade = Class::kNone;

  bool fails() const { return status != Status::kMatch && status != Status::kIncomparable; }
  /// Fails by more than rounding, or by what no distance is measured of.
  bool diverges() const { return fails() && (grade == Class::kNone || grade == Class::kDivergent); }
};

/// Rows of one place, the one that stands for them first.
using Crowd = std::vector<const ToldRow*>;

Judged held_against(const Crowd& xs, const Crowd& ys, double tolerance);

}  // namespace greta::lineage
