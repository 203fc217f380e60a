#include "db/trace_row.h"

#include <algorithm>
#include <cmath>

#include "kernels/fingerprint/fingerprint.h"

namespace greta {
namespace {

/// What printed digits, and sums in another order, may make of a number.
constexpr double kSlack = 1e-3;

bool is_beyond(double value, double most) { return value > most + kSlack * std::fabs(most); }

/// Of the greatest magnitude, the mean and the sum of magnitudes, as far as they are there.
std::string statistics_fault(const TraceRow& row, double magnitude, bool covers_n) {
  if (row.min && row.max && *row.min > *row.max) return "min is above its max";
  if (row.mean && row.min && row.max &&
      (*row.mean < *row.min - kSlack * magnitude || *row.mean > *row.max + kSlack * magnitude)) {
    return "mean lies outside of its min and max";
  }
  if (!row.abs_sum) return "";
  if (*row.abs_sum < 0) return "abs_sum is negative";
  if (is_beyond(magnitude, *row.abs_sum)) return "abs_sum is less than one of its values";
  const double n = static_cast<double>(row.n.value_or(0));
  if (covers_n && n > 0 && row.mean && is_beyond(std::fabs(*row.mean) * n, *row.abs_sum)) {
    return "abs_sum is less than its mean makes";
  }
  return "";
}

/// Of a sketch of the whole row: its norm lies between what one value, and what all of them, make.
std::string sketch_fault(const TraceRow& row, double magnitude) {
  const RowSketch& sketch = *row.sketch;
  if (sketch.sum_sq < 0) return "sketch has a negative sum_sq";
  if (!row.min || !row.max) return "";
  const double square = magnitude * magnitude;
  if (is_beyond(square, sketch.sum_sq) ||
      is_beyond(sketch.sum_sq, square * static_cast<double>(sketch.n)) ||
      (row.abs_sum && is_beyond(sketch.sum_sq, magnitude * *row.abs_sum))) {
    return "sketch has a sum_sq that its min and max rule out";
  }
  return "";
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
  if (row.nan.value_or(0) != 0 || row.inf.value_or(0) != 0 ||
      (row.flags & kFlagNonfiniteStatistic) != 0) {
    return "";
  }
  if (row.nz_count &&
      (*row.nz_count < 0 || (covers_n && row.n && *row.n > 0 && *row.nz_count > *row.n))) {
    return "nz_count is no part of its n";
  }
  const double magnitude = std::max(std::fabs(row.min.value_or(0)), std::fabs(row.max.value_or(0)));
  if (std::string fault = statistics_fault(row, magnitude, covers_n); !fault.empty()) return fault;
  return row.sketch != nullptr && !row.sketch->derived ? sketch_fault(row, magnitude) : "";
}

}  // namespace greta
