#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace greta {

/// A row of `difference`, with its parts: how the rows of a pair differ that have these hashes.
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

/// Inserts a row of `difference`, values in the order of its columns but for id. Of several that
/// speak of the same rows the worst stands, whichever comes first: a small distance is what would
/// excuse a difference. Returns its id where it stands; its parts are then to be replaced.
inline constexpr const char* kInsertDifference =
    "INSERT INTO difference(run_id, prompt_id, pos_id, layer, tensor_id, prefill_hash, decode_hash,"
    " n, differing, first_at, last_at, rel_l2, max_abs, max_abs_at, max_ulp, heads, segments)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET (n, differing, first_at, last_at, rel_l2, max_abs, max_abs_at,"
    " max_ulp, heads, segments) = (excluded.n, excluded.differing, excluded.first_at,"
    " excluded.last_at, excluded.rel_l2, excluded.max_abs, excluded.max_abs_at, excluded.max_ulp,"
    " excluded.heads, excluded.segments)"
    " WHERE (ifnull(excluded.rel_l2, 9e999), excluded.differing, excluded.max_abs,"
    " excluded.max_ulp, excluded.n, excluded.first_at, excluded.last_at, excluded.heads)"
    " > (ifnull(rel_l2, 9e999), differing, max_abs, max_ulp, n, first_at, last_at, heads)"
    " RETURNING id";
/// difference_part.share_ppm of a share, which has a row where it is greater than 0.
inline int64_t share_ppm(double share) { return std::llround(share * 1e6); }
inline constexpr int kDifferenceValues = 17;
inline constexpr const char* kDropDifferenceParts =
    "DELETE FROM difference_part WHERE difference_id = ?";

/// Why no two rows can differ in that way; "" when they can.
std::string fault_of(const DifferenceRow& row);

}  // namespace greta
