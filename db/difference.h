#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace greta {

/// A row of `difference`: how the rows of a pair differ that have these hashes.
struct DifferenceRow {
  int64_t run_id = 0, prompt_id = 0, pos_id = 0, layer = 0, tensor_id = 0;
  uint64_t prefill_hash = 0, decode_hash = 0;
  int64_t n = 0, differing = 0, first_at = 0, last_at = 0;
  std::optional<double> rel_l2;  ///< nothing: a value is not finite
  double max_abs = 0;
  std::optional<int64_t> max_abs_at;  ///< nothing: no finite values differ
  int64_t max_ulp = 0;
  int64_t heads = 0;           ///< that the segments are; 0: they are equal slices
  std::vector<double> shares;  ///< of each segment, at most kMaxShares
};
inline constexpr size_t kMaxShares = 32;

/// How an INSERT INTO difference ends, so that of several that speak of the same rows the worst
/// stands, whichever comes first: a small distance is what would excuse a difference.
const std::string& worst_difference_stands();

/// Why no two rows can differ in that way; "" when they can.
std::string fault_of(const DifferenceRow& row);

}  // namespace greta
