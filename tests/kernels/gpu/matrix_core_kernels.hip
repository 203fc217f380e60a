#include "kernels/gpu/matrix_core.h"
#include "kernels/gpu/query_tile.h"
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

struct alignas(16) Rows {
  uint16_t half[16 * (16 + kSharedRowPad)];
};

/// The same products, of keys and values that come from memory to registers.
__device__ void multiply_directly(const uint16_t* q, const uint16_t* k, const uint16_t* v,
                                  const QueryTile::Operand& weights, QueryTile::Sum& scores,
                                  QueryTile::Sum& out) {
  constexpr int kStride = 16 + kSharedRowPad;
  GRETA_SHARED(Rows, queries);
  for (int i = lane_id(); i < 64; i += kWave) {
    const uint16_t* four = q + 4 * i;
    QueryTile::store_four(queries.half + i / 4 * kStride, i % 4 * 4,
                          four[0] | uint32_t{four[1]} << 16, four[2] | uint32_t{four[3]} << 16);
  }
  __syncthreads();
  Floats4 keys[QueryTile::kKeyRows];
  for (int i = 0; i < QueryTile::kKeyRows; ++i) {
    const uint16_t* from = k + QueryTile::key_row(i) * 16 + QueryTile::key_dim();
    for (int j = 0; j < 4; ++j) keys[i].value[j] = f16_value(from[j]);
  }
  QueryTile::multiply_add(
      QueryTile::load_queries(queries.half + QueryTile::place_of_queries(kStride), kStride),
      QueryTile::of_keys(keys), scores);
  struct {
    float value[QueryTile::kValueRun];
  } values[QueryTile::kValueKeys];
  for (int i = 0; i < QueryTile::kValueKeys; ++i) {
    for (int j = 0; j < QueryTile::kValueRun; ++j) {
      const int dim = QueryTile::value_dim(1) + j;
      values[i].value[j] = f16_value(v[dim * 16 + QueryTile::value_key(i)]);
    }
  }
  QueryTile::multiply_add(weights, QueryTile::of_values(values, 0), out);
}

__global__ void query_tile_kernel(const uint16_t* q, const uint16_t* k, const uint16_t* v,
                                  QueryTileResults* results) {
  constexpr int kStride = 16 + kSharedRowPad;
  GRETA_SHARED(Rows, tiles, [3]);
  for (int i = lane_id(); i < 256; i += kWave) {
    const int at = i / 16 * kStride + i % 16;
    tiles[0].half[at] = q[i];
    tiles[1].half[at] = k[i];
    tiles[2].half[at] = v[i];
  }
  for (int i = lane_id(); i < 256; i += kWave) results->written[i / 16][i % 16] = 0;
  for (int i = lane_id(); i < 16 * 64; i += kWave) results->sums[i / 64][i % 64] = 0;
  __syncthreads();
  const int place = QueryTile::place(kStride);
  const auto of_q =
      QueryTile::load_queries(tiles[0].half + QueryTile::place_of_queries(kStride), kStride);
  const auto of_k = QueryTile::load(tiles[1].half + place, kStride);
  const auto of_v = QueryTile::load(tiles[2].half + place, kStride);
  QueryTile::Sum scores = {}, out = {}, between = {}, direct_scores = {}, direct_out = {};
  QueryTile::multiply_add(of_q, of_k, scores);
  const auto weights = QueryTile::weights(scores);
  QueryTile::multiply_add(weights, of_v, out);
  QueryTile::multiply_add(weights, QueryTile::between(of_v, 3, 8), between);
  multiply_directly(q, k, v, weights, direct_scores, direct_out);
  float sums[QueryTile::kSlots] = {};
  for (int i = 0; i < QueryTile::kValues; ++i) sums[QueryTile::slot(i)] += scores.value[i];
  for (int s = 0; s < QueryTile::kSlots; ++s) {
    results->sums[QueryTile::query(s)][lane_id()] = QueryTile::reduce(sums[s], Plus{});
  }
  for (int i = 0; i < QueryTile::kValues; ++i) {
    const int query = QueryTile::query(QueryTile::slot(i));
    results->scores[query][QueryTile::key(i)] = scores.value[i];
    atomic_add(&results->written[query][QueryTile::key(i)], 1);
    results->out[query][QueryTile::dim(i)] = out.value[i];
    results->between[query][QueryTile::dim(i)] = between.value[i];
    results->direct_scores[query][QueryTile::key(i)] = direct_scores.value[i];
    results->direct_out[query][QueryTile::value_dim_of(1, 0, i)] = direct_out.value[i];
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

void query_tile(const uint16_t* q, const uint16_t* k, const uint16_t* v, QueryTileResults* results,
                Stream& stream) {
  launch({"query_tile", 1, kMatrixLanes}, stream, query_tile_kernel, q, k, v, results);
}

}  // namespace greta
