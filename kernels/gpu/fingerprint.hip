#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/fingerprint.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// Two passes: the row's range, which gives the scale, then the sums. A row of one part takes both
// in one block; the parts of a longer row meet in its result by atomics, on integers.

namespace greta {
namespace {

constexpr int kPartThreads = 128;
constexpr int kAhead = 4;              // values that a thread has in hand: one access where it can
constexpr unsigned kMaxBlocks = 4096;  // more parts are taken in turn

// A row that fills the device all the same is cut into longer parts: what a block begins and ends
// with takes as long as a thousand values.
constexpr int64_t kLongParts = 64;
constexpr int64_t kLongPart = 2 * kFingerprintPart;

// Counts and parts are there before any kernel that reads them is queued behind others, so they are
// read before these have ended.
struct Work {
  uint32_t n_parts;
  FingerprintPart first;  // of the block, if it has one

  __device__ Work(uint32_t n, const FingerprintPart* parts)
      : n_parts(n), first(parts[blockIdx.x < n ? blockIdx.x : 0]) {}
  __device__ FingerprintPart part(const FingerprintPart* parts, uint32_t p) const {
    FingerprintPart found = first;  // a choice between two places would give it one, in memory
    if (p != blockIdx.x) found = parts[p];
    return found;
  }
};

// Least and greatest finite value as numbers that grow outwards from 0, "none", so that both
// combine by max and zeroed memory is a start.
struct Range {
  uint32_t low, high;
};

__host__ __device__ constexpr uint32_t high_of(int32_t key) {
  return static_cast<uint32_t>(key) ^ 0x80000000u;
}
__host__ __device__ constexpr uint32_t low_of(int32_t key) { return ~high_of(key); }
__host__ __device__ constexpr int32_t key_of_high(uint32_t high) {
  return static_cast<int32_t>(high ^ 0x80000000u);
}
__host__ __device__ constexpr int32_t key_of_low(uint32_t low) { return key_of_high(~low); }

// order_key is its own inverse.
__host__ __device__ constexpr uint32_t magnitude_of(int32_t key) {
  return static_cast<uint32_t>(order_key(static_cast<uint32_t>(key))) & kMagnitudeMask;
}
__host__ __device__ constexpr uint32_t greatest_magnitude(const Range& range) {
  if (range.high == 0) return 0;
  const uint32_t low = magnitude_of(key_of_low(range.low));
  const uint32_t high = magnitude_of(key_of_high(range.high));
  return low > high ? low : high;
}

// scale_for(), with a conversion in place of bit_width, which nvcc has on the host only.
__device__ int device_scale(uint32_t max_magnitude, int lost) {
  if (max_magnitude == 0) return 0;
  const int field = static_cast<int>(max_magnitude >> 23);
  if (field != 0) return 40 - lost - (field - 127);
  const auto exact = bits_as<uint32_t>(static_cast<float>(max_magnitude));
  return 40 - lost - (static_cast<int>(exact >> 23) - 127 - 149);
}

struct Widen {
  __device__ Range operator()(const Range& a, const Range& b) const {
    return {a.low > b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
  }
};

// Of one part, so 16 bits are enough for each.
struct Census {
  uint64_t packed = 0;

  __device__ void add(uint32_t magnitude) {
    packed += (magnitude > kInfinityBits ? 1u : 0u) +
              (uint64_t{magnitude == kInfinityBits ? 1u : 0u} << 16) +
              (uint64_t{magnitude != 0 ? 1u : 0u} << 32);
  }
  __device__ uint64_t nan() const { return packed & 0xffff; }
  __device__ uint64_t inf() const { return packed >> 16 & 0xffff; }
  __device__ uint64_t nz_count() const { return packed >> 32; }
};
static_assert(kLongPart < 0x10000);

struct Scan {
  Range range;
  Census census;
};

constexpr uint32_t kStep = kAhead * kPartThreads;

// Index in the part of a thread's next values, which follow each other.
__device__ uint32_t next_index(uint32_t base) { return base + kAhead * threadIdx.x; }

// Those values. Zeros beyond the end.
struct Hand {
  uint32_t bits[kAhead];
  bool present[kAhead];

