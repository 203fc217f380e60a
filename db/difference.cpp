#include "db/difference.h"

#include <cmath>
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

const std::string& worst_difference_stands() {
  static const std::string clause = [] {
    std::string columns =
        "n, differing, first_at, last_at, rel_l2, max_abs, max_abs_at, max_ulp, heads, segments";
    for (size_t i = 0; i < kMaxShares; ++i) columns += ", p" + std::to_string(i);
    std::string theirs = "excluded." + columns;
    for (size_t at = 0; (at = theirs.find(", ", at)) != std::string::npos; at += 2) {
      theirs.insert(at + 2, "excluded.");
    }
    return " ON CONFLICT DO UPDATE SET (" + columns + ") = (" + theirs +
           ") WHERE (ifnull(excluded.rel_l2, 9e999), excluded.differing, excluded.max_abs,"
           " excluded.max_ulp, excluded.n, excluded.first_at, excluded.last_at, excluded.heads)"
           " > (ifnull(rel_l2, 9e999), differing, max_abs, max_ulp, n, first_at, last_at, heads)";
  }();
  return clause;
}

void RunRecords::add_difference(const DifferenceRow& d) {
  if (const std::string fault = fault_of(d); !fault.empty()) {
    throw std::invalid_argument("a difference that " + fault);
  }
  static const std::string sql =
      "INSERT INTO difference(run_id, prompt_id, pos_id, layer, tensor_id, prefill_hash,"
      " decode_hash, n, differing, first_at, last_at, rel_l2, max_abs, max_abs_at, max_ulp, heads,"
      " segments, p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15, p16, p17,"
      " p18, p19, p20, p21, p22, p23, p24, p25, p26, p27, p28, p29, p30, p31)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
      " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)" +
      worst_difference_stands();
  SQLite::Statement& insert = sql_(sql.c_str());
  int at = 0;
  for (int64_t value :
       {d.run_id, d.prompt_id, d.pos_id, d.layer, d.tensor_id, static_cast<int64_t>(d.prefill_hash),
        static_cast<int64_t>(d.decode_hash), d.n, d.differing, d.first_at, d.last_at}) {
    insert.bind(++at, value);
  }
  bind_optional(insert, ++at, d.rel_l2);
  insert.bind(++at, d.max_abs);
  bind_optional(insert, ++at, d.max_abs_at);
  for (int64_t value : {d.max_ulp, d.heads, static_cast<int64_t>(d.shares.size())}) {
    insert.bind(++at, value);
  }
  for (double share : d.shares) insert.bind(++at, share);
  insert.exec();
}

}  // namespace greta
