#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/blocks.h"
#include "kernels/cpu/quantise.h"

namespace greta {
namespace {

// Blocks of 32 whose nibbles lie as in q4_0.
template <class Block>
void decode(const Block& block, float* out) {
  constexpr int kZero = kHasMin<Block> ? 0 : kHasFifthBits<Block> ? 16 : 8;
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < 32; ++i) {
    int q = (block.qs[i % 16] >> (i / 16 * 4)) & 15;
    if constexpr (kHasFifthBits<Block>) q |= ((block.qh[i / 8] >> i % 8) & 1) << 4;
    q = std::is_same_v<Block, BlockIQ4NL> ? kIq4Levels[q] : q - kZero;
    out[i] = d * static_cast<float>(q);
    if constexpr (kHasMin<Block>) out[i] += f16_to_f32(block.m);
  }
}

void decode(const BlockQ8_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(block.qs[i]);
}

// Value i of a block of two-bit pairs, four to a byte.
int pair_at(const uint8_t* qs, int i) {
  return (qs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
}

void decode(const BlockQ2K& block, float* out) {
  const float d = f16_to_f32(block.d), dmin = f16_to_f32(block.dmin);
  for (int i = 0; i < 256; ++i) {
    const uint8_t pair = block.scales[i / 16];
    const float scale = d * static_cast<float>(pair & 15);
    const float min = dmin * static_cast<float>(pair >> 4);
    out[i] = scale * static_cast<float>(pair_at(block.qs, i)) - min;
  }
}

void decode(const BlockQ3K& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(unpack_scale(block.scales, i / 16) - 32);
    const int high = (block.hmask[i % 32] >> i / 32) & 1;
    out[i] = scale * static_cast<float>((pair_at(block.qs, i) | high << 2) - 4);
  }
}

// q4_k, q5_k.
template <class Block>
requires kHasScaleMins<Block>
void decode(const Block& block, float* out) {
  const float d = f16_to_f32(block.d), dmin = f16_to_f32(block.dmin);
  for (int s = 0; s < 8; ++s) {
    const ScaleMin pair = unpack_scale_min(block.scales, s);
    const float scale = d * pair.scale, min = dmin * pair.min;
    const uint8_t* qs = block.qs + s / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      int q = (qs[i] >> (s % 2 * 4)) & 15;
      if constexpr (kHasFifthBits<Block>) q |= ((block.qh[i] >> s) & 1) << 4;
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
template <WeightType kType>
void decode_blocks(std::span<const std::byte> data, float* out) {
  using Block = BlockOf<kType>;
  for (size_t at = 0; at < data.size(); at += sizeof(Block)) {
    Block block;
    std::memcpy(&block, &data[at], sizeof block);
    decode(block, out);
    out += weight_type_info(kType).block_values;
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

}  // namespace

void check_stored_size(const char* function, WeightType type, size_t n_values, size_t n_bytes) {
  const WeightTypeInfo* info = find_weight_type(static_cast<uint32_t>(type));
  if (info == nullptr) {
    throw std::invalid_argument(std::string(function) + ": " +
                                std::to_string(static_cast<uint32_t>(type)) +
                                " is no supported weight type");
  }
  if (n_values % info->block_values == 0 &&
      n_values / info->block_values * info->block_bytes == n_bytes) {
    return;
  }
  throw std::invalid_argument(std::string(function) + ": " + std::to_string(n_values) +
                              " values of " + std::string(info->name) + " do not match " +
                              std::to_string(n_bytes) + " bytes");
}

void dequantise(WeightType type, std::span<const std::byte> data, std::span<float> out) {
  check_stored_size("dequantise", type, out.size(), data.size());
  with_weight_type(type, [&](auto constant) {
    constexpr WeightType kType = decltype(constant)::value;
    if constexpr (kType == WeightType::kF32) {
      if (!out.empty()) std::memcpy(out.data(), data.data(), data.size());
    } else if constexpr (is_float_type(kType)) {
      decode_halves(data, out, kType == WeightType::kF16 ? f16_to_f32 : bf16_to_f32);
    } else {
      decode_blocks<kType>(data, out.data());
    }
  });
}

}  // namespace greta
