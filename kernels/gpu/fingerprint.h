#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/fingerprint/fingerprint.h"
#include "kernels/gpu/device.h"
#include "kernels/row_difference.h"

// Fingerprints of many rows in one go on the GPU: the integers of
// kernels/fingerprint/fingerprint.h, to the bit, whatever the wavefront's width and the order of
// the parts.

namespace greta {

/// What the device leaves of one row; to_sums() gives it its usual form. All zero: an empty row.
struct DeviceFingerprint {
  uint64_t n;
  uint64_t hash;
  int64_t sum;
  uint64_t abs_sum;
  uint64_t sum_sq;
  uint64_t nan, inf, nz_count;
  uint32_t low, high;  ///< of the finite values: least and greatest, see fingerprint.hip; 0: none
  int64_t buckets[kSketchValues];
};

FingerprintSums to_sums(const DeviceFingerprint& result);

/// A piece of a row, as one block takes it.
struct FingerprintPart {
  const float* data;  ///< [n], device
  uint32_t n;         ///< at most kFingerprintPart, of long rows twice that
  uint32_t first;     ///< index in the row of data[0]
  uint32_t row;       ///< which result
  uint16_t whole;     ///< 1: all of the row
  uint16_t lost;      ///< lost_bits of the row
  uint64_t copy;      ///< where copy_rows() puts the row: index of its first value
};

inline constexpr int64_t kFingerprintPart = 4096;

/// Parts of rows longer than kFingerprintPart come first.
struct FingerprintCounts {
  uint32_t n_rows;
  uint32_t n_long_parts;
  uint32_t n_parts;
};

/// The rows of one launch, cut into parts. Made on the host, then copied to the device.
class FingerprintPlan {
 public:
  /// Row n_rows() of the results. row: f32 [n], device memory; copy: where copy_rows() puts it.
  /// Throws std::length_error for more than kMaxFingerprintValues values.
  void add(const float* row, int64_t n, uint64_t copy = 0);
  void clear();

  size_t n_parts() const { return long_.size() + short_.size(); }
  size_t n_long_parts() const { return long_.size(); }
  size_t n_rows() const { return n_rows_; }
  /// Values of the longest row.
  int64_t longest() const { return longest_; }
  FingerprintCounts counts() const;
  /// Writes the n_parts() parts to `to`, which has room for as many.
  void write(std::span<FingerprintPart> to) const;

 private:
  std::vector<FingerprintPart> long_, short_;
  uint32_t n_rows_ = 0;
  int64_t longest_ = 0;
};

/// What a launch is sized for; a graph is recorded once and replayed with other plans.
struct FingerprintLimits {
  size_t n_rows;        ///< at least the plan's
  size_t n_long_parts;  ///< 0 only when no plan has any; more than these are taken in turn
  size_t n_parts;       ///< more than these are taken in turn
};

/// Where the values of a row go in its sketch, looked up: to work it out takes a third of a
/// fingerprint's time.
struct SketchCodes {
  const uint16_t* codes = nullptr;  ///< [n], device memory; 16-byte aligned
  uint64_t n = 0;  ///< a multiple of kFingerprintPart; values beyond are worked out
};

/// Queues the making of n codes, a multiple of kFingerprintPart. codes: device memory.
void make_sketch_codes(uint16_t* codes, size_t n, Stream& stream);

/// Queues results[row] = fingerprint of row, for the rows of a plan.
/// counts, parts: the plan's, results: [limits.n_rows]; all in device memory.
void fingerprint_rows(const FingerprintCounts* counts, const FingerprintPart* parts,
                      const FingerprintLimits& limits, const SketchCodes& codes,
                      DeviceFingerprint* results, Stream& stream);

/// Queues copies of the leading `most` values of each row, or all it has, to the place in `to` that
/// the plan gives it. to: f32, device.
void copy_rows(const FingerprintCounts* counts, const FingerprintPart* parts,
               const FingerprintLimits& limits, int64_t most, float* to, Stream& stream);

/// What one block does with kDifferencePart values of a row, or as many as it has left. Pointers
/// are device memory, to the first value of the whole row.
struct RowTask {
  RowPair pair;           ///< x nullptr: nothing is compared, y is only kept; both: no task at all
  float* keep = nullptr;  ///< where y is copied to; nullptr: nowhere
  int64_t first = 0;      ///< value
  int64_t part = 0;       ///< which of the parts' results
};

/// The parts of a compared row, and which of the results they make.
struct RowParts {
  int64_t first = 0;
  int64_t n = 0;  ///< 0: no row at all
  int64_t result = 0;
};

/// The rows of one launch, cut into tasks. Made on the host, then copied to the device.
struct RowTasks {
  std::vector<RowTask> tasks;
  std::vector<RowParts> rows;  ///< those that are compared
  int64_t n_parts = 0;         ///< of all of them

  /// keep: where y is copied to; nullptr: nowhere. result: for a pair that is compared.
  void add(const RowPair& pair, float* keep, int64_t result);
  void clear();
};

/// Queues results[row.result] = how the rows differ, to the bit as row_difference() on the host,
/// and what is to be kept. tasks [n_tasks], rows [n_rows], parts: scratch [n_parts], results:
/// device memory. Numbers < 2³¹, else std::invalid_argument.
void run_row_tasks(const RowTask* tasks, int64_t n_tasks, const RowParts* rows, int64_t n_rows,
                   RowDifference* parts, RowDifference* results, Stream& stream);

}  // namespace greta
