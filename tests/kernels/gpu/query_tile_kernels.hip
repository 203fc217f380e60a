#include "kernels/gpu/matrix_core.h"
#include "kernels/gpu/query_tile.h"
#include "tests/kernels/gpu/query_tile_kernels.h"

namespace greta {
namespace {

__global__ void query_tile_kernel(const uint16_t* q, const uint16_t* k, const uint16_t* v,
                                  QueryTileResults* results) {
  constexpr int kStride = 16 + kSharedRowPad;
  struct alignas(16) Rows {
    uint16_t half[16 * kStride];
  };
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
  QueryTile::Sum scores = {}, out = {}, one = {};
  QueryTile::multiply_add(of_q, of_k, scores);
  const auto weights = QueryTile::weights(scores);
  QueryTile::multiply_add(weights, of_v, out);
  QueryTile::multiply_add(QueryTile::only(weights, 5), QueryTile::only(of_v, 5), one);
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
    results->one[query][QueryTile::dim(i)] = one.value[i];
  }
}

}  // namespace

void query_tile(const uint16_t* q, const uint16_t* k, const uint16_t* v, QueryTileResults* results,
                Stream& stream) {
  launch({"query_tile", 1, kMatrixLanes}, stream, query_tile_kernel, q, k, v, results);
}

}  // namespace greta
