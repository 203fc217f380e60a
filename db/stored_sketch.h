#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "db/trace_row.h"

namespace greta {

/// A row of `sketch` but for its id: a bucket is an integer times `scale`, a power of two.
struct StoredSketch {
  int64_t n = 0;
  bool derived = false;
  double sum_sq = 0;
  double scale = 1;
  std::array<int32_t, 32> bucket{};

  bool operator==(const StoredSketch&) const = default;
};

/// Buckets rounded to nearest by the least scale that leaves them below 2^28; by 1 where all are
/// zero. What was stored once stays as it is.
StoredSketch stored_form(const RowSketch& sketch);
/// A sketch as it was stored. It is exact.
RowSketch row_form(const StoredSketch& sketch);

/// 128 bits that tell one sketch from another, never all 0.
using SketchDigest = std::array<uint64_t, 2>;
SketchDigest digest_of(const StoredSketch& sketch);

/// Ids of the sketches that were met last, so that equal sketches of one run are one row.
class SketchIds {
 public:
  /// Id of a sketch of a run, or another number that the caller set; 0 when it is new. Good until
  /// the next call.
  int64_t& of(int64_t run_id, const StoredSketch& sketch);
  void forget() { slots_.clear(); }

  static constexpr size_t kMost = 65'536;

 private:
  static constexpr size_t kWays = 4;  // slots that one sketch may be in
  struct Slot {
    SketchDigest key{};
    int64_t value = 0;
  };

  std::vector<Slot> slots_;
};

}  // namespace greta
