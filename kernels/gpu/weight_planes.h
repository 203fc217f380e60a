#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/blocks.h"
#include "kernels/matrix.h"

// The planes of kernels/gpu/weight_layout.h in numbers, for the kernels that write and read them.
// Host and device code.

namespace greta {

/// Of the types with blocks of 32 whose nibbles lie as in q4_0: whether the fifth bits lie apart,
/// and whether an m follows d.
constexpr bool has_fifth_bits(WeightType type) {
  return type == WeightType::kQ5_0 || type == WeightType::kQ5_1;
}
constexpr bool has_m(WeightType type) {
  return type == WeightType::kQ4_1 || type == WeightType::kQ5_1;
}

/// A field of a block: where the file has it, and its size, even.
struct PlaneField {
  int file_offset;
  int bytes;
};

inline constexpr int kMaxPlanes = 4;

/// The fields of a type in the order of their planes; of 0 bytes beyond the last.
struct Planes {
  WeightType type;
  PlaneField field[kMaxPlanes];
};
/// Float types have none.
constexpr Planes planes_of(WeightType type) {
  constexpr int kHead = 16;  // d, dmin and scales of q4_k and q5_k
  constexpr Planes kPlanes[] = {
      {WeightType::kQ4_0, {{offsetof(BlockQ4_0, qs), 16}, {0, 2}}},
      {WeightType::kQ4_1, {{offsetof(BlockQ4_1, qs), 16}, {0, 4}}},
      {WeightType::kQ5_0, {{offsetof(BlockQ5_0, qs), 16}, {offsetof(BlockQ5_0, qh), 4}, {0, 2}}},
      {WeightType::kQ5_1, {{offsetof(BlockQ5_1, qs), 16}, {offsetof(BlockQ5_1, qh), 4}, {0, 4}}},
      {WeightType::kIQ4_NL, {{offsetof(BlockIQ4NL, qs), 16}, {0, 2}}},
      {WeightType::kQ8_0, {{offsetof(BlockQ8_0, qs), 32}, {0, 2}}},
      {WeightType::kQ2_K,
       {{offsetof(BlockQ2K, qs), 64},
        {offsetof(BlockQ2K, scales), 16},
        {offsetof(BlockQ2K, d), 4}}},
      {WeightType::kQ3_K,
       {{offsetof(BlockQ3K, qs), 64},
        {offsetof(BlockQ3K, hmask), 32},
        {offsetof(BlockQ3K, scales), 12},
        {offsetof(BlockQ3K, d), 2}}},
      {WeightType::kQ4_K, {{offsetof(BlockQ4K, qs), 128}, {0, kHead}}},
      {WeightType::kQ5_K,
       {{offsetof(BlockQ5K, qs), 128}, {offsetof(BlockQ5K, qh), 32}, {0, kHead}}},
      {WeightType::kQ6_K,
       {{offsetof(BlockQ6K, ql), 128},
        {offsetof(BlockQ6K, qh), 64},
        {offsetof(BlockQ6K, scales), 16},
        {offsetof(BlockQ6K, d), 2}}}};
  for (const Planes& one : kPlanes) {
    if (one.type == type) return one;
  }
  return {type, {}};
}
template <WeightType kType>
constexpr PlaneField plane_field(int plane) {
  constexpr Planes kPlanes = planes_of(kType);
  return kPlanes.field[plane];
}

/// Bytes of a block in the planes before this one.
constexpr int plane_start(const Planes& planes, int plane) {
  int bytes = 0;
  for (int i = 0; i < plane; ++i) bytes += planes.field[i].bytes;
  return bytes;
}

/// q4_k, q5_k: where byte `byte` of a block's qs lies, and what lies at `place`.
constexpr int qs_place(int byte) { return byte / 16 % 2 * 64 + byte / 32 * 16 + byte % 16; }
constexpr int qs_byte(int place) { return place / 16 % 4 * 32 + place / 64 * 16 + place % 16; }
static_assert(qs_place(16) == 64 && qs_place(32) == 16 && qs_byte(qs_place(117)) == 117);

/// q2_k, q6_k: the same of a block's scales.
constexpr int scale_place(int i) { return i / 8 * 8 + i % 2 * 4 + i % 8 / 2; }
constexpr int scale_byte(int place) { return place / 8 * 8 + place % 4 * 2 + place % 8 / 4; }
static_assert(scale_place(1) == 4 && scale_place(2) == 1 && scale_byte(scale_place(13)) == 13);

/// A bit of a field: which byte, and which of its bits.
struct BitPlace {
  int byte, bit;
};

/// Of q5_0 and q5_1, of a sub-block of q5_k and of a lane's quarter of q3_k high bits lie so that
/// those of four consecutive values are bits of a word eight apart: the file's bit that is bit
/// `bit` of byte `place`.
constexpr BitPlace high_bit(WeightType type, int place, int bit) {
  if (type == WeightType::kQ5_K) return {4 * bit + place % 4, place / 4};
  if (type == WeightType::kQ3_K) {
    // Of lane 2h + a, eight bytes: word w has group 2w in its low nibbles, group 2w + 1 in the
    // high.
    const int h = place / 16, a = place / 8 % 2, g = place / 4 % 2 * 2 + bit / 4;
    return {16 * a + bit % 4 * 4 + place % 4, 4 * h + g};
  }
  const int value = 4 * bit + place;
  return {value / 8, value % 8};
}
/// True if a plane is one of high bits.
constexpr bool has_high_bits(WeightType type, int plane) {
  return plane == 1 &&
         (has_fifth_bits(type) || type == WeightType::kQ5_K || type == WeightType::kQ3_K);
}

/// A matrix of weights on the device: where its planes begin. Float types have one.
struct DeviceWeights {
  const std::byte* plane[kMaxPlanes];
};

inline DeviceWeights device_weights(const Matrix& w) {
  const WeightTypeInfo& info = weight_type_info(w.type);
  const int64_t n_blocks = w.rows * w.cols / static_cast<int64_t>(info.block_values);
  const Planes planes = planes_of(w.type);
  DeviceWeights result{};
  for (int i = 0; i < kMaxPlanes; ++i) result.plane[i] = w.data + n_blocks * plane_start(planes, i);
  return result;
}

/// Where block `block` has field `kPlane`.
template <WeightType kType, int kPlane>
constexpr const std::byte* plane_at(const DeviceWeights& w, uint64_t block) {
  constexpr int kBytes = plane_field<kType>(kPlane).bytes;
  static_assert(kBytes > 0);
  return w.plane[kPlane] + block * kBytes;
}

}  // namespace greta
