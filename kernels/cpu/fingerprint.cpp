#include "kernels/cpu/fingerprint.h"

#include <cmath>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>

namespace greta {
namespace {

constexpr std::size_t kSignedBuckets = 2 * kSketchBuckets;  // a sketch_code is below this
constexpr std::uint64_t kLegacyOffsetBasis = 1469598103934665603u;
constexpr std::uint64_t kLegacyPrime = 1099511628211u;

constexpr std::int32_t kInfinityKey = order_key(kInfinityBits);
constexpr std::int32_t kNegativeInfinityKey = order_key(kInfinityBits | ~kMagnitudeMask);

constexpr std::int64_t with_sign(std::uint64_t magnitude, bool negative) {
  const auto value = static_cast<std::int64_t>(magnitude);
  return negative ? -value : value;
}

void check_length(std::uint64_t n) {
  if (n > kMaxFingerprintValues) {
    throw std::length_error("fingerprint: row of " + std::to_string(n) + " values, at most " +
                            std::to_string(kMaxFingerprintValues) + " are supported");
  }
}

// The sketch codes of all indices, the same for every row: made in pages when first needed.
class SketchTable {
 public:
  static constexpr std::size_t kPage = 4096;  // indices

  // code[i][map] for i in [page · kPage, (page + 1) · kPage)
  using Codes = std::array<std::array<std::uint8_t, kSketchMaps>, kPage>;

  const Codes& codes(std::size_t page) {
    Slot& slot = slots_[page];
    std::call_once(slot.once, [&] { slot.codes = make(page); });
    return *slot.codes;
  }

 private:
  struct Slot {
    std::once_flag once;
    std::unique_ptr<const Codes> codes;
  };

  static std::unique_ptr<const Codes> make(std::size_t page) {
    auto codes = std::make_unique<Codes>();
    for (std::size_t i = 0; i < kPage; ++i) {
      for (std::size_t map = 0; map < kSketchMaps; ++map) {
        (*codes)[i][map] = static_cast<std::uint8_t>(sketch_code(page * kPage + i, map));
      }
    }
    return codes;
  }

  std::array<Slot, kMaxFingerprintValues / kPage> slots_;
};

SketchTable& sketch_table() {
  static SketchTable table;
  return table;
}

float value_of_key(std::int32_t key) {
  // order_key is its own inverse.
  return std::bit_cast<float>(order_key(std::bit_cast<std::uint32_t>(key)));
}

// The greater magnitude of two order keys; 0 while min_key > max_key, that is for no value.
std::uint32_t magnitude_of_keys(std::int32_t min_key, std::int32_t max_key) {
  if (min_key > max_key) return 0;
  return std::max(std::bit_cast<std::uint32_t>(value_of_key(min_key)) & kMagnitudeMask,
                  std::bit_cast<std::uint32_t>(value_of_key(max_key)) & kMagnitudeMask);
}

// First pass: everything that does not need the scale.
struct Scan {
  std::int32_t min_key = std::numeric_limits<std::int32_t>::max();
  std::int32_t max_key = std::numeric_limits<std::int32_t>::min();
  std::uint64_t nan = 0;
  std::uint64_t inf = 0;
  std::uint64_t zeros = 0;
};

// Takes every value as if it were finite. The trip count is a constant and the conditions are
// selects: that is what compilers need to vectorise the loop at -O2.
template <std::size_t kCount>
void scan_values(const float* values, Scan& scan) {
  std::int32_t min_key = scan.min_key;
  std::int32_t max_key = scan.max_key;
  std::uint32_t zeros = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    const std::int32_t key = order_key(bits);
    min_key = std::min(min_key, key);
    max_key = std::max(max_key, key);
    zeros += (bits & kMagnitudeMask) == 0 ? 1u : 0u;
  }
  scan.min_key = min_key;
  scan.max_key = max_key;
  scan.zeros += zeros;
}

Scan scan_row(std::span<const float> row) {
  constexpr std::size_t kBlock = 64;
  const std::size_t whole = row.size() - row.size() % kBlock;
  Scan all;
  for (std::size_t i = 0; i < whole; i += kBlock) scan_values<kBlock>(&row[i], all);
  for (std::size_t i = whole; i < row.size(); ++i) scan_values<1>(&row[i], all);
  // Non-finite keys lie outside the finite ones, at both ends.
  if (all.max_key < kInfinityKey && all.min_key > kNegativeInfinityKey) return all;
  Scan finite;
  for (const float& value : row) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & kMagnitudeMask;
    if (magnitude > kInfinityBits) {
      ++finite.nan;
    } else if (magnitude == kInfinityBits) {
      ++finite.inf;
    } else {
      scan_values<1>(&value, finite);
    }
  }
  return finite;
}

