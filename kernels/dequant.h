#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/blocks.h"
#include "kernels/gpu_math.h"
#include "kernels/matrix.h"

// Weights to f32 on the device, with the bits of kernels/cpu/quants.h: every product is exact, so
// each value is rounded once. Device code.

namespace greta {

/// Value `column` of a row of weights; `row` is where the row begins. One value at a time: for
/// lookups. Products read whole blocks.
template <WeightType kType>
__device__ inline float weight_value(const std::byte* row, int64_t column);

namespace dequant_detail {

// The block that holds `column`, and the place in it.
template <class Block, int kValues>
struct Place {
  const Block* block;
  int i;

  __device__ Place(const std::byte* row, int64_t column)
      : block(reinterpret_cast<const Block*>(row) + column / kValues),
        i(static_cast<int>(column % kValues)) {}
};

// q4_k and q5_k: the sub-block's scale and min applied to q.
template <class Block>
__device__ inline float scaled(const Block& block, int sub_block, int q) {
  const ScaleMin pair = unpack_scale_min(block.scales, sub_block);
  const float d = f16_value(block.d) * static_cast<float>(pair.scale);
  const float min = f16_value(block.dmin) * static_cast<float>(pair.min);
  return d * static_cast<float>(q) - min;
}

}  // namespace dequant_detail

template <>
__device__ inline float weight_value<WeightType::kF32>(const std::byte* row, int64_t column) {
  return load_as<float>(row + 4 * column);
}
template <>
__device__ inline float weight_value<WeightType::kF16>(const std::byte* row, int64_t column) {
  return f16_value(load_as<uint16_t>(row + 2 * column));
}
template <>
__device__ inline float weight_value<WeightType::kBF16>(const std::byte* row, int64_t column) {
  return bf16_value(load_as<uint16_t>(row + 2 * column));
}
template <>
__device__ inline float weight_value<WeightType::kQ8_0>(const std::byte* row, int64_t column) {
  const dequant_detail::Place<BlockQ8_0, 32> at(row, column);
  return f16_value(at.block->d) * static_cast<float>(at.block->qs[at.i]);
}
template <>
__device__ inline float weight_value<WeightType::kQ4_0>(const std::byte* row, int64_t column) {
  const dequant_detail::Place<BlockQ4_0, 32> at(row, column);
  const int q = at.block->qs[at.i % 16] >> at.i / 16 * 4 & 15;
  return f16_value(at.block->d) * static_cast<float>(q - 8);
}
template <>
__device__ inline float weight_value<WeightType::kQ4_K>(const std::byte* row, int64_t column) {
  const dequant_detail::Place<BlockQ4K, 256> at(row, column);
  const int sub_block = at.i / 32;
  const int byte = at.block->qs[sub_block / 2 * 32 + at.i % 32];
  return dequant_detail::scaled(*at.block, sub_block, byte >> sub_block % 2 * 4 & 15);
}
template <>
__device__ inline float weight_value<WeightType::kQ5_K>(const std::byte* row, int64_t column) {
  const dequant_detail::Place<BlockQ5K, 256> at(row, column);
  const int sub_block = at.i / 32;
  const int byte = at.block->qs[sub_block / 2 * 32 + at.i % 32];
  const int fifth = at.block->qh[at.i % 32] >> sub_block & 1;
  return dequant_detail::scaled(*at.block, sub_block,
                                (byte >> sub_block % 2 * 4 & 15) | fifth << 4);
}
template <>
__device__ inline float weight_value<WeightType::kQ6_K>(const std::byte* row, int64_t column) {
  const dequant_detail::Place<BlockQ6K, 256> at(row, column);
  const int half = at.i / 128, i = at.i % 128;
  const int low = at.block->ql[half * 64 + i % 64] >> i / 64 * 4 & 15;
  const int high = at.block->qh[half * 32 + i % 32] >> i / 32 * 2 & 3;
  const float d = f16_value(at.block->d) * static_cast<float>(at.block->scales[at.i / 16]);
  return d * static_cast<float>((low | high << 4) - 32);
}

}  // namespace greta
