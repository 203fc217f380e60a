#include "kernels/fingerprint/fingerprint.h"

#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "kernels/fingerprint/kernels.h"

namespace greta {
namespace {

constexpr std::uint64_t kLegacyOffsetBasis = 1469598103934665603u;
constexpr std::uint64_t kLegacyPrime = 1099511628211u;

constexpr std::int64_t with_sign(std::uint64_t magnitude, bool negative) {
  const auto value = static_cast<std::int64_t>(magnitude);
  return negative ? -value : value;
}

void check_length(std::uint64_t n, std::uint64_t most = kMaxFingerprintValues) {
  if (n > most) {
    throw std::length_error("fingerprint: row of " + std::to_string(n) + " values, at most " +
                            std::to_string(most) + " are supported");
  }
}

// How many values a row that loses so many bits can have.
std::uint64_t capacity(int lost) { return std::uint64_t{kMaxTokenValues} << lost; }

// The sketch codes of indices, the same for every row: made in pages when first needed, and of
// indices that only the longest rows have every time.
class SketchTable {
 public:
  static constexpr std::size_t kPage = 4096;  // indices

  // Both codes of each i in [page · kPage, (page + 1) · kPage), as FingerprintKernels wants them.
  using Codes = std::array<std::uint16_t, kPage>;

  // own: the caller's, for a page that is not kept.
  const Codes& codes(std::size_t page, std::unique_ptr<Codes>& own) {
    if (page >= slots_.size()) {
      if (!own) own = std::make_unique<Codes>();
      fill(page, *own);
      return *own;
    }
    Slot& slot = slots_[page];
    std::call_once(slot.once, [&] {
      auto codes = std::make_unique<Codes>();
      fill(page, *codes);
      slot.codes = std::move(codes);
    });
    return *slot.codes;
  }

 private:
  struct Slot {
    std::once_flag once;
    std::unique_ptr<const Codes> codes;
  };

  static void fill(std::size_t page, Codes& codes) {
    for (std::size_t i = 0; i < kPage; ++i) {
      const std::uint64_t index = page * kPage + i;
      codes[i] = static_cast<std::uint16_t>(sketch_code(index, 0) | sketch_code(index, 1) << 5);
    }
  }

