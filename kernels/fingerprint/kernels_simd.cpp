#include "kernels/fingerprint/kernels.h"
#include "kernels/simd/simd.h"

// The integers of a fingerprint, several values at a time.
//
// |q| is made by one addition in double: the exponent field of x·2^scale is set by integers, 2^52
// is added, and the sum's last bit is then worth 1, so the addition rounds half to even (the
// rounding mode is the usual one, as finish() assumes too). A denormal x, whose field says 0, comes
// out wrong but below one half, as its true q is.

namespace greta::GRETA_ISA {
namespace {

constexpr uint32_t kMagnitudeBits = 0x7fffffff;
constexpr uint32_t kInfinity = 0x7f800000;
constexpr uint32_t kOneNan = 0x7fc00000;

// ---- Sums. The formulas are templates on U: a vector of 64-bit lanes, or one 64-bit integer.

#if defined(__AVX2__)
#define GRETA_WIDE_MULTIPLY  // else vectors multiply 64 bits more slowly than integer units do
constexpr int kWide = kLanes / 2;
typedef uint64_t U64 __attribute__((vector_size(8 * kWide)));
typedef double F64 __attribute__((vector_size(8 * kWide)));
typedef uint32_t HalfU32 __attribute__((vector_size(4 * kWide)));

GRETA_INLINE U64 load_bits(const float* values) {
#if defined(__AVX512F__)
  return reinterpret_cast<U64>(_mm512_maskz_cvtepu32_epi64(
      0xff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values))));
#else
  return __builtin_convertvector(load<HalfU32>(values), U64);
#endif
}

// r² of lanes below 2^32.
GRETA_INLINE U64 square(U64 r) {
#if defined(__AVX512F__)
  const auto v = reinterpret_cast<__m512i>(r);
  return reinterpret_cast<U64>(_mm512_maskz_mul_epu32(0xff, v, v));
#else
  const auto v = reinterpret_cast<__m256i>(r);
  return reinterpret_cast<U64>(_mm256_mul_epu32(v, v));
#endif
}
// q or −q, by the sign of the f32 in the lower half of bits.
GRETA_INLINE U64 with_sign(U64 q, U64 bits) { return (bits & 0x80000000u) != 0 ? -q : q; }

GRETA_INLINE F64 as_double(U64 v) { return reinterpret_cast<F64>(v); }
GRETA_INLINE U64 as_bits(F64 v) { return reinterpret_cast<U64>(v); }
#endif

GRETA_INLINE uint64_t square(uint64_t r) { return r * r; }
// Without a branch, which nothing could predict.
GRETA_INLINE uint64_t with_sign(uint64_t q, uint64_t bits) {
  const uint64_t minus = -(bits >> 31);
  return (q ^ minus) - minus;
}
GRETA_INLINE double as_double(uint64_t v) { return __builtin_bit_cast(double, v); }
GRETA_INLINE uint64_t as_bits(double v) { return __builtin_bit_cast(uint64_t, v); }

template <class U>
GRETA_INLINE U splat_u64(uint64_t value) {
  return value - U{};
}

