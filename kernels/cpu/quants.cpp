#include "kernels/cpu/quants.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/blocks.h"
#include "kernels/cpu/scale_fit.h"

namespace greta {
namespace {

constexpr size_t kSuperBlock = 256;

[[noreturn]] void fail(const std::string& what) { throw std::invalid_argument(what); }

void check_sizes(const char* function, WeightType type, size_t n_values, size_t n_bytes) {
  const WeightTypeInfo* info = find_weight_type(static_cast<uint32_t>(type));
  if (info == nullptr) {
    fail(std::string(function) + ": " + std::to_string(static_cast<uint32_t>(type)) +
         " is no supported weight type");
  }
  if (n_values % info->block_values == 0 &&
      n_values / info->block_values * info->block_bytes == n_bytes) {
    return;
  }
  fail(std::string(function) + ": " + std::to_string(n_values) + " values of " +
       std::string(info->name) + " do not match " + std::to_string(n_bytes) + " bytes");
}

// ---- Weights to f32.

void decode(const BlockQ4_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((block.qs[i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((block.qs[i] >> 4) - 8);
  }
}

void decode(const BlockQ8_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(block.qs[i]);
}

void decode(const BlockQ4K& block, float* out) {
  const float d = f16_to_f32(block.d), dmin = f16_to_f32(block.dmin);
  for (int s = 0; s < 8; ++s) {
    const ScaleMin pair = unpack_scale_min(block.scales, s);
    const float scale = d * pair.scale, min = dmin * pair.min;
    const uint8_t* qs = block.qs + s / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int q = (qs[i] >> (s % 2 * 4)) & 15;
      out[s * 32 + i] = scale * static_cast<float>(q) - min;
    }
  }
}

void decode(const BlockQ5K& block, float* out) {
  const float d = f16_to_f32(block.d), dmin = f16_to_f32(block.dmin);
  for (int s = 0; s < 8; ++s) {
    const ScaleMin pair = unpack_scale_min(block.scales, s);
    const float scale = d * pair.scale, min = dmin * pair.min;
    const uint8_t* qs = block.qs + s / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int q = ((qs[i] >> (s % 2 * 4)) & 15) | ((block.qh[i] >> s) & 1) << 4;
      out[s * 32 + i] = scale * static_cast<float>(q) - min;
    }
  }
}

void decode(const BlockQ6K& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* ql = block.ql + half * 64;
    const uint8_t* qh = block.qh + half * 32;
    const int8_t* scales = block.scales + half * 8;
    for (int i = 0; i < 128; ++i) {
      const int low = (ql[i % 64] >> (i / 64 * 4)) & 15;
      const int high = (qh[i % 32] >> (i / 32 * 2)) & 3;
      const float scale = d * static_cast<float>(scales[i / 16]);
      out[half * 128 + i] = scale * static_cast<float>((low | high << 4) - 32);
    }
  }
}

// Blocks may lie at any address: each is copied to an aligned one.
template <typename Block>
void decode_blocks(std::span<const std::byte> data, float* out, size_t block_values) {
  for (size_t at = 0; at < data.size(); at += sizeof(Block), out += block_values) {
    Block block;
    std::memcpy(&block, &data[at], sizeof block);
    decode(block, out);
  }
}

template <typename ToFloat>
void decode_halves(std::span<const std::byte> data, std::span<float> out, ToFloat to_float) {
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t half;
    std::memcpy(&half, &data[2 * i], sizeof half);
    out[i] = to_float(half);
  }
}

// ---- f32 to weights. encode() returns false when a scale exceeds f16.

bool is_finite_f16(uint16_t half) { return (half & 0x7c00) != 0x7c00; }

void copy_integers(const float* q, size_t n, int add, uint8_t* out) {
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<uint8_t>(static_cast<int>(q[i]) + add);
}

