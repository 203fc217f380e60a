#include "db/difference.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "db/run_records.h"

namespace greta {
namespace {

constexpr int64_t kMaxUlp = int64_t{1} << 32;  // there are no more floats
constexpr double kRounding = 1e-6;  // of shares, and of a distance of rows that face away

bool is_within(double value, double most) { return value >= 0 && value <= most; }

std::string shares_fault(const DifferenceRow& d) {
  if (d.shares.empty() || d.shares.size() > kMaxShares) return "has 1 to 32 shares";
  for (double share : d.shares) {
    if (!is_within(share, 1 + kRounding)) return "has a share that is none";
  }
  const double sum = std::accumulate(d.shares.begin(), d.shares.end(), 0.0);
  if (std::fabs(sum - (d.max_abs > 0 ? 1 : 0)) > kRounding) {
    return "has shares that do not sum to the whole";
  }
  if (d.heads < 0 || d.heads % static_cast<int64_t>(d.shares.size()) != 0) {
    return "has shares of other heads than it says";
  }
  return "";
}

/// A difference whose parts tell nothing, as rounding leaves it: at most 1 % apart, and of its
/// segments, at least 8, every one differs, and none has more than four times its part. It has no
/// rows in difference_part.
bool is_spread(const DifferenceRow& row) {
  const double n = static_cast<double>(row.shares.size());
  return row.rel_l2 && *row.rel_l2 <= 0.01 && n >= 8 &&
         std::ranges::all_of(row.shares, [n](double share) { return share > 0 && share <= 4 / n; });
}

}  // namespace

std::string fault_of(const DifferenceRow& d) {
  if (d.prefill_hash == d.decode_hash) return "is of equal hashes";
  if (d.n < 1 || d.differing < 1 || d.differing > d.n) return "counts values that are not there";
  if (d.first_at < 0 || d.last_at >= d.n || d.last_at - d.first_at < d.differing - 1 ||
      (d.differing == 1 && d.first_at != d.last_at)) {
    return "lies outside of its row";
  }
  if (d.max_abs_at && (*d.max_abs_at < d.first_at || *d.max_abs_at > d.last_at)) {
    return "is greatest where nothing differs";
  }
  if (!std::isfinite(d.max_abs) || d.max_abs < 0 || (d.max_abs > 0 && !d.max_abs_at)) {
    return "has a greatest distance that is none";
  }
  if (d.max_ulp < 0 || d.max_ulp > kMaxUlp) return "has more floats in between than there are";
  if (d.rel_l2 && (!is_within(*d.rel_l2, 2 + kRounding) || (*d.rel_l2 > 0) != (d.max_abs > 0))) {
    return "has a distance that is none";
  }
  return shares_fault(d);
}

void RunRecords::add_difference(const DifferenceRow& d) {
  if (const std::string fault = fault_of(d); !fault.empty()) {
    throw std::invalid_argument("a difference that " + fault);
  }
  SQLite::Statement& insert = sql_(kInsertDifference);
  int at = 0;
  for (int64_t value :
       {d.run_id, d.prompt_id, d.pos_id, d.layer, d.tensor_id, static_cast<int64_t>(d.prefill_hash),
        static_cast<int64_t>(d.decode_hash), d.n, d.differing, d.first_at, d.last_at}) {
    insert.bind(++at, value);
  }
  bind_value(insert, ++at, d.rel_l2);
  insert.bind(++at, d.max_abs);
  bind_value(insert, ++at, d.max_abs_at);
  for (int64_t value : {d.max_ulp, d.heads, static_cast<int64_t>(d.shares.size())}) {
    insert.bind(++at, value);
  }
  if (!insert.executeStep()) return;  // a worse one is there
  const int64_t id = insert.getColumn(0).getInt64();
  insert.reset();
  sql_(kDropDifferenceParts, id).exec();
  if (is_spread(d)) return;
  for (size_t i = 0; i < d.shares.size(); ++i) {
    if (!(d.shares[i] > 0)) continue;
    sql_("INSERT INTO difference_part VALUES (?, ?, ?)", id, static_cast<int64_t>(i),
         share_ppm(d.shares[i]))
        .exec();
  }
}

}  // namespace greta
