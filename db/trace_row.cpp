#include "db/trace_row.h"

#include <algorithm>
#include <cmath>

#include "kernels/fingerprint/fingerprint.h"

namespace greta {
namespace {

/// Part of a number that printed digits, another order of a sum or 16-bit arithmetic change.
constexpr double kSlack = 2e-2;
/// Change of a number by printing four decimals.
constexpr double kDecimals = 5.1e-5;

bool is_beyond(double value, double most) {
  return value > most + kSlack * std::fabs(most) + kDecimals;
}

/// Size of the largest value that the row states.
double size_of(const TraceRow& row) {
  return std::max(std::fabs(row.min.value_or(0)), std::fabs(row.max.value_or(0)));
}

bool says_nonfinite(const TraceRow& row) {
  return row.nan.value_or(0) != 0 || row.inf.value_or(0) != 0 ||
         (row.flags & kFlagNonfiniteStatistic) != 0;
}

/// Why the sample, leading values of the row, is none of values that it may have.
std::string fault_of_sample(const TraceRow& row) {
  const double size = size_of(row);
  for (const float x : row.sample) {
    if ((row.max && is_beyond(x, *row.max + kSlack * size)) ||
        (row.min && is_beyond(*row.min, x + kSlack * size))) {
      return "sample has a value outside of its min and max";
    }
  }
  const bool is_all = !row.sample.empty() && row.n == static_cast<int64_t>(row.sample.size());
  const bool is_zero =
      std::all_of(row.sample.begin(), row.sample.end(), [](float x) { return x == 0; });
  return is_all && is_zero && row.nz_count.value_or(0) > 0 && is_beyond(size, 0)
             ? "sample is all of it and 0, its nz_count is not"
             : "";
}

}  // namespace

void set_statistics_of(TraceRow& row, const Fingerprint& f) {
  row.n = static_cast<int64_t>(f.n);
  const bool has_finite = f.nan + f.inf < f.n;
  row.min = has_finite ? std::optional<double>(f.min) : std::nullopt;
  row.max = has_finite ? std::optional<double>(f.max) : std::nullopt;
  row.mean = has_finite ? std::optional(f.mean) : std::nullopt;
  row.abs_sum = f.abs_sum;
  row.nan = static_cast<int64_t>(f.nan);
  row.inf = static_cast<int64_t>(f.inf);
  row.nz_count = static_cast<int64_t>(f.nz_count);
}

RowSketch sketch_of(const Fingerprint& f, bool derived) {
  return {static_cast<int64_t>(f.n), derived, f.sum_sq, f.sketch};
}

std::string fault_of(const TraceRow& row, bool covers_n) {
  if (says_nonfinite(row)) return "";
  if (row.nz_count &&
      (*row.nz_count < 0 || (covers_n && row.n && *row.n > 0 && *row.nz_count > *row.n))) {
    return "nz_count is no part of its n";
  }
  if (row.min && row.max && *row.min > *row.max) return "min is above its max";
  if (row.abs_sum && *row.abs_sum < 0) return "abs_sum is negative";
  if (row.sketch != nullptr && row.sketch->sum_sq < 0) return "sketch has a negative sum_sq";
  return covers_n ? fault_of_sample(row) : "";
}

std::string doubt_of(const TraceRow& row, bool covers_n) {
  if (says_nonfinite(row)) return "";
  const double n = static_cast<double>(row.n.value_or(0)), size = size_of(row);
  if (row.mean && row.min && row.max &&
      (is_beyond(*row.min, *row.mean + kSlack * size) ||
       is_beyond(*row.mean, *row.max + kSlack * size))) {
    return "mean lies outside of its min and max";
  }
  if (row.abs_sum && is_beyond(size, *row.abs_sum)) return "abs_sum is less than one of its values";
  if (row.abs_sum && covers_n && n > 0 && row.mean &&
      is_beyond((std::fabs(*row.mean) - kDecimals) * n, *row.abs_sum)) {
    return "abs_sum is less than its mean makes";
  }
  return "";
}

std::string sketch_doubt(const TraceRow& row) {
  if (row.sketch == nullptr || row.sketch->derived || says_nonfinite(row)) return "";
  const RowSketch& sketch = *row.sketch;
  if (is_beyond(sketch.sum_sq, 0) &&
      std::all_of(sketch.bucket.begin(), sketch.bucket.end(), [](double x) { return x == 0; })) {
    return "was never filled";
  }
  if (!row.min || !row.max) return "";
  const double size = size_of(row), most = size + kDecimals;
  const bool is_ruled_out = is_beyond(size * size, sketch.sum_sq) ||
                            is_beyond(sketch.sum_sq, most * most * static_cast<double>(sketch.n)) ||
                            (row.abs_sum && is_beyond(sketch.sum_sq, most * *row.abs_sum));
  return is_ruled_out ? "has a sum_sq that min and max rule out" : "";
}

bool StillHash::has_seen(const TraceRow& row) {
  if (!row.hash || row.n.value_or(0) < 2) return false;
  Seen& seen = seen_[*row.hash % seen_.size()];
  if (seen.hash != row.hash) seen = {row.hash, 0, {}};
  ++seen.rows;
  const Statistics it{row.min, row.max, row.nz_count};
  if (seen.others.size() < kOthers &&
      std::find(seen.others.begin(), seen.others.end(), it) == seen.others.end()) {
    seen.others.push_back(it);
  }
  return seen.rows >= kRows && seen.others.size() >= kOthers;
}

}  // namespace greta