  __device__ Hand(const FingerprintPart& part, uint32_t base, bool aligned) {
    static_assert(sizeof(Words4) == sizeof bits);
    const uint32_t first = next_index(base);
    const bool all = first + kAhead <= part.n;
    Words4 words{};
    if (all && aligned) words = load_as<Words4>(part.data + first);
    GRETA_UNROLL
    for (uint32_t j = 0; j < kAhead; ++j) {
      present[j] = all || first + j < part.n;
      bits[j] = all && aligned ? words.word[j]
                : present[j]   ? bits_as<uint32_t>(part.data[first + j])
                               : 0;
    }
  }
};

// Every thread gets the part's.
__device__ Scan scan(const FingerprintPart& part) {
  Scan own{{0, 0}, {}};
  const bool aligned = aligned16(part.data);
  for (uint32_t base = 0; base < part.n; base += kStep) {
    const Hand hand(part, base, aligned);
    GRETA_UNROLL
    for (int j = 0; j < kAhead; ++j) {
      const uint32_t magnitude = hand.bits[j] & kMagnitudeMask;
      own.census.add(magnitude);
      const int32_t key = order_key(hand.bits[j]);
      const bool counts = hand.present[j] && magnitude < kInfinityBits;
      const Range range{counts ? low_of(key) : 0, counts ? high_of(key) : 0};
      own.range = Widen{}(own.range, range);
    }
  }
  return {block_reduce(own.range, Widen{}), {block_sum(own.census.packed)}};
}

__global__ __launch_bounds__(kPartThreads) void fingerprint_scan_kernel(
    const FingerprintCounts* counts, const FingerprintPart* parts, DeviceFingerprint* results) {
  allow_next();
  const Work work(counts->n_long_parts, parts);
  wait_for_previous();
  for (uint32_t p = blockIdx.x; p < work.n_parts; p += gridDim.x) {
    const FingerprintPart part = work.part(parts, p);
    const Scan found = scan(part);
    if (threadIdx.x != 0) continue;
    DeviceFingerprint& result = results[part.row];
    atomic_max(&result.low, found.range.low);
    atomic_max(&result.high, found.range.high);
    atomic_add(&result.nan, found.census.nan());
    atomic_add(&result.inf, found.census.inf());
    atomic_add(&result.nz_count, found.census.nz_count());
  }
}

// Sketch buckets in shared memory, several copies of each so that lanes do not meet: a copy per
// lane where a wavefront has kCopies lanes, else neighbours share one by atomics.
constexpr int kCopies = 32;
constexpr int kBuckets = static_cast<int>(kSketchValues);
constexpr int kGroups = kPartThreads / kBuckets;  // of threads that add up copies
constexpr int kWaves = kPartThreads / kWave;
static_assert(kPartThreads % kBuckets == 0 && kWaves * kCopies % kGroups == 0);

using Copies = int64_t[kWaves][kBuckets][kCopies];

__device__ void clear(Copies& copies) {
  int64_t* const all = &copies[0][0][0];
  for (int i = static_cast<int>(threadIdx.x); i < kWaves * kBuckets * kCopies; i += kPartThreads) {
    all[i] = 0;
  }
}

constexpr unsigned kCodeBits = 5;
static_assert(kSketchMaps * kCodeBits <= 16);

// The codes of all maps, side by side.
__device__ unsigned sketch_codes(uint64_t index) {
  unsigned codes = 0;
  for (size_t map = 0; map < kSketchMaps; ++map) {
    codes |= sketch_code(index, map) << kCodeBits * map;
  }
  return codes;
}

__global__ __launch_bounds__(kPartThreads) void sketch_codes_kernel(uint16_t* codes) {
  const size_t index = size_t{blockIdx.x} * kPartThreads + threadIdx.x;
  codes[index] = static_cast<uint16_t>(sketch_codes(index));
}
static_assert(kFingerprintPart % kPartThreads == 0);

// Those of a thread's values in hand; codes: from the part's first value on.
struct HandCodes {
  uint16_t value[kAhead];

