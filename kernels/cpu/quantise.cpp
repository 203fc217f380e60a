#include "kernels/cpu/quantise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/blocks.h"
#include "kernels/cpu/scale_fit.h"

namespace greta {
namespace {

constexpr size_t kSuperBlock = 256;

[[noreturn]] void fail(const std::string& what) { throw std::invalid_argument(what); }

// encode() returns false when a scale exceeds f16.

bool is_finite_f16(uint16_t half) { return (half & 0x7c00) != 0x7c00; }

void copy_integers(const float* q, size_t n, int add, uint8_t* out) {
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<uint8_t>(static_cast<int>(q[i]) + add);
}

// Blocks of 32 whose nibbles lie as in q4_0: d, m where there is one, and the 32 integers.
template <class Block>
bool fit_block(const float* x, Block& block, std::array<uint8_t, 32>& levels) {
  constexpr int kZero = kHasFifthBits<Block> ? 16 : 8;
  constexpr int kMaxQ = 2 * kZero - 1;
  std::array<float, 32> q;
  if constexpr (std::is_same_v<Block, BlockIQ4NL>) {
    block.d = f32_to_f16(fit_levels(x, q.size(), kIq4Levels));
    assign_levels(x, q.size(), f16_to_f32(block.d), kIq4Levels, levels.data());
  } else if constexpr (kHasMin<Block>) {
    const AffineFit fit = fit_affine(x, q.size(), kMaxQ, Mins::kOfAnySign);
    block.d = f32_to_f16(fit.scale);
    block.m = f32_to_f16(-fit.min);
    if (!is_finite_f16(block.m)) return false;
    assign_integers(x, q.size(), {f16_to_f32(block.d), -f16_to_f32(block.m)}, 0, kMaxQ, q.data());
    copy_integers(q.data(), q.size(), 0, levels.data());
  } else {
    block.d = f32_to_f16(fit_scale(x, q.size(), kZero));
    assign_integers(x, q.size(), {f16_to_f32(block.d), 0}, -kZero, kZero - 1, q.data());
    copy_integers(q.data(), q.size(), kZero, levels.data());
  }
  return is_finite_f16(block.d);
}

template <class Block>
bool encode(const float* x, Block& block) {
  std::array<uint8_t, 32> levels;
  if (!fit_block(x, block, levels)) return false;
  for (size_t i = 0; i < 16; ++i) {
    block.qs[i] = static_cast<uint8_t>((levels[i] & 15) | (levels[i + 16] & 15) << 4);
  }
  if constexpr (kHasFifthBits<Block>) {
    for (size_t byte = 0; byte < sizeof block.qh; ++byte) {
      unsigned bits = 0;
      for (size_t i = 0; i < 8; ++i) bits |= (levels[byte * 8 + i] >> 4u) << i;
      block.qh[byte] = static_cast<uint8_t>(bits);
    }
  }
  return true;
}

bool encode(const float* x, BlockQ8_0& block) {
  float greatest = 0;
  for (size_t i = 0; i < 32; ++i) greatest = std::max(greatest, std::fabs(x[i]));
  block.d = f32_to_f16(greatest / 127);
  if (!is_finite_f16(block.d)) return false;
  std::array<float, 32> q;
  assign_integers(x, q.size(), {f16_to_f32(block.d), 0}, -127, 127, q.data());
  for (size_t i = 0; i < 32; ++i) block.qs[i] = static_cast<int8_t>(q[i]);
  return true;
}

// The multiple of unit nearest to value, as a count within [lowest, highest]; 0 for unit 0.
int nearest_multiple(float value, float unit, int lowest, int highest) {
  if (unit == 0) return 0;
  const float count =
      std::clamp(value / unit, static_cast<float>(lowest), static_cast<float>(highest));
  return static_cast<int>(std::lrint(count));
}

// Scales, mins and integers of the sub-blocks of a k-type with mins. Scales and mins are at most
// kMostScale, integers at most kMaxQ.
template <size_t kSubBlocks, int kMostScale, int kMaxQ>
struct AffineBlock {
  static constexpr size_t kValues = kSuperBlock / kSubBlocks;  // of a sub-block

  uint16_t d = 0, dmin = 0;
  ScaleMin pairs[kSubBlocks] = {};
  std::array<uint8_t, kSuperBlock> levels;

  bool fit(const float* x);