// Second pass over one page of indices. Signs of the sketch are separate buckets until the end.
class Accumulator {
 public:
  explicit Accumulator(int scale) : scale_(scale) {}

  void add(std::span<const float> values, std::uint64_t first, const SketchTable::Codes& codes) {
    std::uint64_t hash = 0, abs_sum = 0, sum_sq = 0;  // in registers
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(values[i]);
      const std::uint32_t magnitude = bits & kMagnitudeMask;
      hash += hash_term(first + i, bits);
      if (magnitude >= kInfinityBits) continue;
      const std::uint64_t q = quantise(magnitude, scale_);
      const std::int64_t signed_q = with_sign(q, bits != magnitude);
      abs_sum += q;
      sum_sq += squared_term(q);
      buckets_[0][codes[i][0]] += signed_q;
      buckets_[1][codes[i][1]] += signed_q;
    }
    hash_ += hash;
    abs_sum_ += abs_sum;
    sum_sq_ += sum_sq;
  }

  void store(FingerprintSums& sums) const {
    sums.hash = hash_;
    // Every finite value is in one signed bucket of each map.
    sums.sum = std::accumulate(buckets_[0].begin(), buckets_[0].end(), std::int64_t{0});
    sums.abs_sum = abs_sum_;
    sums.sum_sq = sum_sq_;
    for (std::size_t j = 0; j < kSketchValues; ++j) {
      const auto& map = buckets_[j / kSketchBuckets];
      const std::size_t bucket = j % kSketchBuckets;
      sums.buckets[j] = map[bucket] - map[bucket + kSketchBuckets];
    }
  }

 private:
  int scale_;
  std::uint64_t hash_ = 0, abs_sum_ = 0, sum_sq_ = 0;
  std::array<std::array<std::int64_t, kSignedBuckets>, kSketchMaps> buckets_{};
};

}  // namespace

FingerprintSums::FingerprintSums(std::uint32_t row_max_magnitude)
    : max_magnitude(row_max_magnitude), scale(scale_for(row_max_magnitude)) {
  if (row_max_magnitude >= kInfinityBits) {
    throw std::invalid_argument("fingerprint: the greatest finite magnitude is not finite");
  }
}

void FingerprintSums::add(std::uint64_t index, float value) {
  if (index >= kMaxFingerprintValues) {
    throw std::out_of_range("fingerprint: index " + std::to_string(index) + " is in no row");
  }
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & kMagnitudeMask;
  const bool finite = magnitude < kInfinityBits;
  if (finite && magnitude > max_magnitude) {
    throw std::invalid_argument("fingerprint: a value exceeds the row's greatest magnitude");
  }
  ++n;
  hash += hash_term(index, bits);
  nan += magnitude > kInfinityBits ? 1 : 0;
  inf += magnitude == kInfinityBits ? 1 : 0;
  nz_count += magnitude != 0 ? 1 : 0;
  if (!finite) return;
  min_key = std::min(min_key, order_key(bits));
  max_key = std::max(max_key, order_key(bits));
  const std::uint64_t q = quantise(magnitude, scale);
  const bool negative = bits != magnitude;
  sum += with_sign(q, negative);
  abs_sum += q;
  sum_sq += squared_term(q);
  for (std::size_t map = 0; map < kSketchMaps; ++map) {
    const unsigned code = sketch_code(index, map);
    const bool minus = code >= kSketchBuckets;
    buckets[map * kSketchBuckets + code % kSketchBuckets] += with_sign(q, negative != minus);
  }
}