  __device__ HandCodes(const uint16_t* codes, uint32_t n, uint32_t base) {
    struct alignas(sizeof value) All {
      uint16_t value[kAhead];
    };
    const uint32_t first = next_index(base);
    const All all = first < n ? load_as<All>(codes + first) : All{};
    GRETA_UNROLL
    for (int j = 0; j < kAhead; ++j) value[j] = all.value[j];
  }
  __device__ HandCodes(uint64_t index) {
    GRETA_UNROLL
    for (int j = 0; j < kAhead; ++j) {
      value[j] = static_cast<uint16_t>(sketch_codes(index + static_cast<uint64_t>(j)));
    }
  }
};

__device__ void add_to_sketch(Copies& copies, unsigned codes, int64_t q) {
  GRETA_UNROLL
  for (size_t map = 0; map < kSketchMaps; ++map) {
    const unsigned code = codes >> kCodeBits * map & (2 * kSketchBuckets - 1);
    const size_t bucket = map * kSketchBuckets + code % kSketchBuckets;
    const int64_t term = code >= kSketchBuckets ? -q : q;
    int64_t* const slot = &copies[wave_id()][bucket][lane_id() % kCopies];
    if constexpr (kWave <= kCopies) {
      *slot += term;
    } else {
      atomic_add(slot, term);
    }
  }
}

// Thread b < kBuckets gets the sum of bucket b's copies. Contains barriers.
__device__ int64_t sum_copies(const Copies& copies) {
  GRETA_SHARED(int64_t, parts, [kGroups][kBuckets]);
  constexpr int kEach = kWaves * kCopies / kGroups;  // copies for one thread
  const int bucket = static_cast<int>(threadIdx.x) % kBuckets;
  const int group = static_cast<int>(threadIdx.x) / kBuckets;
  __syncthreads();
  int64_t sum = 0;
  for (int i = 0; i < kEach; ++i) {
    // Each bucket begins elsewhere: the copies of one number lie in one bank.
    const int copy = group * kEach + (i + bucket) % kEach;
    sum += copies[copy / kCopies][bucket][copy % kCopies];
  }
  parts[group][bucket] = sum;
  __syncthreads();
  if (group == 0) {
    for (int g = 1; g < kGroups; ++g) sum += parts[g][bucket];
  }
  return sum;
}

struct Sums {
  uint64_t hash = 0, abs_sum = 0, sum_sq = 0;
  int64_t sum = 0;
};

// Above this scale a subnormal value may be worth half a unit, which added_quantise() would lose.
constexpr int kMaxAddedScale = 125;

// quantise(), rounded by one addition in double: 2^52 more, the sum's last bit is worth 1.
// exponent: what makes the bits of an f32, in their place in a double, its value times 2^scale. A
// subnormal value comes out wrong, but below one half, as it should.
__device__ uint64_t added_quantise(uint32_t magnitude, uint64_t exponent) {
  const auto scaled = bits_as<double>((uint64_t{magnitude} << 29) + exponent);
  return bits_as<uint64_t>(scaled + 0x1p52) - 0x4330000000000000u;
}

// codes: of the part's values, where kLookUp.
template <bool kAdded, bool kLookUp>
__device__ Sums add_up(const FingerprintPart& part, int scale, const uint16_t* codes,
                       Copies& copies) {
  const uint64_t exponent = static_cast<uint64_t>(896 + scale) << 52;
  const bool aligned = aligned16(part.data);
  Sums own;
  for (uint32_t base = 0; base < part.n; base += kStep) {
    const Hand hand(part, base, aligned);
    const uint64_t first = uint64_t{part.first} + next_index(base);
    const HandCodes hand_codes = kLookUp ? HandCodes(codes, part.n, base) : HandCodes(first);
    GRETA_UNROLL
    for (int j = 0; j < kAhead; ++j) {
      // No branch: what is absent or not finite adds 0.
      const uint64_t index = first + static_cast<uint64_t>(j);
      const uint32_t bits = hand.bits[j], magnitude = bits & kMagnitudeMask;
      const uint32_t finite = magnitude < kInfinityBits ? magnitude : 0;
      const uint64_t q = kAdded ? added_quantise(finite, exponent) : quantise(finite, scale);
      const auto signed_q = bits != magnitude ? -static_cast<int64_t>(q) : static_cast<int64_t>(q);
      own.hash += hand.present[j] ? hash_term(index, bits) : 0;
      own.sum += signed_q;
      own.abs_sum += q;
      own.sum_sq += squared_term(q);
      add_to_sketch(copies, hand_codes.value[j], signed_q);
    }
  }
  Sums all;
  all.hash = block_sum(own.hash);
  all.abs_sum = block_sum(own.abs_sum);
  all.sum_sq = block_sum(own.sum_sq);
  all.sum = block_sum(own.sum);
  return all;
}

__device__ void store(const FingerprintPart& part, const Scan& found, const Sums& sums,
                      int64_t bucket, DeviceFingerprint& result) {
  if (threadIdx.x < kBuckets) result.buckets[threadIdx.x] = bucket;
  if (threadIdx.x != 0) return;
  result.n = part.n;
  result.hash = sums.hash;
  result.sum = sums.sum;
  result.abs_sum = sums.abs_sum;
  result.sum_sq = sums.sum_sq;
  result.nan = found.census.nan();
  result.inf = found.census.inf();
  result.nz_count = found.census.nz_count();
  result.low = found.range.low;
  result.high = found.range.high;
}

__device__ void merge(const FingerprintPart& part, const Sums& sums, int64_t bucket,
                      DeviceFingerprint& result) {
  if (threadIdx.x < kBuckets) atomic_add(&result.buckets[threadIdx.x], bucket);
  if (threadIdx.x != 0) return;
  atomic_add(&result.n, uint64_t{part.n});
  atomic_add(&result.hash, sums.hash);
  atomic_add(&result.sum, sums.sum);
  atomic_add(&result.abs_sum, sums.abs_sum);
  atomic_add(&result.sum_sq, sums.sum_sq);
}

__global__ __launch_bounds__(kPartThreads) void fingerprint_sums_kernel(
    const FingerprintCounts* counts, const FingerprintPart* parts, SketchCodes codes,
    DeviceFingerprint* results) {
  GRETA_SHARED(int64_t, copies, [kWaves][kBuckets][kCopies]);
  allow_next();
  const Work work(counts->n_parts, parts);
  wait_for_previous();
  for (uint32_t p = blockIdx.x; p < work.n_parts; p += gridDim.x) {
    const FingerprintPart part = work.part(parts, p);
    DeviceFingerprint& result = results[part.row];
    clear(copies);
    __syncthreads();
    const Scan found = part.whole != 0 ? scan(part) : Scan{{result.low, result.high}, {}};
    const int scale = device_scale(greatest_magnitude(found.range), part.lost);
    const bool look_up = uint64_t{part.first} + part.n <= codes.n;
    const uint16_t* const own = look_up ? codes.codes + part.first : nullptr;
    const Sums sums = scale > kMaxAddedScale ? add_up<false, false>(part, scale, own, copies)
                      : look_up              ? add_up<true, true>(part, scale, own, copies)
                                             : add_up<true, false>(part, scale, own, copies);
    const int64_t bucket = sum_copies(copies);
    if (part.whole != 0) {
      store(part, found, sums, bucket, result);
    } else {
      merge(part, sums, bucket, result);
    }
    __syncthreads();  // before copies are cleared again
  }
}

__global__ __launch_bounds__(kPartThreads) void copy_rows_kernel(const FingerprintCounts* counts,
                                                                 const FingerprintPart* parts,
                                                                 int64_t most, float* to) {
  allow_next();
  const Work work(counts->n_parts, parts);
  wait_for_previous();
  for (uint32_t p = blockIdx.x; p < work.n_parts; p += gridDim.x) {
    const FingerprintPart part = work.part(parts, p);
    if (part.first >= most) continue;
    const int64_t wanted = most - part.first;
    const uint32_t n = wanted < part.n ? static_cast<uint32_t>(wanted) : part.n;
    copy_values<kPartThreads>(part.data, n, to + part.copy + part.first);
  }
}

unsigned blocks_of(size_t n_parts) {
  return static_cast<unsigned>(std::min<size_t>(n_parts, kMaxBlocks));
}

}  // namespace

void FingerprintPlan::add(const float* row, int64_t n, uint64_t copy) {
  if (n < 0 || static_cast<uint64_t>(n) > kMaxFingerprintValues) {
    throw std::length_error("fingerprint: row of " + std::to_string(n) + " values, at most " +
                            std::to_string(kMaxFingerprintValues) + " are supported");
  }
  auto& parts = n > kFingerprintPart ? long_ : short_;
  const auto lost = static_cast<uint16_t>(lost_bits(static_cast<uint64_t>(n)));
  const uint16_t whole = n > kFingerprintPart ? 0 : 1;
  const int64_t most = n > kLongParts * kFingerprintPart ? kLongPart : kFingerprintPart;
  int64_t first = 0;
  do {  // an empty row has a part too: its result must be written
    const int64_t count = std::min(most, n - first);
    parts.push_back({row + first, static_cast<uint32_t>(count), static_cast<uint32_t>(first),
                     n_rows_, whole, lost, copy});
    first += count;
  } while (first < n);
  ++n_rows_;
  longest_ = std::max(longest_, n);
}

void FingerprintPlan::clear() {
  long_.clear();
  short_.clear();
  n_rows_ = 0;
  longest_ = 0;
}

FingerprintCounts FingerprintPlan::counts() const {
  return {n_rows_, static_cast<uint32_t>(n_long_parts()), static_cast<uint32_t>(n_parts())};
}

void FingerprintPlan::write(std::span<FingerprintPart> to) const {
  const auto rest = std::copy(long_.begin(), long_.end(), to.begin());
  std::copy(short_.begin(), short_.end(), rest);
}

FingerprintSums to_sums(const DeviceFingerprint& result) {
  const Range range{result.low, result.high};
  FingerprintSums sums(greatest_magnitude(range), result.n);
  sums.n = result.n;
  sums.hash = result.hash;
  sums.sum = result.sum;
  sums.abs_sum = result.abs_sum;
  sums.sum_sq = result.sum_sq;
  sums.nan = result.nan;
  sums.inf = result.inf;
  sums.nz_count = result.nz_count;
  if (range.high != 0) {
    sums.min_key = key_of_low(range.low);
    sums.max_key = key_of_high(range.high);
  }
  std::copy(std::begin(result.buckets), std::end(result.buckets), sums.buckets.begin());
  return sums;
}

void make_sketch_codes(uint16_t* codes, size_t n, Stream& stream) {
  launch({.name = "sketch_codes",
          .grid = static_cast<unsigned>(n / kPartThreads),
          .block = kPartThreads},
         stream, sketch_codes_kernel, codes);
}

void fingerprint_rows(const FingerprintCounts* counts, const FingerprintPart* parts,
                      const FingerprintLimits& limits, const SketchCodes& codes,
                      DeviceFingerprint* results, Stream& stream) {
  if (limits.n_long_parts > 0) {
    set_bytes(results, limits.n_rows, 0, stream);
    launch({.name = "fingerprint_scan",
            .grid = blocks_of(limits.n_long_parts),
            .block = kPartThreads,
            .early = true},
           stream, fingerprint_scan_kernel, counts, parts, results);
  }
  launch({.name = "fingerprint_sums",
          .grid = blocks_of(limits.n_parts),
          .block = kPartThreads,
          .early = true},
         stream, fingerprint_sums_kernel, counts, parts, codes, results);
}

void copy_rows(const FingerprintCounts* counts, const FingerprintPart* parts,
               const FingerprintLimits& limits, int64_t most, float* to, Stream& stream) {
  launch({.name = "copy_rows",
          .grid = blocks_of(limits.n_parts),
          .block = kPartThreads,
          .early = true},
         stream, copy_rows_kernel, counts, parts, most, to);
}

}  // namespace greta