 private:
  void settle_pair(const float* x, AffineFit fit, size_t sub_block);
};

// A few bits round the fitted scale and min: their neighbours may serve the values better.
template <size_t kSubBlocks, int kMostScale, int kMaxQ>
void AffineBlock<kSubBlocks, kMostScale, kMaxQ>::settle_pair(const float* x, AffineFit fit,
                                                             size_t sub_block) {
  const float unit = f16_to_f32(d), min_unit = f16_to_f32(dmin);
  const int scale = nearest_multiple(fit.scale, unit, 0, kMostScale);
  const int min = nearest_multiple(fit.min, min_unit, 0, kMostScale);
  std::array<float, kValues> q, best_q{};
  float best_error = -1;
  for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, kMostScale); ++s) {
    for (int m = std::max(min - 1, 0); m <= std::min(min + 1, kMostScale); ++m) {
      const AffineFit at{unit * static_cast<float>(s), min_unit * static_cast<float>(m)};
      const float error = assign_integers(x, q.size(), at, 0, kMaxQ, q.data());
      if (best_error >= 0 && error >= best_error) continue;
      best_error = error;
      best_q = q;
      pairs[sub_block] = {static_cast<uint8_t>(s), static_cast<uint8_t>(m)};
    }
  }
  copy_integers(best_q.data(), best_q.size(), 0, &levels[sub_block * kValues]);
}

template <size_t kSubBlocks, int kMostScale, int kMaxQ>
bool AffineBlock<kSubBlocks, kMostScale, kMaxQ>::fit(const float* x) {
  std::array<AffineFit, kSubBlocks> fits;
  float greatest_scale = 0, greatest_min = 0;
  for (size_t s = 0; s < fits.size(); ++s) {
    fits[s] = fit_affine(x + s * kValues, kValues, kMaxQ, Mins::kNotNegative);
    greatest_scale = std::max(greatest_scale, fits[s].scale);
    greatest_min = std::max(greatest_min, fits[s].min);
  }
  d = f32_to_f16(greatest_scale / kMostScale);
  dmin = f32_to_f16(greatest_min / kMostScale);
  if (!is_finite_f16(d) || !is_finite_f16(dmin)) return false;
  for (size_t s = 0; s < fits.size(); ++s) settle_pair(x + s * kValues, fits[s], s);
  return true;
}

// Bits `shift` and `shift` + 1 of a block's integers, four to a byte.
void pack_pairs(const std::array<uint8_t, kSuperBlock>& levels, int shift, uint8_t (&to)[64]) {
  for (size_t i = 0; i < sizeof to; ++i) {
    const size_t first = i / 32 * 128 + i % 32;
    unsigned bits = 0;
    for (size_t g = 0; g < 4; ++g) bits |= (levels[first + 32 * g] >> shift & 3u) << (2 * g);
    to[i] = static_cast<uint8_t>(bits);
  }
}

// Bit `shift` of a block's integers: of those from 32s on bit s of each byte.
void pack_bits(const std::array<uint8_t, kSuperBlock>& levels, int shift, uint8_t (&to)[32]) {
  for (size_t i = 0; i < sizeof to; ++i) {
    unsigned bits = 0;
    for (size_t s = 0; s < 8; ++s) bits |= (levels[s * 32 + i] >> shift & 1u) << s;
    to[i] = static_cast<uint8_t>(bits);
  }
}

bool encode(const float* x, BlockQ2K& block) {
  AffineBlock<16, 15, 3> fitted;
  if (!fitted.fit(x)) return false;
  block.d = fitted.d;
  block.dmin = fitted.dmin;
  for (size_t s = 0; s < 16; ++s) {
    block.scales[s] = static_cast<uint8_t>(fitted.pairs[s].scale | fitted.pairs[s].min << 4);
  }
  pack_pairs(fitted.levels, 0, block.qs);
  return true;
}

// q4_k, q5_k.
template <class Block>
requires kHasScaleMins<Block>
bool encode(const float* x, Block& block) {
  AffineBlock<8, 63, kHasFifthBits<Block> ? 31 : 15> fitted;
  if (!fitted.fit(x)) return false;
  block.d = fitted.d;
  block.dmin = fitted.dmin;
  pack_scale_mins(fitted.pairs, block.scales);
  for (size_t i = 0; i < sizeof block.qs; ++i) {
    const size_t low = i / 32 * 64 + i % 32;
    block.qs[i] =
        static_cast<uint8_t>((fitted.levels[low] & 15) | (fitted.levels[low + 32] & 15) << 4);
  }
  if constexpr (kHasFifthBits<Block>) pack_bits(fitted.levels, 4, block.qh);
  return true;
}

// Scales and integers of the 16 sub-blocks of a k-type without mins. Scales are −kMostScale ..
// kMostScale − 1, integers the same of kZero, above which they are stored.
template <int kMostScale, int kZero>
struct ScaledBlock {
  static constexpr size_t kSubBlocks = 16, kValues = 16;

  uint16_t d = 0;
  std::array<int, kSubBlocks> scales;
  std::array<uint8_t, kSuperBlock> levels;

  bool fit(const float* x);

 private:
  void settle_scale(const float* x, float fitted, size_t sub_block);
};