template <class U>
GRETA_INLINE U mix(U z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

template <class U>
struct Sums {
  U hash = {}, abs_sum = {}, sum_sq = {};
};

// Adds values of the given bits at indices (index_high >> 32); returns their q, signed.
template <bool kFinite, class U>
GRETA_INLINE U add_values(U bits, U index_high, U exponent, Sums<U>& sums) {
  U magnitude = bits & kMagnitudeBits;
  if constexpr (!kFinite) {
    bits = magnitude > kInfinity ? splat_u64<U>(kOneNan) : bits;
    magnitude = magnitude >= kInfinity ? U{} : magnitude;
  }
  sums.hash += mix(index_high | bits);
  const U q = as_bits(as_double((magnitude << 29) + exponent) + 0x1p52) - 0x4330000000000000u;
  sums.abs_sum += q;
  sums.sum_sq += square((q + (1u << 19)) >> 20);
  return with_sign(q, bits);
}

// f32 has 896 less in the exponent field than a double of the same value.
GRETA_INLINE uint64_t exponent_of(int scale) { return static_cast<uint64_t>(896 + scale) << 52; }

template <class U>
GRETA_INLINE void add_lanes(const Sums<U>& sums, int lanes, FingerprintPart& part) {
  for (int lane = 0; lane < lanes; ++lane) {
    part.hash += sums.hash[lane];
    part.abs_sum += sums.abs_sum[lane];
    part.sum_sq += sums.sum_sq[lane];
  }
}

template <bool kFinite>
GRETA_INLINE void add_one_by_one(const float* values, int64_t n, uint64_t first,
                                 const uint16_t* codes, int scale, FingerprintPart& part) {
  const uint64_t exponent = exponent_of(scale);
  Sums<uint64_t> sums;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t bits = __builtin_bit_cast(uint32_t, values[i]);
    const uint64_t index = first + static_cast<uint64_t>(i);
    part.cells[codes[i]] += add_values<kFinite>(bits, index << 32, exponent, sums);
  }
  part.hash += sums.hash;
  part.abs_sum += sums.abs_sum;
  part.sum_sq += sums.sum_sq;
}

// Returns how many values, from the first on, it added.
template <bool kFinite>
GRETA_INLINE int64_t add_whole_blocks(const float* values, int64_t n, uint64_t first,
                                      const uint16_t* codes, int scale, FingerprintPart& part) {
#if defined(GRETA_WIDE_MULTIPLY)
  constexpr int kBlock = 2 * kWide;
  const U64 exponent = splat_u64<U64>(exponent_of(scale));
  U64 index_high = splat_u64<U64>(first << 32);
  for (int lane = 0; lane < kWide; ++lane) index_high[lane] += static_cast<uint64_t>(lane) << 32;
  Sums<U64> sums;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    alignas(64) uint64_t q[kBlock];
    for (int part_at = 0; part_at < kBlock; part_at += kWide) {
      store(q + part_at,
            add_values<kFinite>(load_bits(values + i + part_at), index_high, exponent, sums));
      index_high += uint64_t{kWide} << 32;
    }
    // Makes q real memory: compilers would rather take the lanes out of the registers one by one,
    // which costs the vector units more than the sums do.
    asm volatile("" : "+m"(q));
    for (int k = 0; k < kBlock; ++k) part.cells[codes[i + k]] += q[k];
  }
  add_lanes(sums, kWide, part);
  return i;
#else
  (void)values, (void)n, (void)first, (void)codes, (void)scale, (void)part;
  return 0;
#endif
}

template <bool kFinite>
void add_part(const float* values, int64_t n, uint64_t first, const uint16_t* codes, int scale,
              FingerprintPart& part) {
  const int64_t done = add_whole_blocks<kFinite>(values, n, first, codes, scale, part);
  add_one_by_one<kFinite>(values + done, n - done, first + static_cast<uint64_t>(done),
                          codes + done, scale, part);
}

void accumulate(const float* values, int64_t n, uint64_t first, const uint16_t* codes, int scale,
                bool finite, FingerprintPart* part) {
  if (finite) return add_part<true>(values, n, first, codes, scale, *part);
  add_part<false>(values, n, first, codes, scale, *part);
}

// ---- Scan.

struct Extremes {
  I32 min_key, max_key;
  U32 zeros, nan, inf;
};

// kFinite takes every value as if it were finite: non-finite keys lie outside the finite ones.
template <bool kFinite>
GRETA_INLINE void scan_values(U32 bits, Extremes& e) {
  const U32 magnitude = bits & kMagnitudeBits;
  const I32 sign = reinterpret_cast<I32>(bits) >> 31;
  const I32 key = reinterpret_cast<I32>(bits) ^ (sign & static_cast<int32_t>(kMagnitudeBits));
  I32 low = key, high = key;
  if constexpr (!kFinite) {
    const I32 not_finite = magnitude >= kInfinity;
    low = not_finite ? splat_i32(INT32_MAX) : key;
    high = not_finite ? splat_i32(INT32_MIN) : key;
    e.nan -= reinterpret_cast<U32>(magnitude > kInfinity);
    e.inf -= reinterpret_cast<U32>(magnitude == kInfinity);
  }
  e.min_key = low < e.min_key ? low : e.min_key;
  e.max_key = high > e.max_key ? high : e.max_key;
  e.zeros -= reinterpret_cast<U32>(magnitude == 0);
}

