#include "db/stored_sketch.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/fingerprint/fingerprint.h"

namespace greta {
namespace {

constexpr double kMostBucket = (1 << 28) - 1;  // so that sums of 32 products are exact in 64 bits
constexpr int kLeastExponent = -1074;          // of a double

double scale_of(double greatest) {
  if (!(greatest > 0)) return 1;
  int exponent = 0;
  std::frexp(greatest, &exponent);
  const double scale = std::ldexp(1.0, std::max(exponent - 28, kLeastExponent));
  return std::nearbyint(greatest / scale) > kMostBucket ? 2 * scale : scale;
}

}  // namespace

StoredSketch stored_form(const RowSketch& sketch) {
  double greatest = 0;
  for (const double value : sketch.bucket) greatest = std::max(greatest, std::fabs(value));
  // SQLite stores no negative zero.
  StoredSketch stored{sketch.n, sketch.derived, sketch.sum_sq + 0.0, scale_of(greatest), {}};
  for (size_t i = 0; i < stored.bucket.size(); ++i) {
    const double rounded = std::nearbyint(sketch.bucket[i] / stored.scale);
    stored.bucket[i] = static_cast<int32_t>(std::clamp(rounded, -kMostBucket, kMostBucket));
  }
  return stored;
}

RowSketch row_form(const StoredSketch& sketch) {
  RowSketch row{sketch.n, sketch.derived, sketch.sum_sq, {}};
  for (size_t i = 0; i < row.bucket.size(); ++i) row.bucket[i] = sketch.bucket[i] * sketch.scale;
  return row;
}

SketchDigest digest_of(const StoredSketch& sketch) {
  SketchDigest digest{1, 2};
  const auto add = [&digest](uint64_t word) {
    digest[0] = mix64(digest[0] ^ word);
    digest[1] = mix64(digest[1] + word);
  };
  add(static_cast<uint64_t>(sketch.n) * 2 + sketch.derived);
  add(std::bit_cast<uint64_t>(sketch.sum_sq));
  add(std::bit_cast<uint64_t>(sketch.scale));
  for (size_t i = 0; i < sketch.bucket.size(); i += 2) {
    add(static_cast<uint64_t>(static_cast<uint32_t>(sketch.bucket[i])) << 32 |
        static_cast<uint32_t>(sketch.bucket[i + 1]));
  }
  digest[0] |= digest == SketchDigest{};  // all 0 is none
  return digest;
}

int64_t& SketchIds::of(int64_t run_id, const StoredSketch& sketch) {
  SketchDigest key = digest_of(sketch);
  key[0] += mix64(static_cast<uint64_t>(run_id));
  if (slots_.empty()) slots_.resize(kMost);
  Slot* const first = &slots_[key[0] % (kMost / kWays) * kWays];
  Slot* const last = first + kWays - 1;  // the one that was not met for longest
  Slot* const found = std::find_if(first, last, [&](const Slot& slot) { return slot.key == key; });
  std::rotate(first, found, found + 1);
  if (first->key != key) *first = {key, 0};
  return first->value;
}

}  // namespace greta