void FingerprintSums::merge(const FingerprintSums& other) {
  if (max_magnitude != other.max_magnitude) {
    throw std::invalid_argument(
        "fingerprint: parts of different rows, or of one row scanned twice");
  }
  check_length(n + other.n);
  n += other.n;
  hash += other.hash;
  sum += other.sum;
  abs_sum += other.abs_sum;
  sum_sq += other.sum_sq;
  nan += other.nan;
  inf += other.inf;
  nz_count += other.nz_count;
  min_key = std::min(min_key, other.min_key);
  max_key = std::max(max_key, other.max_key);
  for (std::size_t j = 0; j < kSketchValues; ++j) buckets[j] += other.buckets[j];
}

Fingerprint FingerprintSums::finish() const {
  check_length(n);
  if (magnitude_of_keys(min_key, max_key) != max_magnitude) {
    throw std::logic_error("fingerprint: the values do not reach the magnitude of their scale");
  }
  // The one rounding is integer to double. These powers of two lie in [2^−338, 2^214] and a
  // non-zero integer is at least 1: the products are exact, never subnormal, never infinite.
  const double unit = std::ldexp(1.0, -scale);
  const double square_unit = std::ldexp(1.0, 40 - 2 * scale);
  const std::uint64_t finite = n - nan - inf;
  const bool any = finite != 0;
  Fingerprint result;
  result.n = n;
  result.hash = hash;
  result.min = any ? value_of_key(min_key) : std::numeric_limits<float>::quiet_NaN();
  result.max = any ? value_of_key(max_key) : std::numeric_limits<float>::quiet_NaN();
  result.mean = any ? static_cast<double>(sum) * unit / static_cast<double>(finite)
                    : std::numeric_limits<double>::quiet_NaN();
  result.abs_sum = static_cast<double>(abs_sum) * unit;
  result.sum_sq = static_cast<double>(sum_sq) * square_unit;
  result.nan = nan;
  result.inf = inf;
  result.nz_count = nz_count;
  for (std::size_t j = 0; j < kSketchValues; ++j) {
    result.sketch[j] = static_cast<double>(buckets[j]) * unit;
  }
  return result;
}

FingerprintSums fingerprint_sums(std::span<const float> row) {
  check_length(row.size());
  const Scan scan = scan_row(row);
  FingerprintSums sums(magnitude_of_keys(scan.min_key, scan.max_key));
  sums.n = row.size();
  sums.nan = scan.nan;
  sums.inf = scan.inf;
  sums.nz_count = row.size() - scan.zeros;
  sums.min_key = scan.min_key;
  sums.max_key = scan.max_key;
  Accumulator accumulator(sums.scale);
  for (std::size_t first = 0; first < row.size(); first += SketchTable::kPage) {
    const std::size_t count = std::min(SketchTable::kPage, row.size() - first);
    const auto& codes = sketch_table().codes(first / SketchTable::kPage);
    accumulator.add(row.subspan(first, count), first, codes);
  }
  accumulator.store(sums);
  return sums;
}

Fingerprint fingerprint(std::span<const float> row) { return fingerprint_sums(row).finish(); }

std::uint32_t finite_max_magnitude(std::span<const float> row) {
  const Scan scan = scan_row(row);
  return magnitude_of_keys(scan.min_key, scan.max_key);
}

std::uint64_t legacy_fnv_hash(std::span<const float> row) {
  std::uint64_t hash = kLegacyOffsetBasis;
  for (const float& value : row.first(std::min(row.size(), kLegacyHashValues))) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * kLegacyPrime;
  }
  return hash;
}

}  // namespace greta