bool encode(const float* x, BlockQ4_0& block) {
  block.d = f32_to_f16(fit_scale(x, 32, 8));
  if (!is_finite_f16(block.d)) return false;
  std::array<float, 32> q;
  assign_integers(x, q.size(), {f16_to_f32(block.d), 0}, -8, 7, q.data());
  std::array<uint8_t, 32> levels;
  copy_integers(q.data(), q.size(), 8, levels.data());
  for (size_t i = 0; i < 16; ++i) {
    block.qs[i] = static_cast<uint8_t>(levels[i] | levels[i + 16] << 4);
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

// Scales, mins and integers of the 8 sub-blocks of a q4_k or q5_k block.
struct AffineBlock {
  uint16_t d = 0, dmin = 0;
  ScaleMin pairs[8] = {};
  std::array<uint8_t, kSuperBlock> levels;
};

// Six bits round the fitted scale and min: their neighbours may serve the values better.
void settle_pair(const float* x, int max_q, AffineFit fit, float d, float dmin, ScaleMin& pair,
                 uint8_t* levels) {
  const int scale = nearest_multiple(fit.scale, d, 0, 63);
  const int min = nearest_multiple(fit.min, dmin, 0, 63);
  std::array<float, 32> q, best_q{};
  float best_error = -1;
  for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, 63); ++s) {
    for (int m = std::max(min - 1, 0); m <= std::min(min + 1, 63); ++m) {
      const AffineFit at{d * static_cast<float>(s), dmin * static_cast<float>(m)};
      const float error = assign_integers(x, q.size(), at, 0, max_q, q.data());
      if (best_error >= 0 && error >= best_error) continue;
      best_error = error;
      best_q = q;
      pair = {static_cast<uint8_t>(s), static_cast<uint8_t>(m)};
    }
  }
  copy_integers(best_q.data(), best_q.size(), 0, levels);
}

bool fit_affine_block(const float* x, int max_q, AffineBlock& block) {
  std::array<AffineFit, 8> fits;
  float greatest_scale = 0, greatest_min = 0;
  for (size_t s = 0; s < fits.size(); ++s) {
    fits[s] = fit_affine(x + s * 32, 32, max_q);
    greatest_scale = std::max(greatest_scale, fits[s].scale);
    greatest_min = std::max(greatest_min, fits[s].min);
  }
  block.d = f32_to_f16(greatest_scale / 63);
  block.dmin = f32_to_f16(greatest_min / 63);
  if (!is_finite_f16(block.d) || !is_finite_f16(block.dmin)) return false;
  const float d = f16_to_f32(block.d), dmin = f16_to_f32(block.dmin);
  for (size_t s = 0; s < fits.size(); ++s) {
    settle_pair(x + s * 32, max_q, fits[s], d, dmin, block.pairs[s], &block.levels[s * 32]);
  }
  return true;
}

template <typename Block>
void pack_affine(const AffineBlock& from, Block& block) {
  block.d = from.d;
  block.dmin = from.dmin;
  pack_scale_mins(from.pairs, block.scales);
  for (size_t i = 0; i < sizeof block.qs; ++i) {
    const size_t low = i / 32 * 64 + i % 32;
    block.qs[i] = static_cast<uint8_t>((from.levels[low] & 15) | (from.levels[low + 32] & 15) << 4);
  }
}

bool encode(const float* x, BlockQ4K& block) {
  AffineBlock fitted;
  if (!fit_affine_block(x, 15, fitted)) return false;
  pack_affine(fitted, block);
  return true;
}

bool encode(const float* x, BlockQ5K& block) {
  AffineBlock fitted;
  if (!fit_affine_block(x, 31, fitted)) return false;
  pack_affine(fitted, block);
  for (size_t i = 0; i < sizeof block.qh; ++i) {
    unsigned bits = 0;
    for (size_t s = 0; s < 8; ++s) bits |= (fitted.levels[s * 32 + i] >> 4u) << s;
    block.qh[i] = static_cast<uint8_t>(bits);
  }
  return true;
}

// As settle_pair, for a signed scale of eight bits.
int8_t settle_scale(const float* x, float fitted, float d, uint8_t* levels) {
  const int nearest = nearest_multiple(fitted, d, -128, 127);
  std::array<float, 16> q, best_q{};
  float best_error = -1;
  int best = 0;
  for (int scale = std::max(nearest - 1, -128); scale <= std::min(nearest + 1, 127); ++scale) {
    const AffineFit at{d * static_cast<float>(scale), 0};
    const float error = assign_integers(x, q.size(), at, -32, 31, q.data());
    if (best_error >= 0 && error >= best_error) continue;
    best_error = error;
    best_q = q;
    best = scale;
  }
  copy_integers(best_q.data(), best_q.size(), 32, levels);
  return static_cast<int8_t>(best);
}

