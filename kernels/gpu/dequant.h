#pragma once
#include <cstdint>

#include "kernels/blocks.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/weight_planes.h"
#include "kernels/matrix.h"

// Weights in the layout of the device to f32, with the bits of kernels/cpu/quantise.h: every
// product is exact, so each value is rounded once. Device code, for lookups and conversions;
// products read more at a time.

namespace greta {

/// Values that are read together: those of one scale in the quantised types.
template <WeightType kType>
inline constexpr int kWeightsPerLoad = is_float_type(kType) ? 1 : 8;

namespace dequant_detail {

/// Scale and minimum of sub-block s of q4_k and q5_k: head is d, dmin and the twelve bytes that
/// unpack_scale_min() reads, here by their words: bytes of registers, indexed, would be in memory.
__device__ inline ScaleMin scale_min_of(const Words4& head, int s) {
  const int shift = s % 4 * 8;
  const uint32_t a = head.word[1] >> shift, b = head.word[2] >> shift, c = head.word[3] >> shift;
  const uint32_t scale = s < 4 ? a & 63 : (c & 15) | (a >> 6 & 3) << 4;
  const uint32_t min = s < 4 ? b & 63 : (c >> 4 & 15) | (b >> 6 & 3) << 4;
  return {static_cast<uint8_t>(scale), static_cast<uint8_t>(min)};
}

/// The eight values of q4_k or q5_k from `first` on.
template <WeightType kType>
__device__ inline void load_eight(const DeviceWeights& w, int64_t first, float (&out)[8]) {
  constexpr bool kFifths = kType == WeightType::kQ5_K;
  const auto block = static_cast<uint64_t>(first) / 256;
  const int at = static_cast<int>(first % 256), sub_block = at / 32;
  const int place = qs_place(at / 64 * 32 + at % 32);
  const auto qs = load_as<Words2>(plane_at<kType, 0>(w, block) + place);
  uint32_t fifths = 0;
  if constexpr (kFifths) {
    fifths = load_as<uint32_t>(plane_at<kType, 1>(w, block) + 4 * sub_block) >> at % 32 / 4;
  }
  const auto head = load_as<Words4>(plane_at < kType, kFifths ? 2 : 1 > (w, block));
  int q[8];
  for (int i = 0; i < 8; ++i) {
    q[i] = qs[i] >> sub_block % 2 * 4 & 15;
    if constexpr (kFifths) q[i] |= static_cast<int>(fifths >> (i % 4 * 8 + i / 4) & 1) << 4;
  }
  const ScaleMin pair = scale_min_of(head, sub_block);
  const float2 d = f16_pair(head.word[0]);
  const float scale = d.x * static_cast<float>(pair.scale);
  const float min = d.y * static_cast<float>(pair.min);
  for (int i = 0; i < 8; ++i) out[i] = scale * static_cast<float>(q[i]) - min;
}

}  // namespace dequant_detail

/// Values first .. first + kWeightsPerLoad − 1 of a matrix, counted through all rows; first is a
/// multiple of their number. Here of the types whose nibbles lie as in q4_0.
template <WeightType kType>
__device__ inline void load_weights(const DeviceWeights& w, int64_t first,
                                    float (&out)[kWeightsPerLoad<kType>]) {
  constexpr int kHead = has_fifth_bits(kType) ? 2 : 1;  // its plane
  const auto block = static_cast<uint64_t>(first) / 32;
  const int at = static_cast<int>(first % 32);
  const auto qs = load_as<Words2>(plane_at<kType, 0>(w, block) + at % 16);
  const float d = f16_value(load_as<uint16_t>(plane_at<kType, kHead>(w, block)));
  for (int i = 0; i < 8; ++i) {
    uint32_t nibbles = qs.word[i / 4] >> at / 16 * 4 & 0x0f0f0f0fu;
    int zero = 8;
    if constexpr (kType == WeightType::kIQ4_NL) {
      nibbles = iq4_levels(nibbles);
      zero = 0;
    }
    if constexpr (has_fifth_bits(kType)) {
      const auto fifths = load_as<uint32_t>(plane_at<kType, 1>(w, block));
      nibbles |= (fifths >> (at / 4 + i / 4) & 0x01010101u) << 4;
      zero = 16;
    }
    const int q = static_cast<int8_t>(nibbles >> i % 4 * 8);
    out[i] = d * static_cast<float>(q - (has_m(kType) ? 0 : zero));
    if constexpr (has_m(kType)) {
      out[i] += f16_value(load_as<uint16_t>(plane_at<kType, kHead>(w, block) + 2));
    }
  }
}

template <>
__device__ inline void load_weights<WeightType::kF32>(const DeviceWeights& w, int64_t first,
                                                      float (&out)[1]) {
  out[0] = load_as<float>(w.plane[0] + 4 * first);
}
template <>
__device__ inline void load_weights<WeightType::kF16>(const DeviceWeights& w, int64_t first,
                                                      float (&out)[1]) {
  out[0] = f16_value(load_as<uint16_t>(w.plane[0] + 2 * first));
}
template <>
__device__ inline void load_weights<WeightType::kBF16>(const DeviceWeights& w, int64_t first,
                                                       float (&out)[1]) {
  out[0] = bf16_value(load_as<uint16_t>(w.plane[0] + 2 * first));
}
template <>
__device__ inline void load_weights<WeightType::kQ8_0>(const DeviceWeights& w, int64_t first,
                                                       float (&out)[8]) {
  const auto block = static_cast<uint64_t>(first) / 32;
  const auto qs = load_as<Words2>(plane_at<WeightType::kQ8_0, 0>(w, block) + first % 32);
  const float d = f16_value(load_as<uint16_t>(plane_at<WeightType::kQ8_0, 1>(w, block)));
  for (int i = 0; i < 8; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(qs[i]));
}
template <>
__device__ inline void load_weights<WeightType::kQ2_K>(const DeviceWeights& w, int64_t first,
                                                       float (&out)[8]) {
  constexpr WeightType kType = WeightType::kQ2_K;
  const auto block = static_cast<uint64_t>(first) / 256;
  const int at = static_cast<int>(first % 256), place = at / 128 * 32 + at % 32;
  const auto qs = load_as<Words2>(plane_at<kType, 0>(w, block) + place);
  const auto pair = load_as<uint8_t>(plane_at<kType, 1>(w, block) + scale_place(at / 16));
  const float2 d = f16_pair(load_as<uint32_t>(plane_at<kType, 2>(w, block)));
  const float scale = d.x * static_cast<float>(pair & 15);
  const float min = d.y * static_cast<float>(pair >> 4);
  for (int i = 0; i < 8; ++i) {
    out[i] = scale * static_cast<float>(qs[i] >> at / 32 % 4 * 2 & 3) - min;
  }
}
template <>
__device__ inline void load_weights<WeightType::kQ3_K>(const DeviceWeights& w, int64_t first,
                                                       float (&out)[8]) {
  constexpr WeightType kType = WeightType::kQ3_K;
  const auto block = static_cast<uint64_t>(first) / 256;
  const int at = static_cast<int>(first % 256), place = at / 128 * 32 + at % 32;
  const int lane = at / 128 * 2 + at / 16 % 2, g = at / 32 % 4;
  const auto qs = load_as<Words2>(plane_at<kType, 0>(w, block) + place);
  const auto thirds = load_as<uint32_t>(plane_at<kType, 1>(w, block) + 8 * lane + g / 2 * 4) >>
                      (g % 2 * 4 + at % 16 / 4);
  const auto& scales = reinterpret_cast<const uint8_t(&)[12]>(*plane_at<kType, 2>(w, block));
  const float factor = f16_value(load_as<uint16_t>(plane_at<kType, 3>(w, block))) *
                       static_cast<float>(unpack_scale(scales, at / 16) - 32);
  for (int i = 0; i < 8; ++i) {
    const auto third = static_cast<int>(thirds >> (i % 4 * 8 + i / 4) & 1);
    out[i] = factor * static_cast<float>(((qs[i] >> g * 2 & 3) | third << 2) - 4);
  }
}
template <>
__device__ inline void load_weights<WeightType::kQ4_K>(const DeviceWeights& w, int64_t first,
                                                       float (&out)[8]) {
  dequant_detail::load_eight<WeightType::kQ4_K>(w, first, out);
}
template <>
__device__ inline void load_weights<WeightType::kQ5_K>(const DeviceWeights& w, int64_t first,
                                                       float (&out)[8]) {
  dequant_detail::load_eight<WeightType::kQ5_K>(w, first, out);
}
template <>
__device__ inline void load_weights<WeightType::kQ6_K>(const DeviceWeights& w, int64_t first,
                                                       float (&out)[8]) {
  constexpr WeightType kType = WeightType::kQ6_K;
  const auto block = static_cast<uint64_t>(first) / 256;
  const int at = static_cast<int>(first % 256), half = at / 128, i0 = at % 128;
  const auto ql = load_as<Words2>(plane_at<kType, 0>(w, block) + half * 64 + i0 % 64);
  const auto qh = load_as<Words2>(plane_at<kType, 1>(w, block) + half * 32 + i0 % 32);
  const auto scale = load_as<int8_t>(plane_at<kType, 2>(w, block) + scale_place(at / 16));
  const float d = f16_value(load_as<uint16_t>(plane_at<kType, 3>(w, block)));
  const float factor = d * static_cast<float>(scale);
  for (int i = 0; i < 8; ++i) {
    const int q = (ql[i] >> i0 / 64 * 4 & 15) | (qh[i] >> i0 / 32 * 2 & 3) << 4;
    out[i] = factor * static_cast<float>(q - 32);
  }
}

}  // namespace greta