// As settle_pair.
template <int kMostScale, int kZero>
void ScaledBlock<kMostScale, kZero>::settle_scale(const float* x, float fitted, size_t sub_block) {
  const float unit = f16_to_f32(d);
  const int nearest = nearest_multiple(fitted, unit, -kMostScale, kMostScale - 1);
  std::array<float, kValues> q, best_q{};
  float best_error = -1;
  for (int scale = std::max(nearest - 1, -kMostScale);
       scale <= std::min(nearest + 1, kMostScale - 1); ++scale) {
    const AffineFit at{unit * static_cast<float>(scale), 0};
    const float error = assign_integers(x, q.size(), at, -kZero, kZero - 1, q.data());
    if (best_error >= 0 && error >= best_error) continue;
    best_error = error;
    best_q = q;
    scales[sub_block] = scale;
  }
  copy_integers(best_q.data(), best_q.size(), kZero, &levels[sub_block * kValues]);
}

template <int kMostScale, int kZero>
bool ScaledBlock<kMostScale, kZero>::fit(const float* x) {
  std::array<float, kSubBlocks> fitted;
  float extreme = 0;
  for (size_t s = 0; s < fitted.size(); ++s) {
    fitted[s] = fit_scale(x + s * kValues, kValues, kZero);
    if (std::fabs(fitted[s]) > std::fabs(extreme)) extreme = fitted[s];
  }
  d = f32_to_f16(extreme / -kMostScale);  // of the signs, minus has the one more
  if (!is_finite_f16(d)) return false;
  for (size_t s = 0; s < fitted.size(); ++s) settle_scale(x + s * kValues, fitted[s], s);
  return true;
}

bool encode(const float* x, BlockQ3K& block) {
  ScaledBlock<32, 4> fitted;
  if (!fitted.fit(x)) return false;
  block.d = fitted.d;
  uint8_t scales[16];
  for (size_t s = 0; s < 16; ++s) scales[s] = static_cast<uint8_t>(fitted.scales[s] + 32);
  pack_scales(scales, block.scales);
  pack_pairs(fitted.levels, 0, block.qs);
  pack_bits(fitted.levels, 2, block.hmask);
  return true;
}

bool encode(const float* x, BlockQ6K& block) {
  ScaledBlock<128, 32> fitted;
  if (!fitted.fit(x)) return false;
  block.d = fitted.d;
  for (size_t s = 0; s < 16; ++s) block.scales[s] = static_cast<int8_t>(fitted.scales[s]);
  for (size_t i = 0; i < sizeof block.ql; ++i) {
    const size_t low = i / 64 * 128 + i % 64;
    block.ql[i] =
        static_cast<uint8_t>((fitted.levels[low] & 15) | (fitted.levels[low + 64] & 15) << 4);
  }
  pack_pairs(fitted.levels, 4, block.qh);
  return true;
}

[[noreturn]] void fail_value(WeightType type, float value, size_t index) {
  fail("quantise: value " + std::to_string(value) + " at index " + std::to_string(index) +
       (std::isfinite(value) ? " is too large for " : " cannot be stored as ") +
       std::string(weight_type_info(type).name));
}

void check_values(WeightType type, std::span<const float> values, float greatest) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!(std::fabs(values[i]) <= greatest)) fail_value(type, values[i], i);
  }
}

template <typename Block>
void encode_blocks(WeightType type, std::span<const float> values, std::byte* out) {
  const size_t block_values = weight_type_info(type).block_values;
  check_values(type, values, kMaxFitMagnitude);
  for (size_t at = 0; at < values.size(); at += block_values, out += sizeof(Block)) {
    Block block;
    if (!encode(&values[at], block)) {
      fail("quantise: the values from index " + std::to_string(at) + " on are too large for " +
           std::string(weight_type_info(type).name));
    }
    std::memcpy(out, &block, sizeof block);
  }
}

template <typename ToHalf>
void encode_halves(WeightType type, std::span<const float> values, std::byte* out,
                   uint16_t infinity, ToHalf to_half) {
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = to_half(values[i]);
    if ((half & 0x7fff) >= infinity) fail_value(type, values[i], i);
    std::memcpy(out + 2 * i, &half, sizeof half);
  }
}

}  // namespace

void quantise(WeightType type, std::span<const float> values, std::span<std::byte> out) {
  check_stored_size("quantise", type, values.size(), out.size());
  with_weight_type(type, [&](auto constant) {
    constexpr WeightType kType = decltype(constant)::value;
    if constexpr (kType == WeightType::kF32) {
      check_values(type, values, std::numeric_limits<float>::max());
      if (!out.empty()) std::memcpy(out.data(), values.data(), out.size());
    } else if constexpr (kType == WeightType::kF16) {
      encode_halves(type, values, out.data(), 0x7c00, f32_to_f16);
    } else if constexpr (kType == WeightType::kBF16) {
      encode_halves(type, values, out.data(), 0x7f80, f32_to_bf16);
    } else {
      encode_blocks<BlockOf<kType>>(type, values, out.data());
    }
  });
}

}  // namespace greta
