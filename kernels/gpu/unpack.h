#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gpu/dequant.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/weight_planes.h"

// Quantised weights to f32, 32 neighbours of a row at a time: the bits of load_weights()
// (kernels/gpu/dequant.h), with few instructions for each. Device code.
//
// Scale times integer is exact, so that a fused multiplication and subtraction rounds once, as the
// subtraction alone would.

namespace greta {

inline constexpr int kUnpacked = 32;  ///< weights

namespace unpack_detail {

/// Byte i, a constant, of a word, less the offset.
__device__ inline float integer(uint32_t word, int i, float offset) {
#if defined(GRETA_NVIDIA) && defined(__CUDA_ARCH__)
  // As the lowest byte of 2^23: one permutation of bytes, where a conversion would take longer.
  const uint32_t bits = __byte_perm(word, 0x4b000000u, 0x7440u + static_cast<uint32_t>(i));
  return bits_as<float>(bits) - (0x1p23f + offset);
#else
  return static_cast<float>(word >> 8 * i & 0xff) - offset;
#endif
}

}  // namespace unpack_detail

/// Where the planes have the first block of a row that is wanted.
struct RowPlanes {
  const std::byte* plane[kMaxPlanes];
};

struct Unpacked {
  uint32_t bytes[kUnpacked / 4];  ///< integers, `offset` too great
  float offset;
  float scale[2];  ///< of sixteen each
  float min;

  /// Weight i, a constant.
  __device__ float value(int i) const {
    return fmaf(scale[i / 16], unpack_detail::integer(bytes[i / 4], i % 4, offset), -min);
  }
};

namespace unpack_detail {

/// 16 bytes that may lie in shared memory.
__device__ inline Words4 words_at(const std::byte* from) { return load_as<Words4>(from); }

__device__ inline void low_or_high(const Words4& words, int shift, uint32_t* out) {
  GRETA_UNROLL
  for (int i = 0; i < 4; ++i) out[i] = words.word[i] >> shift & 0x0f0f0f0fu;
}

/// Of sub-block s of q4_k and q5_k.
__device__ inline void scale_and_min(const Words4& head, int s, Unpacked& out) {
  const ScaleMin pair = dequant_detail::scale_min_of(head, s);
  const float2 d = f16_pair(head.word[0]);
  out.scale[0] = out.scale[1] = d.x * static_cast<float>(pair.scale);
  out.min = d.y * static_cast<float>(pair.min);
  out.offset = 0;
}

}  // namespace unpack_detail

/// Weights 32·piece on of 256, as `planes` have them.
template <WeightType kType>
__device__ inline Unpacked unpack(const RowPlanes& planes, int piece);

/// Whether there is an unpack() for a type.
template <WeightType kType>
inline constexpr bool kCanUnpack =
    kType == WeightType::kQ4_0 || kType == WeightType::kQ8_0 || kType == WeightType::kQ4_K ||
    kType == WeightType::kQ5_K || kType == WeightType::kQ6_K;

template <>
__device__ inline Unpacked unpack<WeightType::kQ4_0>(const RowPlanes& planes, int piece) {
  Unpacked out;
  const Words4 qs = unpack_detail::words_at(planes.plane[0] + piece * 16);
  unpack_detail::low_or_high(qs, 0, out.bytes);
  unpack_detail::low_or_high(qs, 4, out.bytes + 4);
  out.offset = 8;
  out.scale[0] = out.scale[1] = f16_value(load_as<uint16_t>(planes.plane[1] + piece * 2));
  out.min = 0;
  return out;
}
template <>
__device__ inline Unpacked unpack<WeightType::kQ8_0>(const RowPlanes& planes, int piece) {
  Unpacked out;
  GRETA_UNROLL
  for (int half = 0; half < 2; ++half) {
    const Words4 qs = unpack_detail::words_at(planes.plane[0] + piece * 32 + half * 16);
    GRETA_UNROLL
    for (int i = 0; i < 4; ++i) out.bytes[4 * half + i] = qs.word[i] ^ 0x80808080u;
  }
  out.offset = 128;
  out.scale[0] = out.scale[1] = f16_value(load_as<uint16_t>(planes.plane[1] + piece * 2));
  out.min = 0;
  return out;
}
template <>
__device__ inline Unpacked unpack<WeightType::kQ4_K>(const RowPlanes& planes, int piece) {
  Unpacked out;
  GRETA_UNROLL
  for (int half = 0; half < 2; ++half) {
    const std::byte* const at = planes.plane[0] + qs_place(piece / 2 * 32 + half * 16);
    unpack_detail::low_or_high(unpack_detail::words_at(at), piece % 2 * 4, out.bytes + 4 * half);
  }
  unpack_detail::scale_and_min(unpack_detail::words_at(planes.plane[1]), piece, out);
  return out;
}
template <>
__device__ inline Unpacked unpack<WeightType::kQ5_K>(const RowPlanes& planes, int piece) {
  Unpacked out;
  GRETA_UNROLL
  for (int half = 0; half < 2; ++half) {
    const std::byte* const at = planes.plane[0] + qs_place(piece / 2 * 32 + half * 16);
    unpack_detail::low_or_high(unpack_detail::words_at(at), piece % 2 * 4, out.bytes + 4 * half);
  }
  const auto fifths = load_as<uint32_t>(planes.plane[1] + 4 * piece);
  GRETA_UNROLL
  for (int i = 0; i < 8; ++i) out.bytes[i] |= (fifths >> i & 0x01010101u) << 4;
  unpack_detail::scale_and_min(unpack_detail::words_at(planes.plane[2]), piece, out);
  return out;
}
template <>
__device__ inline Unpacked unpack<WeightType::kQ6_K>(const RowPlanes& planes, int piece) {
  Unpacked out;
  GRETA_UNROLL
  for (int half = 0; half < 2; ++half) {
    const Words4 low =
        unpack_detail::words_at(planes.plane[0] + piece / 4 * 64 + piece % 2 * 32 + half * 16);
    const Words4 high = unpack_detail::words_at(planes.plane[1] + piece / 4 * 32 + half * 16);
    unpack_detail::low_or_high(low, piece % 4 / 2 * 4, out.bytes + 4 * half);
    GRETA_UNROLL
    for (int i = 0; i < 4; ++i) {
      out.bytes[4 * half + i] |= (high.word[i] >> piece % 4 * 2 & 0x03030303u) << 4;
    }
  }
  out.offset = 32;
  const float d = f16_value(load_as<uint16_t>(planes.plane[3]));
  GRETA_UNROLL
  for (int i = 0; i < 2; ++i) {
    const auto scale = load_as<int8_t>(planes.plane[2] + scale_place(2 * piece + i));
    out.scale[i] = d * static_cast<float>(scale);
  }
  out.min = 0;
  return out;
}

}  // namespace greta
