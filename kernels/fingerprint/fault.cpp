#include "kernels/fingerprint/fault.h"

#include <algorithm>
#include <cmath>

namespace greta {
namespace {

const char* fault_of_counts(const Fingerprint& f) {
  if (f.n > kMaxFingerprintValues) return "n is more than 2^31";
  if (f.nan > f.n || f.inf > f.n - f.nan) return "nan and inf are more than n";
  if (f.nz_count > f.n || f.nz_count < f.nan + f.inf) return "nz_count contradicts n, nan and inf";
  if (f.n == 0) return f.hash != 0 ? "a hash of no values" : nullptr;
  // of all rows in use only a single +0 has it
  const bool may_be_zero = f.n == 1 && f.nz_count == 0;
  return f.hash != 0 || may_be_zero ? nullptr : "a hash that nobody worked out";
}

const char* fault_of_extremes(const Fingerprint& f) {
  if (f.nan + f.inf == f.n) {
    const bool are_nan = std::isnan(f.min) && std::isnan(f.max) && std::isnan(f.mean);
    return are_nan ? nullptr : "min, max or mean where no value is finite";
  }
  if (!std::isfinite(f.min) || !std::isfinite(f.max) || f.min > f.max) return "min and max";
  return std::isfinite(f.mean) ? nullptr : "mean";
}

}  // namespace

const char* fault_of(const Fingerprint& f) {
  if (const char* fault = fault_of_counts(f)) return fault;
  if (const char* fault = fault_of_extremes(f)) return fault;
  if (!std::isfinite(f.abs_sum) || f.abs_sum < 0) return "abs_sum";
  if (!std::isfinite(f.sum_sq) || f.sum_sq < 0) return "sum_sq";
  const auto all = [&f](auto holds) {
    return std::all_of(f.sketch.begin(), f.sketch.end(), holds);
  };
  if (!all([](double x) { return std::isfinite(x); })) return "a sketch that is not finite";
  const bool is_zero = f.abs_sum == 0 && f.sum_sq == 0 && all([](double x) { return x == 0; });
  return f.nz_count > f.nan + f.inf || is_zero ? nullptr : "sums of nothing but zeros";
}

}  // namespace greta
