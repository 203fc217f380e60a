#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/gpu/attention.h"
#include "kernels/gpu/attention_device.h"
#include "kernels/gpu/attention_mfma_call.h"
#include "kernels/gpu/attention_softmax.h"
#include "kernels/gpu/attention_tile.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/matrix_core.h"
#include "kernels/gpu/query_tile.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// The traces that a tile of queries leaves (kernels/gpu/attention_tile.h). Device code.

namespace greta::attention_mfma_detail {

/// Calls trace(to, has_next, group, tile, i) for keys of a traced query whose scores are values i
/// and i + 1 of the lane; the first one is in the trace, at `to`, the second one if has_next.
template <int kDim, bool kPlain>
template <class Trace>
__device__ void TileAttention<kDim, kPlain>::for_traced(float* array, int block,
                                                        Trace trace) const {
  if (array == nullptr) return;
  GRETA_UNROLL
  for (int group = 0; group < kGroups; ++group) {
    GRETA_UNROLL
    for (int i = 0; i < kValues; i += 2) {
      const int own_row = row(group, QueryTile::slot(i));
      const int64_t traced = first_token_ + own_row - call_.trace.first_query;
      if (own_row > last_row() || traced < 0) continue;
      float* const to = array + traced * call_.trace.stride;
      GRETA_UNROLL
      for (int tile = 0; tile < kBlockTiles; ++tile) {
        const int key = block * kBlockKeys + tile * 16 + QueryTile::key(i);
        if (key > position_ + own_row) continue;
        trace(to + key * call_.shape.n_heads + head_, key < position_ + own_row, group, tile, i);
      }
    }
  }
}

template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::trace_scores(int block, const Scores& scores) const {
  const float scale = fabsf(call_.shape.scale);
  const auto trace = [&](float* to, bool has_next, int group, int tile, int i) {
    to[0] = scores[group][tile].value[i] * scale;
    if (has_next) to[call_.shape.n_heads] = scores[group][tile].value[i + 1] * scale;
  };
  for_traced(call_.trace.scores, block, trace);
}

template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::trace_weights(int block, const Scores& weights) {
  GRETA_UNROLL
  for (int group = 0; group < kGroups; ++group) {
    GRETA_UNROLL
    for (int s = 0; s < kSlots; ++s) {
      const int n_visible = visible(row(group, s)), n_traced = position_ + row(group, s) + 1;
      if (block * kBlockKeys >= (n_visible < n_traced ? n_visible : n_traced)) continue;
      last_most_[group][s] = sums_[group].most(s);
    }
  }
  const auto trace = [&](float* to, bool has_next, int group, int tile, int i) {
    const auto& weight = weights[group][tile].value;
    trace_two_weights(to, call_.shape.n_heads, has_next, weight[i], weight[i + 1],
                      sums_[group].most(QueryTile::slot(i)));
  };
  for_traced(call_.trace.probs, block, trace);
}

/// By all threads of the block: a lane's own pairs would be few, and one after the other.
template <int kDim, bool kPlain>
__device__ void TileAttention<kDim, kPlain>::finish_trace() const {
  GRETA_SHARED(Final, finals, [S::kQueries]);
  GRETA_UNROLL
  for (int group = 0; group < kGroups; ++group) {
    GRETA_UNROLL
    for (int s = 0; s < kSlots; ++s) {
      if (QueryTile::query_lane() != 0) continue;  // the others have the same
      const Softmax total = sums_[group].total(s);
      finals[row(group, s)] = {total.most, 1.0f / total.sum, last_most_[group][s]};
    }
  }
  __syncthreads();  // what others have stored is there, too
  for (int r = 0; r < tile_end(); ++r) {
    float* const trace = traced_block(call_.trace.probs, call_.trace, first_token_ + r);
    if (trace == nullptr) continue;
    finish_weights(exponents_, trace + head_, call_.shape.n_heads, position_ + r + 1, hidden(r),
                   visible(r), finals[r], kThreads);
  }
}

}  // namespace greta::attention_mfma_detail