template <bool kFinite>
void scan_all(const float* values, int64_t n, FingerprintScan& scan) {
  Extremes e = {splat_i32(scan.min_key), splat_i32(scan.max_key), {}, {}, {}};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) scan_values<kFinite>(load<U32>(values + i), e);
  if (i < n) {
    // The last value again in the lanes beyond: it changes no extreme, and counts are repaired.
    alignas(64) float tail[kLanes];
    for (int k = 0; k < kLanes; ++k) tail[k] = values[i + k < n ? i + k : n - 1];
    const Extremes before = e;
    scan_values<kFinite>(load<U32>(tail), e);
    for (int k = static_cast<int>(n - i); k < kLanes; ++k) {
      e.zeros[k] = before.zeros[k];
      e.nan[k] = before.nan[k];
      e.inf[k] = before.inf[k];
    }
  }
  for (int k = 0; k < kLanes; ++k) {
    scan.min_key = e.min_key[k] < scan.min_key ? e.min_key[k] : scan.min_key;
    scan.max_key = e.max_key[k] > scan.max_key ? e.max_key[k] : scan.max_key;
    scan.zeros += e.zeros[k];
    scan.nan += e.nan[k];
    scan.inf += e.inf[k];
  }
}

void scan(const float* values, int64_t n, FingerprintScan* result) {
  constexpr auto kInfinityKey = static_cast<int32_t>(kInfinity);
  FingerprintScan fast = *result;
  scan_all<true>(values, n, fast);
  if (fast.max_key < kInfinityKey && fast.min_key > ~kInfinityKey) {
    *result = fast;
  } else {
    scan_all<false>(values, n, *result);
  }
}

// Cells are [minus of map 1][bucket of map 1][minus of map 0][bucket of map 0].
int64_t fold_cells(const uint64_t* cells, int64_t* buckets) {
  uint64_t map0[32] = {};
  uint64_t map1[32] = {};
  for (int code1 = 0; code1 < 32; ++code1) {
    for (int code0 = 0; code0 < 32; ++code0) {
      map0[code0] += cells[32 * code1 + code0];
      map1[code1] += cells[32 * code1 + code0];
    }
  }
  uint64_t sum = 0;
  for (int bucket = 0; bucket < 16; ++bucket) {
    buckets[bucket] = static_cast<int64_t>(map0[bucket] - map0[bucket + 16]);
    buckets[bucket + 16] = static_cast<int64_t>(map1[bucket] - map1[bucket + 16]);
    sum += map0[bucket] + map0[bucket + 16];
  }
  return static_cast<int64_t>(sum);
}

template <F32 (*load_half)(const void*)>
GRETA_INLINE void widen_all(const void* values, int64_t n, float* to) {
  const auto* from = static_cast<const char*>(values);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(to + i, load_half(from + 2 * i));
  if (i == n) return;
  uint16_t tail[kLanes] = {};
  __builtin_memcpy(tail, from + 2 * i, static_cast<size_t>(2 * (n - i)));
  store_f32_part(to + i, load_half(tail), n - i);
}

void widen_f16(const void* values, int64_t n, float* to) { widen_all<load_f16>(values, n, to); }
void widen_bf16(const void* values, int64_t n, float* to) { widen_all<load_bf16>(values, n, to); }

}  // namespace

const FingerprintKernels fingerprint_kernels = {scan, accumulate, fold_cells, widen_f16,
                                                widen_bf16};

}  // namespace greta::GRETA_ISA