void pack_q6(const std::array<uint8_t, kSuperBlock>& levels, BlockQ6K& block) {
  for (size_t i = 0; i < sizeof block.ql; ++i) {
    const size_t low = i / 64 * 128 + i % 64;
    block.ql[i] = static_cast<uint8_t>((levels[low] & 15) | (levels[low + 64] & 15) << 4);
  }
  for (size_t i = 0; i < sizeof block.qh; ++i) {
    const size_t first = i / 32 * 128 + i % 32;
    unsigned bits = 0;
    for (size_t g = 0; g < 4; ++g) bits |= (levels[first + 32 * g] >> 4u) << (2 * g);
    block.qh[i] = static_cast<uint8_t>(bits);
  }
}

bool encode(const float* x, BlockQ6K& block) {
  std::array<float, 16> fitted;
  float extreme = 0;
  for (size_t s = 0; s < fitted.size(); ++s) {
    fitted[s] = fit_scale(x + s * 16, 16, 32);
    if (std::fabs(fitted[s]) > std::fabs(extreme)) extreme = fitted[s];
  }
  block.d = f32_to_f16(extreme / -128);  // of the signs, minus has the one more
  if (!is_finite_f16(block.d)) return false;
  std::array<uint8_t, kSuperBlock> levels;
  for (size_t s = 0; s < fitted.size(); ++s) {
    block.scales[s] = settle_scale(x + s * 16, fitted[s], f16_to_f32(block.d), &levels[s * 16]);
  }
  pack_q6(levels, block);
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

void dequantise(WeightType type, std::span<const std::byte> data, std::span<float> out) {
  check_sizes("dequantise", type, out.size(), data.size());
  switch (type) {
    case WeightType::kF32:
      if (!out.empty()) std::memcpy(out.data(), data.data(), data.size());
      return;
    case WeightType::kF16:
      return decode_halves(data, out, f16_to_f32);
    case WeightType::kBF16:
      return decode_halves(data, out, bf16_to_f32);
    case WeightType::kQ4_0:
      return decode_blocks<BlockQ4_0>(data, out.data(), 32);
    case WeightType::kQ8_0:
      return decode_blocks<BlockQ8_0>(data, out.data(), 32);
    case WeightType::kQ4_K:
      return decode_blocks<BlockQ4K>(data, out.data(), kSuperBlock);
    case WeightType::kQ5_K:
      return decode_blocks<BlockQ5K>(data, out.data(), kSuperBlock);
    case WeightType::kQ6_K:
      return decode_blocks<BlockQ6K>(data, out.data(), kSuperBlock);
  }
}

void quantise(WeightType type, std::span<const float> values, std::span<std::byte> out) {
  check_sizes("quantise", type, values.size(), out.size());
  switch (type) {
    case WeightType::kF32:
      check_values(type, values, std::numeric_limits<float>::max());
      if (!out.empty()) std::memcpy(out.data(), values.data(), out.size());
      return;
    case WeightType::kF16:
      return encode_halves(type, values, out.data(), 0x7c00, f32_to_f16);
    case WeightType::kBF16:
      return encode_halves(type, values, out.data(), 0x7f80, f32_to_bf16);
    case WeightType::kQ4_0:
      return encode_blocks<BlockQ4_0>(type, values, out.data());
    case WeightType::kQ8_0:
      return encode_blocks<BlockQ8_0>(type, values, out.data());
    case WeightType::kQ4_K:
      return encode_blocks<BlockQ4K>(type, values, out.data());
    case WeightType::kQ5_K:
      return encode_blocks<BlockQ5K>(type, values, out.data());
    case WeightType::kQ6_K:
      return encode_blocks<BlockQ6K>(type, values, out.data());
  }
}

}  // namespace greta
