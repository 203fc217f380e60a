#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gpu/async_copy.h"
#include "kernels/gpu/dequant.h"
#include "kernels/gpu/half_type.h"
#include "kernels/gpu/matmul_task.h"
#include "kernels/gpu/matrix_core.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/unpack.h"

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
    const int bytes = plane_field(kWeight, plane).bytes * kBlocks;
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
    const uint64_t block = first_block(place);
    RowPlanes planes;
    GRETA_UNROLL
    for (int i = 0; i < kMaxPlanes; ++i) {
      planes.plane[i] = kStaged && row_bytes(i) > 0
                            ? stage + plane_place(i) + converted_row() * row_bytes(i)
                            : place.w.plane[i] + block * plane_field(kWeight, i).bytes;
    }
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
  __device__ static void copy_plane(const RowPlace& place, int i, std::byte* stage) {
    constexpr int kChunks = plane_field(kWeight, kPlane).bytes * kBlocks / 16;
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
