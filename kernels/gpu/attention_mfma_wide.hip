#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "kernels/gpu/attention_device.h"
#include "kernels/gpu/attention_mfma_call.h"
#include "kernels/gpu/attention_softmax.h"
#include "kernels/gpu/attention_sums.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/query_tile.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/warpgroup.h"
#include "kernels/gpu/wave.h"

// Attention of tiles of queries as kernels/gpu/attention_tile.h computes it, but multiplied by
// warpgroups, each with 64 queries, which read keys and values where they lie in shared memory: no
// operand but the weights passes through registers. While a block of keys is worked on, the next
// one is on its way to the other buffer.

namespace greta::attention_mfma_detail {

#if defined(GRETA_WARPGROUPS) && !defined(GRETA_AMD)

namespace {

constexpr int kWideThreads = 256;

template <int kDim>
struct WideSizes {
  using Keys = GroupTile<HalfType::kF16, kBlockKeys>;  // queries by keys
  using Values = GroupTile<HalfType::kF16, kDim>;      // weights by values
  static constexpr int kColumns = Keys::kColumns;
  static constexpr int kQueryValues = kWideQueries * kDim;
  static constexpr int kBlockValues = kBlockKeys * kDim;
  static constexpr size_t kAlignment = 1024;
  static constexpr size_t kSharedBytes =
      sizeof(uint16_t) * (kQueryValues + 4 * kBlockValues) + kAlignment;
};

/// Queries to shared memory, in lines of kColumns.
template <int kDim>
__device__ void stage_wide_queries(const Call& call, int head, int first_token, uint16_t* queries) {
  using S = WideSizes<kDim>;
  constexpr int kFours = kDim / 4;
  const auto head_dim = static_cast<int>(call.shape.head_dim);
  const bool vectors = head_dim % 4 == 0 && aligned16(call.q);
  const int last = static_cast<int>(call.shape.n_tokens) - 1 - first_token;
  const HeadColumns columns{0, 1, head_dim};
  GRETA_UNROLL
  for (int pass = 0; pass < kWideQueries * kFours / kWideThreads; ++pass) {
    const int i = pass * kWideThreads + static_cast<int>(threadIdx.x);
    const int row = i / kFours, d = i % kFours * 4;
    const int64_t token = first_token + (row <= last ? row : last);
    const float* from = call.q + (token * call.shape.n_heads + head) * head_dim;
    const int n = row <= last ? head_dim : 0;
    const Floats4 q = vectors ? load_values<true>(from, columns, d, n, head_dim)
                              : load_values<false>(from, columns, d, n, head_dim);
    const auto place = [&](int at) {
      return queries + at / S::kColumns * (kWideQueries * S::kColumns) +
             S::Keys::place(row, at % S::kColumns / 8) + at % 8;
    };
    const QueryFour four = query_four(call.shape, q);
    store_as(place(QueryTile::low_place(d)), four.low);
    store_as(place(QueryTile::high_place(d)), four.high);
  }
}

/// Begins to copy n_lines rows of kLength halves that follow each other to lines of kColumns, every
/// kColumns of a row n_lines lines further.
template <int kLines, int kLength>
__device__ inline void copy_lines(const uint16_t* from, uint16_t* to) {
  using Tile = GroupTile<HalfType::kF16, kBlockKeys>;
  constexpr int kChunks = kLength / 8, kLineChunks = Tile::kColumns / 8;
  constexpr int kLinesAtOnce = kWideThreads / kChunks;
  static_assert(kLinesAtOnce % 8 == 0);  // the swizzle is the same
  const int line = static_cast<int>(threadIdx.x) / kChunks;
  const int chunk = static_cast<int>(threadIdx.x) % kChunks;
  from += opaque(static_cast<int>(threadIdx.x) * 8);
  to += opaque(chunk / kLineChunks * kLines * Tile::kColumns +
               Tile::place(line, chunk % kLineChunks));
  GRETA_UNROLL
  for (int pass = 0; pass < kLines / kLinesAtOnce; ++pass) {
    copy_async16(to + pass * kLinesAtOnce * Tile::kColumns, from + pass * kWideThreads * 8);
  }
}

template <int kDim>
__global__ __launch_bounds__(kWideThreads, 1) void attention_wide_kernel(const Call call,
                                                                         const HalfCache cache,
                                                                         int n_tiles) {
  using S = WideSizes<kDim>;
  using Sums = QuerySums<kDim / 16>;
  constexpr int kColumns = S::kColumns, kStageKeys = Sizes<kDim>::kStageKeys;
  static_assert(kStageKeys == kColumns);  // a piece of the values is lines as they are
  GRETA_DYNAMIC_SHARED(unsigned char, dynamic);
  auto* const queries = reinterpret_cast<uint16_t*>(
      (reinterpret_cast<uintptr_t>(dynamic) + S::kAlignment - 1) / S::kAlignment * S::kAlignment);
  uint16_t* const blocks = queries + S::kQueryValues;

  const AttentionShape& shape = call.shape;
  // The last tiles see most keys and come first: what is left at the end is short.
  const auto n_heads = static_cast<unsigned>(shape.n_heads);
  const int head = static_cast<int>(blockIdx.x % n_heads);
  const int first_token = (n_tiles - 1 - static_cast<int>(blockIdx.x / n_heads)) * kWideQueries;
  const int g = kv_head_of(shape, head);
  stage_wide_queries<kDim>(call, head, first_token, queries);
  wait_for_previous();
  if (has_nonfinite_values<kDim>(call, cache, g, first_token, kWideQueries)) return;

  const int position = *call.first_pos + first_token;
  const int last_row = static_cast<int>(shape.n_tokens) - 1 - first_token;
  const auto visible = [&](int row) { return visible_keys(shape, position + row); };
  const int own_row = wave_id() * 16;  // of the wavefront's first query
  const int group_row = wave_id() / 4 * S::Keys::kLeft;
  const int group_end = group_row + S::Keys::kLeft - 1;
  const auto hidden = [&](int row) { return hidden_keys(shape, position + row); };
  const int first_block = hidden(0) / kBlockKeys;
  const int n_blocks = blocks_of(visible(std::min(kWideQueries - 1, last_row)));
  const int seen_by_all = visible(own_row), hidden_from_any = hidden(own_row + 15);
  const int seen_by_any = group_row <= last_row ? visible(std::min(group_end, last_row)) : 0;

  const int64_t first_piece = int64_t{g} * cache.n_pieces;
  const auto request = [&](int block) {
    const int64_t from = (first_piece + block * Sizes<kDim>::kStages) * kStageKeys * kDim;
    uint16_t* const keys = blocks + block % 2 * 2 * S::kBlockValues;
    uint16_t* const values = keys + S::kBlockValues;
    copy_lines<kBlockKeys, kDim>(cache.keys + from, keys);
    GRETA_UNROLL
    for (int stage = 0; stage < Sizes<kDim>::kStages; ++stage) {
      copy_lines<kDim, kStageKeys>(cache.values + from + stage * kStageKeys * kDim,
                                   values + stage * kStageKeys * kDim);
    }
    commit_copies();
  };
  if (first_block < n_blocks) request(first_block);

  const Exponents exponents(shape);
  Sums sums;
  sums.clear(exponents);
  GRETA_NO_UNROLL
  for (int block = first_block; block < n_blocks; ++block) {
    wait_for_copies<0>();
    S::Keys::publish();
    __syncthreads();  // the block is there, and the one before is no longer needed
    if (block + 1 < n_blocks) request(block + 1);
    const int first = block * kBlockKeys;
    if (first >= seen_by_any) continue;
    const uint16_t* const keys = blocks + block % 2 * 2 * S::kBlockValues;
    const uint16_t* const values = keys + S::kBlockValues;
    BlockScores scores = {};
    S::Keys::begin();
    GRETA_UNROLL
    for (int step = 0; step < kDim / 16; ++step) {
      const int atom = step * 16 / kColumns;
      S::Keys::multiply_add(queries + (atom * kWideQueries + group_row) * kColumns,
                            keys + atom * kBlockKeys * kColumns, step % 4, scores);
    }
    S::Keys::commit();
    S::Keys::template wait<0>();
    if (first + kBlockKeys > seen_by_all || first < hidden_from_any) {
      Sums::mask(
          shape, first, [&](int s) { return position + opaque(own_row + QueryTile::query(s)); },
          scores);
    }
    BlockWeights weights;
    sums.softmax(exponents, scores, weights);
    typename Sums::Outputs out = {};
    S::Values::begin();
    GRETA_UNROLL
    for (int step = 0; step < kBlockKeys / 16; ++step) {
      S::Values::multiply_add(weights[step], values + step / 4 * kDim * kColumns, step % 4, out);
    }
    S::Values::commit();
    S::Values::template wait<0>();
    sums.fold(exponents, out);
  }
  sums.store(call, head, 0,
             [&](int s) { return int64_t{first_token} + own_row + QueryTile::query(s); });
}

}  // namespace

template <int kDim>
void attend_wide_tiles(const Call& call, const HalfCache& cache, int n_tiles, Stream& stream) {
  launch({.name = "attention_mfma_wide",
          .grid = blocks_for(n_tiles * call.shape.n_heads, 1),
          .block = kWideThreads,
          .shared_bytes = WideSizes<kDim>::kSharedBytes,
          .early = true},
         stream, attention_wide_kernel<kDim>, call, cache, n_tiles);
}

#else

template <int kDim>
void attend_wide_tiles(const Call&, const HalfCache&, int, Stream&) {
  throw std::logic_error("attention: this device has no warpgroups");
}

#endif

template void attend_wide_tiles<64>(const Call&, const HalfCache&, int, Stream&);
template void attend_wide_tiles<128>(const Call&, const HalfCache&, int, Stream&);

}  // namespace greta::attention_mfma_detail
