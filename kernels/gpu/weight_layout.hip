#include <stdexcept>
#include <string>

#include "kernels/gpu/dequant.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/weight_layout.h"
#include "kernels/gpu/weight_planes.h"

namespace greta {
namespace {

constexpr int kLayoutThreads = 256;

__device__ int64_t layout_index() {
  return static_cast<int64_t>(blockIdx.x) * kLayoutThreads + threadIdx.x;
}

// ---- arrange_planes: a thread per two bytes of the result, which belong to one field.

/// Byte `place` of a field, from the field in the file.
template <WeightType kType>
__device__ unsigned arranged_byte(const std::byte* field, int plane, int place) {
  if (has_high_bits(kType, plane)) {
    unsigned bits = 0;
    for (int i = 0; i < 8; ++i) {
      const BitPlace from = high_bit(kType, place, i);
      bits |= (load_as<uint8_t>(field + from.byte) >> from.bit & 1u) << i;
    }
    return bits;
  }
  const bool pieces = kType == WeightType::kQ4_K || kType == WeightType::kQ5_K;
  if (pieces && plane == 0) place = qs_byte(place);
  const bool scales =
      (kType == WeightType::kQ6_K && plane == 2) || (kType == WeightType::kQ2_K && plane == 1);
  if (scales) place = scale_byte(place);
  return load_as<uint8_t>(field + place);
}

template <WeightType kType>
__global__ __launch_bounds__(kLayoutThreads) void arrange_kernel(const std::byte* file,
                                                                 int64_t n_blocks, std::byte* out) {
  constexpr auto kBlockBytes = static_cast<int64_t>(weight_type_info(kType).block_bytes);
  const int64_t to = 2 * layout_index();
  if (to >= n_blocks * kBlockBytes) return;
  GRETA_UNROLL
  for (int plane = 0; plane < kMaxPlanes; ++plane) {
    constexpr Planes kPlanes = planes_of(kType);
    const PlaneField field = kPlanes.field[plane];
    const int64_t in_plane = to - n_blocks * plane_start(kPlanes, plane);
    if (in_plane >= 0 && in_plane < n_blocks * field.bytes) {
      const int64_t block = in_plane / field.bytes;
      const auto place = static_cast<int>(in_plane % field.bytes);
      const std::byte* const from = file + block * kBlockBytes + field.file_offset;
      const auto two = static_cast<uint16_t>(arranged_byte<kType>(from, plane, place) |
                                             arranged_byte<kType>(from, plane, place + 1) << 8);
      store_as(out + to, two);
    }
  }
}

// ---- to_halves: a thread per weights that are read together.

struct alignas(16) Halves8 {
  uint16_t value[8];
};

template <WeightType kType, HalfType kHalf>
__global__ __launch_bounds__(kLayoutThreads) void to_halves_kernel(DeviceWeights w, int64_t first,
                                                                   int64_t n, uint16_t* out) {
  constexpr int kEach = kWeightsPerLoad<kType>;
  const int64_t i = kEach * layout_index();
  if (i >= n) return;
  float values[kEach];
  load_weights<kType>(w, first + i, values);
  if constexpr (kEach == 1) {
    out[i] = half_bits<kHalf>(values[0]);
  } else {
    Halves8 halves;
    GRETA_UNROLL
    for (int j = 0; j < kEach; ++j) halves.value[j] = half_bits<kHalf>(values[j]);
    if (aligned16(out)) {
      store_as(out + i, halves);
    } else {
      for (int j = 0; j < kEach; ++j) out[i + j] = halves.value[j];
    }
  }
}

}  // namespace

bool has_planes(WeightType type) { return !is_float_type(type); }

void arrange_planes(const Matrix& file, std::byte* out, Stream& stream) {
  with_weight_type(file.type, [&](auto type) {
    constexpr WeightType kType = decltype(type)::value;
    if constexpr (is_float_type(kType)) {
      throw std::invalid_argument("arrange_planes: " + std::string(weight_type_info(kType).name) +
                                  " has no planes");
    } else {
      const auto bytes = static_cast<int64_t>(file.bytes());
      const auto block_bytes = static_cast<int64_t>(weight_type_info(kType).block_bytes);
      launch({"arrange_planes", blocks_for(bytes / 2, kLayoutThreads), kLayoutThreads}, stream,
             arrange_kernel<kType>, file.data, bytes / block_bytes, out);
    }
  });
}

void to_halves(const Matrix& w, int64_t first_row, int64_t n_rows, HalfType type, uint16_t* out,
               Stream& stream) {
  const int64_t first = first_row * w.cols, n = n_rows * w.cols;
  if (w.type == (type == HalfType::kF16 ? WeightType::kF16 : WeightType::kBF16)) {
    const auto* const halves = reinterpret_cast<const uint16_t*>(w.data);
    return copy_on_device(halves + first, static_cast<size_t>(n), out, stream);
  }
  with_weight_type(w.type, [&](auto weight_type) {
    constexpr WeightType kType = decltype(weight_type)::value;
    const auto kernel = type == HalfType::kF16 ? to_halves_kernel<kType, HalfType::kF16>
                                               : to_halves_kernel<kType, HalfType::kBF16>;
    launch({"to_halves", blocks_for(n / kWeightsPerLoad<kType>, kLayoutThreads), kLayoutThreads},
           stream, kernel, device_weights(w), first, n, out);
  });
}

}  // namespace greta