  std::array<Slot, kMaxTokenValues / kPage> slots_;
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

void add_piece(std::span<const float> piece, std::size_t first, Isa isa, int scale, bool finite,
               std::unique_ptr<SketchTable::Codes>& own, FingerprintPart& part) {
  const FingerprintKernels& kernels = GRETA_SELECT_KERNELS(isa, fingerprint_kernels);
  for (std::size_t at = 0; at < piece.size(); at += SketchTable::kPage) {
    const std::size_t count = std::min(SketchTable::kPage, piece.size() - at);
    const SketchTable::Codes& codes = sketch_table().codes((first + at) / SketchTable::kPage, own);
    kernels.accumulate(&piece[at], static_cast<std::int64_t>(count), first + at, codes.data(),
                       scale, finite, &part);
  }
}

void take_part(const FingerprintPart& part, Isa isa, FingerprintSums& sums) {
  sums.hash = part.hash;
  sums.abs_sum = part.abs_sum;
  sums.sum_sq = part.sum_sq;
  sums.sum =
      GRETA_SELECT_KERNELS(isa, fingerprint_kernels).fold_cells(part.cells, sums.buckets.data());
}

/// Sums of a row without its values: n, counts and extremes.
FingerprintSums sums_of(const FingerprintScan& scan, std::uint64_t n) {
  FingerprintSums sums(magnitude_of_keys(scan.min_key, scan.max_key), n);
  if (sums.scale > kMaxKernelScale) return sums;
  sums.n = n;
  sums.nan = scan.nan;
  sums.inf = scan.inf;
  sums.nz_count = n - scan.zeros;
  sums.min_key = scan.min_key;
  sums.max_key = scan.max_key;
  return sums;
}

FingerprintScan scan_row(std::span<const float> row, Isa isa) {
  FingerprintScan scan;
  GRETA_SELECT_KERNELS(isa, fingerprint_kernels)
      .scan(row.data(), static_cast<std::int64_t>(row.size()), &scan);
  return scan;
}

void accumulate_row(std::span<const float> row, Isa isa, FingerprintSums& sums) {
  FingerprintPart part;
  std::unique_ptr<SketchTable::Codes> own;
  add_piece(row, 0, isa, sums.scale, sums.nan + sums.inf == 0, own, part);
  take_part(part, isa, sums);
}

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

FingerprintSums::FingerprintSums(std::uint32_t row_max_magnitude, std::uint64_t row_values)
    : max_magnitude(row_max_magnitude),
      lost(lost_bits(row_values)),
      scale(scale_for(row_max_magnitude, lost)) {
  check_length(row_values);
  if (row_max_magnitude >= kInfinityBits) {
    throw std::invalid_argument("fingerprint: the greatest finite magnitude is not finite");
  }
}

void FingerprintSums::add(std::uint64_t index, float value) {
  if (index >= capacity(lost)) {
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
  if (max_magnitude != other.max_magnitude || lost != other.lost) {
    throw std::invalid_argument(
        "fingerprint: parts of different rows, or of one row scanned twice");
  }
  check_length(n + other.n, capacity(lost));
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
  check_length(n, capacity(lost));
  if (magnitude_of_keys(min_key, max_key) != max_magnitude) {
    throw std::logic_error("fingerprint: the values do not reach the magnitude of their scale");
  }
  // The one rounding is integer to double. These powers of two lie in [2^−338, 2^234] and a
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

FingerprintSums fingerprint_sums(std::span<const float> row, Isa isa) {
  check_length(row.size());
  const FingerprintScan scan = scan_row(row, isa);
  FingerprintSums sums = sums_of(scan, row.size());
  if (sums.scale > kMaxKernelScale) {
    for (std::size_t i = 0; i < row.size(); ++i) sums.add(i, row[i]);
    return sums;
  }
  accumulate_row(row, isa, sums);
  return sums;
}

struct PieceFingerprint::State {
  FingerprintScan scan;
  std::uint64_t scanned = 0, added = 0;
  std::optional<FingerprintSums> sums;
  FingerprintPart part;
  std::unique_ptr<SketchTable::Codes> own;
};

PieceFingerprint::PieceFingerprint() : state_(std::make_unique<State>()) {}
PieceFingerprint::~PieceFingerprint() = default;

void PieceFingerprint::scan(std::span<const float> piece) {
  State& s = *state_;
  if (s.sums) throw std::logic_error("fingerprint: a piece is scanned after another was added");
  check_length(s.scanned + piece.size());
  s.scanned += piece.size();
  GRETA_SELECT_KERNELS(best_isa(), fingerprint_kernels)
      .scan(piece.data(), static_cast<std::int64_t>(piece.size()), &s.scan);
}

void PieceFingerprint::add(std::span<const float> piece) {
  State& s = *state_;
  if (!s.sums) s.sums = sums_of(s.scan, s.scanned);
  if (piece.size() > s.scanned - s.added || s.added % kPieceValues != 0) {
    throw std::logic_error("fingerprint: pieces are not those that were scanned");
  }
  if (s.sums->scale > kMaxKernelScale) {
    for (std::size_t i = 0; i < piece.size(); ++i) s.sums->add(s.added + i, piece[i]);
  } else {
    add_piece(piece, s.added, best_isa(), s.sums->scale, s.sums->nan + s.sums->inf == 0, s.own,
              s.part);
  }
  s.added += piece.size();
}

Fingerprint PieceFingerprint::finish() {
  State& s = *state_;
  if (!s.sums) s.sums = sums_of(s.scan, s.scanned);
  if (s.added != s.scanned) {
    throw std::logic_error("fingerprint: pieces are not those that were scanned");
  }
  if (s.sums->scale <= kMaxKernelScale) take_part(s.part, best_isa(), *s.sums);
  return s.sums->finish();
}

Fingerprint fingerprint(std::span<const float> row) { return fingerprint_sums(row).finish(); }

void widen(ValueType type, const void* values, std::size_t n, float* to, Isa isa) {
  if (n == 0) return;
  const FingerprintKernels& kernels = GRETA_SELECT_KERNELS(isa, fingerprint_kernels);
  const auto count = static_cast<std::int64_t>(n);
  if (type == ValueType::kF32) std::memcpy(to, values, n * sizeof(float));
  if (type == ValueType::kF16) kernels.widen_f16(values, count, to);
  if (type == ValueType::kBf16) kernels.widen_bf16(values, count, to);
}

std::uint32_t finite_max_magnitude(std::span<const float> row) {
  const FingerprintScan scan = scan_row(row, best_isa());
  return magnitude_of_keys(scan.min_key, scan.max_key);
}

std::uint64_t legacy_fnv_hash(std::span<const float> row) {
  std::uint64_t hash = kLegacyOffsetBasis;
  for (const float& value : row.first(std::min(row.size(), kLegacyHashValues))) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * kLegacyPrime;
  }
  return hash;
}

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
