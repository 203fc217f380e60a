#include "kernels/gpu/matrix_core.h"
#include "tests/kernels/gpu/matrix_core_kernels.h"

namespace greta {
namespace {

template <HalfType kType, int kSize>
__global__ void multiply_tile_kernel(const uint16_t* a, const uint16_t* b, float* d) {
  using Tile = WaveTile<kType, kSize>;
  // By way of shared memory, as real kernels do, with padded rows.
  constexpr int kStride = 24;
  GRETA_SHARED(uint16_t, left, [kSize * kStride]);
  GRETA_SHARED(uint16_t, right, [kSize * kStride]);
  for (int i = lane_id(); i < kSize * 16; i += kWave) {
    left[i / 16 * kStride + i % 16] = a[i];
    right[i / 16 * kStride + i % 16] = b[i];
  }
  __syncthreads();
  typename Tile::Sum sum;
  for (int i = 0; i < Tile::kValues; ++i) {
    sum.value[i] = d[Tile::row(i) * kSize + Tile::column(i)];
  }
  Tile::multiply_add(Tile::load(left, kStride), Tile::load(right, kStride), sum);
  for (int i = 0; i < Tile::kValues; ++i) {
    d[Tile::row(i) * kSize + Tile::column(i)] = sum.value[i];
  }
}

template <int kSize>
__global__ void tile_elements_kernel(int32_t* elements) {
  using Tile = WaveTile<HalfType::kF16, kSize>;
  if (static_cast<int>(threadIdx.x) >= kWave) return;
  for (int i = 0; i < Tile::kValues; ++i) {
    elements[lane_id() * Tile::kValues + i] = Tile::row(i) * kSize + Tile::column(i);
  }
}

}  // namespace

void multiply_tile(bool bf16, int size, const uint16_t* a, const uint16_t* b, float* d,
                   Stream& stream) {
  const auto kernel = size == 16 ? bf16 ? multiply_tile_kernel<HalfType::kBF16, 16>
                                        : multiply_tile_kernel<HalfType::kF16, 16>
                      : bf16 ? multiply_tile_kernel<HalfType::kBF16, 32>
                                 : multiply_tile_kernel<HalfType::kF16, 32>;
  const auto lanes = static_cast<unsigned>(device_info().wave_lanes);
  launch({"multiply_tile", 1, lanes}, stream, kernel, a, b, d);
}

void tile_elements(int size, int32_t* elements, Stream& stream) {
  launch({"tile_elements", 1, 64}, stream,
         size == 16 ? tile_elements_kernel<16> : tile_elements_kernel<32>, elements);
}

}  // namespace greta