// Attention on matrix cores. Keys come in blocks of kBlockKeys at fixed places; for block b
//
//   s = scale·q·Kᵀ,  m = max s,  p = f16(e^(s − m)),  l = Σ e^(s − m),  o = p·V
//
// and the blocks are folded into a total, one after the other ("Flash-Decoding", Dao et al. 2023):
//
//   M' = max(M, m),  L = L·e^(M − M') + l·e^(m − M'),  O = O·e^(M − M') + o·e^(m − M'),  out = O /
//   L
//
// Many queries are taken in tiles, each of which goes through all blocks of keys: by wavefronts
// (kernels/gpu/attention_tile.h) or warpgroups (kernels/gpu/attention_mfma_wide.hip). One query
// alone is taken by as many blocks of threads (kernels/gpu/attention_mfma_token.hip). Rows of a
// product do not mix, and all else is the same arithmetic in the same order
// (kernels/gpu/attention_softmax.h), so a query's result depends on nothing but itself and what it
// sees.
//
// For tiles a first kernel brings the cache to f16, laid out as the matrix cores want it.

namespace greta {
namespace {

using namespace attention_mfma_detail;

// ---- The cache to f16: one block per piece of the keys and KV head.

constexpr int kConvertThreads = 256;

template <class Stored, int kDim, bool kVectors>
__global__ __launch_bounds__(kConvertThreads) void attention_halves_kernel(const Call call,
                                                                           const HalfCache cache) {
  constexpr int kKeys = Sizes<kDim>::kStageKeys;
  constexpr int kFours = kDim / 4;
  constexpr int kStride = kKeys + 2;  // spreads a column over the banks
  GRETA_SHARED(uint16_t, columns, [kDim * kStride]);
  GRETA_SHARED(uint32_t, nonfinite);

  allow_next();
  const AttentionShape& shape = call.shape;
  const auto thread = static_cast<int>(threadIdx.x);
  const auto piece = static_cast<int>(blockIdx.x), g = static_cast<int>(blockIdx.y);
  const int64_t last = *call.first_pos + shape.n_tokens - 1;
  const int n_visible = visible_keys(shape, last), n_scored = scored_keys(shape, last);
  const int first = piece * kKeys;
  const int block = first / kBlockKeys * kBlockKeys;
  const bool traced = is_traced(call.trace, shape.n_tokens - 1);
  if (block >= n_scored) return;
  if (!traced && block + kBlockKeys <= hidden_keys(shape, *call.first_pos)) return;

  const auto head_dim = static_cast<int>(shape.head_dim);
  const int64_t row_values = shape.n_kv_heads * shape.head_dim;
  const HeadColumns of_keys = key_columns(shape, g), of_values = value_columns(shape, g);
  const auto* const keys = static_cast<const Stored*>(call.k);
  const auto* const values = static_cast<const Stored*>(call.v);
  const int64_t at = (int64_t{g} * cache.n_pieces + piece) * kKeys * kDim;
  if (thread == 0) nonfinite = 0;
  __syncthreads();
  bool any_nonfinite = false;
  GRETA_UNROLL
  for (int pass = 0; pass < kKeys * kFours / kConvertThreads; ++pass) {
    const int i = pass * kConvertThreads + thread;
    const int j = i / kFours, d = i % kFours * 4, key = first + j;
    const int64_t row = (key < n_scored ? key : n_scored - 1) * row_values;
    const Four<Stored> k =
        load_values<kVectors>(keys + row, of_keys, d, key < n_scored ? head_dim : 0, head_dim);
    const Four<Stored> v =
        load_values<kVectors>(values + row, of_values, d, key < n_visible ? head_dim : 0, head_dim);
    QueryTile::store_four(cache.keys + at + j * kDim, d, f16_pair_of(k.value[0], k.value[1]),
                          f16_pair_of(k.value[2], k.value[3]));
    GRETA_UNROLL
    for (int c = 0; c < 4; ++c) {
      const uint16_t half = f16_of(v.value[c]);
      any_nonfinite |= (half & 0x7c00) == 0x7c00;
      columns[(d + c) * kStride + j] = half;
    }
  }
  if (wave_ballot(any_nonfinite) != 0 && lane_id() == 0) atomic_max(&nonfinite, 1);
  __syncthreads();
  if (thread == 0) cache.nonfinite[int64_t{g} * cache.n_pieces + piece] = nonfinite;
  constexpr int kEights = kKeys / 8;
  for (int i = thread; i < kDim * kEights; i += kConvertThreads) {
    const uint16_t* from = columns + i / kEights * kStride + i % kEights * 8;
    Words4 eight;
    GRETA_UNROLL
    for (int w = 0; w < 4; ++w) eight.word[w] = load_as<uint32_t>(from + 2 * w);
    store_as(cache.values + at + i * 8, eight);
  }
}

// ---- Attention: one block per tile of queries and head.

// Tiles come in whole, and where they hold traced queries in parts, each with a block of its own: a
// part takes as long as a tile.
struct Tiles {
  int n_whole, n_parts;
};

template <int kDim>
constexpr int kWholeQueries = kWideTiles<kDim> ? kWideQueries : Sizes<kDim>::kQueries;

template <int kDim>
Tiles tiles_of(const AttentionShape& shape, const AttentionTrace& trace) {
  constexpr int kQueries = kWholeQueries<kDim>, kPartQueries = Sizes<kDim, false>::kQueries;
  int64_t n_whole = blocks_for(shape.n_tokens, kQueries);
  if (trace.scores != nullptr || trace.probs != nullptr) {
    n_whole = std::min(n_whole, trace.first_query / kQueries);
  }
  const int64_t rest = std::max<int64_t>(0, shape.n_tokens - n_whole * kQueries);
  return {static_cast<int>(n_whole), static_cast<int>(blocks_for(rest, kPartQueries))};
}

struct TilesPlace {
  int head, part, first_token, end_token;
  bool whole;
};
template <int kDim>
__device__ TilesPlace place_in_tiles(const Call& call, Tiles tiles, unsigned block) {
  constexpr int kQueries = kWholeQueries<kDim>, kPartQueries = Sizes<kDim, false>::kQueries;
  constexpr unsigned kParts = Sizes<kDim>::kOutParts;
  const unsigned n_heads = kParts * static_cast<unsigned>(call.shape.n_heads);
  // The last tiles see most keys and come first: what is left at the end is short.
  const int tile = tiles.n_whole + tiles.n_parts - 1 - static_cast<int>(block / n_heads);
  const bool whole = tile < tiles.n_whole;
  const int first =
      whole ? tile * kQueries : tiles.n_whole * kQueries + (tile - tiles.n_whole) * kPartQueries;
  const auto head = static_cast<int>(block % n_heads / kParts);
  return {head, static_cast<int>(block % kParts), first, first + (whole ? kQueries : kPartQueries),
          whole};
}

// Whole tiles that meet values which are not finite are taken in parts as well, one after the
// other; other whole tiles are already there where there are kWideTiles. What the parts need is
// computed anew, so that nothing of it occupies a register in the other loop.
template <int kDim>
__global__ __launch_bounds__(kThreads) void attention_tile_kernel(const Call call,
                                                                  const HalfCache cache,
                                                                  Tiles tiles) {
  GRETA_DYNAMIC_SHARED(uint16_t, shared);
  const TilesPlace place = place_in_tiles<kDim>(call, tiles, blockIdx.x);
  const int g = opaque(kv_head_of(call.shape, place.head));
  const auto needs_parts = [&] {
    return wave_any(!place.whole || has_nonfinite_values<kDim>(call, cache, g, place.first_token,
                                                               kWholeQueries<kDim>));
  };
  if constexpr (kWideTiles<kDim>) {
    wait_for_previous();
    if (!needs_parts()) return;
  } else {
    TileAttention<kDim, true> tile(call, cache, place.head, g, place.part, place.first_token,
                                   shared);
    if (place.whole) tile.load_queries();
    wait_for_previous();
    if (!needs_parts()) return tile.attend();
  }
  const TilesPlace again = place_in_tiles<kDim>(call, tiles, opaque(blockIdx.x));
  const int end = opaque(std::min(again.end_token, static_cast<int>(call.shape.n_tokens)));
  GRETA_NO_UNROLL
  for (int token = again.first_token; wave_any(token < end);
       token += Sizes<kDim, false>::kQueries) {
    __syncthreads();  // what the part before has left in shared memory is no longer needed
    TileAttention<kDim, false> part(call, cache, again.head, g, again.part, token, shared);
    part.load_queries();
    part.attend();
  }
}

// ---- The launcher. Scratch: the counters, then the cache in f16, or what one token needs.

constexpr size_t kCounterBytes = kAttentionCounters * sizeof(uint32_t);

template <int kDim>
HalfCache half_cache(const AttentionShape& shape, int64_t max_keys, void* memory) {
  using S = Sizes<kDim>;
  const int64_t n_blocks = blocks_of(static_cast<int>(keys_at_most(shape, max_keys)));
  const int64_t n_values = shape.n_kv_heads * n_blocks * kBlockKeys * kDim;
  auto* keys = static_cast<uint16_t*>(memory);
  uint16_t* values = keys + n_values;
  return {keys, values, reinterpret_cast<uint32_t*>(values + n_values),
          static_cast<int>(n_blocks * S::kStages)};
}

template <class Stored, int kDim>
void launch_tiles(const Call& call, int64_t max_keys, void* memory, bool vectors, Stream& stream) {
  const AttentionShape& shape = call.shape;
  const HalfCache cache = half_cache<kDim>(shape, max_keys, memory);
  const dim3 cache_grid(static_cast<unsigned>(cache.n_pieces),
                        static_cast<unsigned>(shape.n_kv_heads));
  launch({"attention_halves", cache_grid, kConvertThreads}, stream,
         vectors ? attention_halves_kernel<Stored, kDim, true>
                 : attention_halves_kernel<Stored, kDim, false>,
         call, cache);
  const Tiles tiles = tiles_of<kDim>(shape, call.trace);
  // Queries are loaded while the cache is converted: that kernel has begun when all before it was
  // done.
  if constexpr (kWideTiles<kDim>) attend_wide_tiles<kDim>(call, cache, tiles.n_whole, stream);
  const int64_t n_tiles = int64_t{tiles.n_whole} + tiles.n_parts;
  launch({.name = "attention_mfma",
          .grid = blocks_for(n_tiles * shape.n_heads * Sizes<kDim>::kOutParts, 1),
          .block = kThreads,
          .shared_bytes = Sizes<kDim>::kSharedBytes,
          .early = true},
         stream, attention_tile_kernel<kDim>, call, cache, tiles);
}

}  // namespace

size_t attention_mfma_scratch(const AttentionShape& shape, int64_t max_keys) {
  const AttentionShape checked = checked_shape(shape);
  if (checked.n_tokens == 1) return kCounterBytes + token_scratch(checked, max_keys);
  size_t bytes = kCounterBytes;
  with_padded_dim(checked.head_dim, [&]<int kDim>() {
    const HalfCache cache = half_cache<kDim>(checked, max_keys, nullptr);
    const auto n_pieces =
        static_cast<size_t>(checked.n_kv_heads) * static_cast<size_t>(cache.n_pieces);
    bytes += n_pieces * (2 * sizeof(uint16_t) * Sizes<kDim>::kStageKeys * kDim + sizeof(uint32_t));
  });
  return bytes;
}

void attention_mfma(const AttentionShape& shape, const int32_t* first_pos, int64_t max_keys,
                    const float* q, ConstKvRows k, ConstKvRows v, float* out,
                    const AttentionTrace& trace, void* scratch, Stream& stream) {
  const AttentionShape checked = checked_shape(shape);
  if (checked.n_tokens == 0) return;
  const Call call{checked, first_pos, q, k.data, v.data, out, trace};
  auto* const counters = static_cast<uint32_t*>(scratch);
  void* const memory = static_cast<std::byte*>(scratch) + kCounterBytes;
  if (checked.n_tokens == 1) {
    return attend_token(call, k, v, max_keys, counters, memory, stream);
  }
  const bool vectors = keys_in_fours(checked, k) && values_in_fours(checked, v);
  with_stored(k, v, [&]<class Stored>() {
    with_padded_dim(checked.head_dim, [&]<int kDim>() {
      launch_tiles<Stored, kDim>(call, max_keys, memory, vectors, stream);
    });
  });
}

}  // namespace greta
