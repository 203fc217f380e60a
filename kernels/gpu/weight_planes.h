#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/blocks.h"
#include "kernels/matrix.h"

// The planes of kernels/gpu/weight_layout.h in numbers, for the kernels that write and read them.
// Host and device code.

namespace greta {

constexpr bool is_float_type(WeightType type) {
  return type == WeightType::kF32 || type == WeightType::kF16 || type == WeightType::kBF16;
}

/// A field of a block: where the file has it, and its size, a power of two.
struct PlaneField {
  int file_offset;
  int bytes;
};

inline constexpr int kMaxPlanes = 4;

/// The fields of a type in the order of their planes; of 0 bytes beyond the last.
constexpr PlaneField plane_field(WeightType type, int plane) {
  constexpr int kHead = 16;  // d, dmin and scales of q4_k and q5_k
  switch (type) {
    case WeightType::kQ4_0: {
      constexpr PlaneField fields[kMaxPlanes] = {{offsetof(BlockQ4_0, qs), 16}, {0, 2}};
      return fields[plane];
    }
    case WeightType::kQ8_0: {
      constexpr PlaneField fields[kMaxPlanes] = {{offsetof(BlockQ8_0, qs), 32}, {0, 2}};
      return fields[plane];
    }
    case WeightType::kQ4_K: {
      constexpr PlaneField fields[kMaxPlanes] = {{offsetof(BlockQ4K, qs), 128}, {0, kHead}};
      return fields[plane];
    }
    case WeightType::kQ5_K: {
      constexpr PlaneField fields[kMaxPlanes] = {
          {offsetof(BlockQ5K, qs), 128}, {offsetof(BlockQ5K, qh), 32}, {0, kHead}};
      return fields[plane];
    }
    case WeightType::kQ6_K: {
      constexpr PlaneField fields[kMaxPlanes] = {{offsetof(BlockQ6K, ql), 128},
                                                 {offsetof(BlockQ6K, qh), 64},
                                                 {offsetof(BlockQ6K, scales), 16},
                                                 {offsetof(BlockQ6K, d), 2}};
      return fields[plane];
    }
    default:
      return {0, 0};
  }
}

/// Bytes of a block in the planes before this one.
constexpr int plane_start(WeightType type, int plane) {
  int bytes = 0;
  for (int i = 0; i < plane; ++i) bytes += plane_field(type, i).bytes;
  return bytes;
}

/// q4_k, q5_k: where byte `byte` of a block's qs lies, and what lies at `place`.
constexpr int qs_place(int byte) { return byte / 16 % 2 * 64 + byte / 32 * 16 + byte % 16; }
constexpr int qs_byte(int place) { return place / 16 % 4 * 32 + place / 64 * 16 + place % 16; }
static_assert(qs_place(16) == 64 && qs_place(32) == 16 && qs_byte(qs_place(117)) == 117);

/// q6_k: the same of a block's scales.
constexpr int scale_place(int i) { return i / 8 * 8 + i % 2 * 4 + i % 8 / 2; }
constexpr int scale_byte(int place) { return place / 8 * 8 + place % 4 * 2 + place % 8 / 4; }
static_assert(scale_place(1) == 4 && scale_place(2) == 1 && scale_byte(scale_place(13)) == 13);

/// A matrix of weights on the device: where its planes begin. Float types have one.
struct DeviceWeights {
  const std::byte* plane[kMaxPlanes];
};

inline DeviceWeights device_weights(const Matrix& w) {
  const WeightTypeInfo& info = weight_type_info(w.type);
  const int64_t n_blocks = w.rows * w.cols / static_cast<int64_t>(info.block_values);
  DeviceWeights result{};
  for (int i = 0; i < kMaxPlanes; ++i) result.plane[i] = w.data + n_blocks * plane_start(w.type, i);
  return result;
}

/// Where block `block` has field `kPlane`.
template <WeightType kType, int kPlane>
constexpr const std::byte* plane_at(const DeviceWeights& w, uint64_t block) {
  constexpr int kBytes = plane_field(kType, kPlane).bytes;
  static_assert(kBytes > 0);
  return w.plane[kPlane] + block * kBytes;
}

}  // namespace greta
