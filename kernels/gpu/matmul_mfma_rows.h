#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gpu/dequant.h"
#include "kernels/gpu/device.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/matmul_task.h"
#include "kernels/gpu/matrix_core.h"
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

}  // namespace unpack_detail

/// Weights 32·piece on of 256, as `planes` have them. Here of q4_k and q5_k.
template <WeightType kType>
__device__ inline Unpacked unpack(const RowPlanes& planes, int piece) {
  constexpr bool kFifths = kType == WeightType::kQ5_K;
  static_assert(kFifths || kType == WeightType::kQ4_K);
  Unpacked out;
  GRETA_UNROLL
  for (int half = 0; half < 2; ++half) {
    const std::byte* const at = planes.plane[0] + qs_place(piece / 2 * 32 + half * 16);
    unpack_detail::low_or_high(unpack_detail::words_at(at), piece % 2 * 4, out.bytes + 4 * half);
  }
  if constexpr (kFifths) {
    const auto fifths = load_as<uint32_t>(planes.plane[1] + 4 * piece);
    GRETA_UNROLL
    for (int i = 0; i < 8; ++i) out.bytes[i] |= (fifths >> i & 0x01010101u) << 4;
  }
  const Words4 head = unpack_detail::words_at(planes.plane[kFifths ? 2 : 1]);
  const ScaleMin pair = dequant_detail::scale_min_of(head, piece);
  const float2 d = f16_pair(head.word[0]);
  out.scale[0] = out.scale[1] = d.x * static_cast<float>(pair.scale);
  out.min = d.y * static_cast<float>(pair.min);
  out.offset = 0;
  return out;
}

/// True if there is an unpack() for a type.
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

// Rows of stored weights on their way to the matrix cores. A block has kBlockRows of them in hand:
// some columns are copied to shared memory ahead of time, a stage, and are operands there as they
// lie, or are turned into 16-bit floats part by part. Device code.
//
//   kColumns, kStageBytes      of a stage; 0 bytes: nothing is copied ahead
//   kPartColumns               that convert() turns at a time; 0: a stage is a tile as it lies
//   request(row, i, stage)     begins to copy the thread's share of row copied_row(i)
//   convert(row, part, stage, tile)   the thread's share of a tile [kBlockRows][stride] of halves,
//                                     of converted_row()
//
// Eight neighbouring threads copy a row, 128 bytes together: with half a line at a time the cache
// has twice the requests. Four convert one.

namespace greta::matmul_mfma_token_detail {

using namespace matmul_detail;

inline constexpr int kBlockRows = 64, kBlockThreads = 256;
inline constexpr int kCopyThreads = 8, kCopiedRows = kBlockRows * kCopyThreads / kBlockThreads;
inline constexpr int kRowThreads = kBlockThreads / kBlockRows;

/// A row of weights, from a column on.
struct RowPlace {
  DeviceWeights w;
  uint64_t row;
  uint32_t column, cols;
};
__device__ inline int copied_row(int i) {
  return static_cast<int>(threadIdx.x) / kCopyThreads + i * (kBlockThreads / kCopyThreads);
}
__device__ inline int copied_share() { return static_cast<int>(threadIdx.x) % kCopyThreads; }
__device__ inline int converted_row() { return static_cast<int>(threadIdx.x) / kRowThreads; }
__device__ inline int converted_share() { return static_cast<int>(threadIdx.x) % kRowThreads; }

/// The type that a product's operands have.
template <WeightType kWeight>
inline constexpr HalfType kHalfOf = kWeight == WeightType::kBF16 ? HalfType::kBF16 : HalfType::kF16;

/// Halves from a line of a tile of so many columns to the next.
constexpr int tile_stride(int columns) { return columns + kSharedRowPad; }
constexpr int tile_bytes(int columns) { return kBlockRows * tile_stride(columns) * 2; }

/// Weights stored in 16 bits, rows a multiple of 16 bytes.
struct HalfRows {
  static constexpr int kColumns = 128, kPartColumns = 0;
  static constexpr int kStageBytes = tile_bytes(kColumns);

  __device__ static void request(const RowPlace& place, int i, std::byte* stage) {
    const std::byte* const from = place.w.plane[0] + (place.row * place.cols + place.column) * 2;
    std::byte* const to = stage + copied_row(i) * tile_stride(kColumns) * 2;
    GRETA_UNROLL
    for (int first = 0; first < kColumns / 8; first += kCopyThreads) {
      const int chunk = first + copied_share();
      if (place.column + static_cast<uint32_t>(chunk) * 8 < place.cols) {
        copy_async16(to + chunk * 16, from + chunk * 16);
      } else {
        store_as(to + chunk * 16, Words4{});
      }
    }
  }
};

/// Weights of any type, any columns.
template <WeightType kWeight>
struct AnyRows {
  static constexpr int kColumns = 64, kPartColumns = 64, kStageBytes = 0;

  __device__ static void request(const RowPlace&, int, std::byte*) {}
  __device__ static void convert(const RowPlace& place, int, const std::byte*, uint16_t* tile) {
    constexpr int kLoad = kWeightsPerLoad<kWeight>;
    GRETA_NO_UNROLL
    for (int chunk = converted_share(); chunk < kPartColumns / 8; chunk += kRowThreads) {
      const uint32_t column = place.column + static_cast<uint32_t>(chunk) * 8;
      Words4 words{};
      GRETA_UNROLL
      for (uint32_t k = 0; k < 8; k += kLoad) {
        if (column + k >= place.cols) continue;
        float values[kLoad];
        load_weights<kWeight>(place.w, static_cast<int64_t>(place.row * place.cols + column + k),
                              values);
        if constexpr (kLoad == 8) {
          GRETA_UNROLL
          for (int j = 0; j < 4; ++j) {
            words.word[j] = half_pair<kHalfOf<kWeight>>(values[2 * j], values[2 * j + 1]);
          }
        } else {
          words.word[k / 2] |= half_pair<kHalfOf<kWeight>>(values[0], 0) << 16 * (k % 2);
        }
      }
      store_as(tile + converted_row() * tile_stride(kPartColumns) + chunk * 8, words);
    }
  }
};

/// Quantised weights that unpack() knows, columns a multiple of 256: their fields. Where no copy
/// goes on by itself they are read where they lie.
template <WeightType kWeight>
struct PlaneRows {
  static constexpr int kBlock = static_cast<int>(weight_type_info(kWeight).block_values);
  static constexpr int kColumns = 256, kPartColumns = kUnpacked * kRowThreads;
  static constexpr int kBlocks = kColumns / kBlock;  // of a row

  /// Bytes that a row has in a stage, an odd number of 16 so that rows lie in other banks; 0: what
  /// is not copied, because it is no multiple of 16: an access brings a row's next ones as well.
  static constexpr int row_bytes(int plane) {
    const int bytes = plane_field<kWeight>(plane).bytes * kBlocks;
    return bytes % 16 != 0 || bytes == 0 ? 0 : bytes / 16 % 2 == 0 ? bytes + 16 : bytes;
  }
  static constexpr int plane_place(int plane) {
    int at = 0;
    for (int i = 0; i < plane; ++i) at += kBlockRows * row_bytes(i);
    return at;
  }
  static constexpr bool kStaged = kMatrixLanes == 32;
  static constexpr int kStageBytes = kStaged ? plane_place(kMaxPlanes) : 0;

  __device__ static void request(const RowPlace& place, int i, std::byte* stage) {
    if (place.column >= place.cols) return;  // of a last chunk that is short
    copy_plane<0>(place, i, stage);
    copy_plane<1>(place, i, stage);
    copy_plane<2>(place, i, stage);
    copy_plane<3>(place, i, stage);
  }
  __device__ static void convert(const RowPlace& place, int part, const std::byte* stage,
                                 uint16_t* tile) {
    if (place.column >= place.cols) return;
    const RowPlanes planes{{plane_of<0>(place, stage), plane_of<1>(place, stage),
                            plane_of<2>(place, stage), plane_of<3>(place, stage)}};
    const Unpacked unpacked = unpack<kWeight>(planes, part * kRowThreads + converted_share());
    uint16_t* const to =
        tile + converted_row() * tile_stride(kPartColumns) + converted_share() * kUnpacked;
    GRETA_UNROLL
    for (int i = 0; i < kUnpacked; i += 8) {
      Words4 words;
      GRETA_UNROLL
      for (int j = 0; j < 4; ++j) {
        words.word[j] =
            half_pair<HalfType::kF16>(unpacked.value(i + 2 * j), unpacked.value(i + 2 * j + 1));
      }
      store_as(to + i, words);
    }
  }

 private:
  __device__ static uint64_t first_block(const RowPlace& place) {
    return place.row * (place.cols / kBlock) + place.column / kBlock;
  }
  template <int kPlane>
  __device__ static const std::byte* plane_of(const RowPlace& place, const std::byte* stage) {
    if constexpr (kStaged && row_bytes(kPlane) > 0) {
      return stage + plane_place(kPlane) + converted_row() * row_bytes(kPlane);
    } else {
      return place.w.plane[kPlane] + first_block(place) * plane_field<kWeight>(kPlane).bytes;
    }
  }
  template <int kPlane>
  __device__ static void copy_plane(const RowPlace& place, int i, std::byte* stage) {
    constexpr int kChunks = plane_field<kWeight>(kPlane).bytes * kBlocks / 16;
    if constexpr (kStaged && row_bytes(kPlane) > 0) {
      const std::byte* const from = plane_at<kWeight, kPlane>(place.w, first_block(place));
      std::byte* const to = stage + plane_place(kPlane) + copied_row(i) * row_bytes(kPlane);
      GRETA_UNROLL
      for (int first = 0; first < kChunks; first += kCopyThreads) {
        const int chunk = first + copied_share();
        if (chunk < kChunks) copy_async16(to + chunk * 16, from + chunk * 16);
      }
    }
  }
};

}  // namespace greta::matmul_mfma_token_detail
