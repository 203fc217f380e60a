#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/gpu/attention.h"
#include "kernels/gpu/attention_device.h"
#include "kernels/gpu/attention_mfma_call.h"
#include "kernels/gpu/attention_token.h"
#include "kernels/gpu/matrix_core.h"
#include "kernels/gpu/runtime.h"

// Attention of one token, with the bits that it has in a tile (kernels/gpu/attention_tile.h): query
// heads that share a KV head are the rows of a tile, and every block of keys has a block of
// threads. Its wavefronts first share the keys out, then, when all weights are known, the
// dimensions. Nobody reads a row twice, so keys and values go from the cache to operands in
// registers. The last block of a KV head to be done folds what all have left in scratch.
//
// A decoded token spends as long on a kernel's instructions, which come from memory, as on the keys
// of a short cache: what every model has is written for few of them (kRegular), and loops over what
// only long contexts have stay loops.

namespace greta::attention_mfma_detail {

// ---- How blocks of keys become one result: what each leaves in scratch, and what the last of them
// to be done makes of it all.

template <class Stored, int kDim, bool kRegular>
__device__ void TokenAttention<Stored, kDim, kRegular>::leave_softmax() const {
  if (wave_id() != 0) return;
  GRETA_UNROLL
  for (int s = 0; s < kSlots; ++s) {
    const int row = QueryTile::query(s);
    float sum = shared().sums[0][row][QueryTile::query_lane()];
    GRETA_UNROLL
    for (int tile = 1; tile < kKeyTiles; ++tile)
      sum += shared().sums[tile][row][QueryTile::query_lane()];
    sum = QueryTile::reduce(sum, Plus{});
    if (QueryTile::query_lane() != 0 || row >= n_heads_) continue;
    store_as(partial(head(row), static_cast<int>(blockIdx.y)) + kDim, Softmax{most_[s], sum});
  }
}

template <class Stored, int kDim, bool kRegular>
__device__ void TokenAttention<Stored, kDim, kRegular>::leave_outputs(int piece,
                                                                      const Outputs& out) const {
  GRETA_UNROLL
  for (int i = 0; i < kValues; ++i) {
    const int row = QueryTile::query(QueryTile::slot(i));
    if (!uses(i) || row >= n_heads_) continue;
    float* const to = partial(head(row), static_cast<int>(blockIdx.y)) + first_dim(piece);
    GRETA_UNROLL
    for (int tile = 0; tile < S::kOwnDimTiles; ++tile) {
      to[QueryTile::value_dim_of(S::kOwnDimTiles, tile, i)] = out[tile].value[i];
    }
  }
}

/// Folds the blocks of keys, kFoldedAtOnce of them at a time, as QuerySums::fold() does one after
/// the other: first what every one is multiplied with, then the sums, each thread its own columns.
template <class Stored, int kDim, bool kRegular>
__device__ void TokenAttention<Stored, kDim, kRegular>::combine() {
  struct alignas(16) Step {
    Fold fold;
    float sum, most;
  };
  GRETA_SHARED(float, maxima, [kHeads][kFoldedAtOnce]);
  GRETA_SHARED(Step, steps, [kHeads][kFoldedAtOnce]);
  GRETA_SHARED(Final, finals, [kHeads]);
  constexpr int kTwos = kDim / 2;
  const int first_block = n_hidden_ / kBlockKeys;
  const int n_blocks = blocks_of(n_visible_), n_columns = n_heads_ * kTwos;
  const float none = exponents_.none().most;
  const int own_row = static_cast<int>(threadIdx.x) / kFoldedAtOnce;
  const int own_block = static_cast<int>(threadIdx.x) % kFoldedAtOnce;
  static_assert(kHeads * kFoldedAtOnce <= kTokenThreads);
  // In turns: few models have more columns than there are threads.
  GRETA_NO_UNROLL
  for (int turn = 0; turn < n_columns; turn += kTokenThreads) {
    const int column = turn + static_cast<int>(threadIdx.x);
    const int row = column < n_columns ? column / kTwos : 0, d = column % kTwos * 2;
    const float* from = partial(head(row), first_block) + d;
    float2 total = {};
    float sum = 0;
    GRETA_NO_UNROLL
    for (int first = first_block; first < n_blocks; first += kFoldedAtOnce) {
      // Values beyond the last block may be anything, and are not taken.
      float2 parts[kFoldedAtOnce];
      GRETA_UNROLL
      for (int b = 0; b < kFoldedAtOnce; ++b) parts[b] = load_as<float2>(from + b * S::kPartial);
      from += kFoldedAtOnce * S::kPartial;
      Softmax own{none, 0};
      if (own_row < n_heads_ && first + own_block < n_blocks) {
        own = load_as<Softmax>(partial(head(own_row), first + own_block) + kDim);
      }
      float before = none;
      if (own_row < kHeads) {
        if (first > first_block) before = steps[own_row][kFoldedAtOnce - 1].most;
        maxima[own_row][own_block] = own.most;
      }
      __syncthreads();
      if (own_row < kHeads) {
        GRETA_UNROLL
        for (int b = 0; b < kFoldedAtOnce; ++b) {
          before = b < own_block ? fmaxf(before, maxima[own_row][b]) : before;
        }
        steps[own_row][own_block] = {fold_of(exponents_, before, own.most), own.sum,
                                     fmaxf(before, own.most)};
      }
      __syncthreads();
      GRETA_UNROLL
      for (int b = 0; b < kFoldedAtOnce; ++b) {
        const Step step = load_as<Step>(&steps[row][b]);
        if (first + b < n_blocks) {
          sum = folded(sum, step.sum, step.fold);
          total = {folded(total.x, parts[b].x, step.fold), folded(total.y, parts[b].y, step.fold)};
        }
      }
    }
    if (column >= n_columns) continue;
    const float share = 1.0f / sum;
    if (d == 0) {
      finals[row] = {n_blocks > first_block ? steps[row][kFoldedAtOnce - 1].most : none, share, 0};
    }
    float* const out = token_.call.out + int64_t{head(row)} * head_dim_ + d;
    if (d < head_dim_) out[0] = total.x * share;
    if (d + 1 < head_dim_) out[1] = total.y * share;
  }
  if (token_.call.trace.probs != nullptr) finish_trace(finals);
}

template <class Stored, int kDim, bool kRegular>
__device__ void TokenAttention<Stored, kDim, kRegular>::finish_trace(const Final* finals) const {
  float* const trace = traced_block(token_.call.trace.probs, token_.call.trace, 0);
  __syncthreads();  // finals are there
  const int n_traced = n_visible_ <= position_ ? n_visible_ : position_ + 1;
  GRETA_NO_UNROLL
  for (int row = 0; row < n_heads_; ++row) {
    Final query = finals[row];
    if (n_traced > n_hidden_) query.last_most = partial(head(row), blocks_of(n_traced) - 1)[kDim];
    finish_weights(exponents_, trace + head(row), token_.call.shape.n_heads, position_ + 1,
                   n_hidden_, n_visible_, query, kTokenThreads);
  }
}

namespace {

// Two blocks are at a processor: while one computes, the other's keys and values come.
template <class Stored, int kDim, bool kRegular>
__global__ __launch_bounds__(
    kTokenThreads, kRegular&& kDim <= 128
                       ? 2
                       : 1) void attention_token_kernel(const GRETA_GRID_CONSTANT TokenCall token) {
  allow_next();
  TokenAttention<Stored, kDim, kRegular> attention(token);
  if (!attention.has_keys()) return;
  if (!attention.is_old()) wait_for_previous();
  attention.load_first();
  wait_for_previous();
  attention.stage_queries();
  attention.attend();
  if (attention.takes_part() && attention.is_last()) attention.combine();
}

// ---- The launcher.

/// KV heads by blocks of keys by batches of `most` query heads that share a KV head.
dim3 token_grid(const AttentionShape& shape, int64_t max_keys, int64_t most) {
  const int64_t n_batches = (shape.n_heads / shape.n_kv_heads + most - 1) / most;
  if (shape.n_kv_heads * n_batches > kAttentionCounters) {
    throw std::invalid_argument("attention: " + std::to_string(shape.n_heads) +
                                " heads are more than there are counters for");
  }
  const int n_blocks = blocks_of(static_cast<int>(keys_at_most(shape, max_keys)));
  return {static_cast<unsigned>(shape.n_kv_heads), static_cast<unsigned>(n_blocks),
          static_cast<unsigned>(n_batches)};
}

int partials_of(const AttentionShape& shape, int64_t max_keys) {
  return blocks_of(static_cast<int>(keys_at_most(shape, max_keys))) + kFoldedAtOnce - 1;
}

}  // namespace

size_t token_scratch(const AttentionShape& shape, int64_t max_keys) {
  const size_t partial =
      with_padded_dim(shape.head_dim, [&]<int kDim>() { return TokenSizes<kDim, true>::kPartial; });
  return sizeof(float) * partial * static_cast<size_t>(shape.n_heads) *
         static_cast<size_t>(partials_of(shape, max_keys));
}

void attend_token(const Call& call, const ConstKvRows& k, const ConstKvRows& v, int64_t max_keys,
                  uint32_t* counters, void* memory, Stream& stream) {
  const AttentionShape& shape = call.shape;
  const int64_t group = shape.n_heads / shape.n_kv_heads;
  const TokenCall token{call, static_cast<int>(group), counters, static_cast<float*>(memory),
                        partials_of(shape, max_keys)};
  with_stored(k, v, [&]<class Stored>() {
    with_padded_dim(shape.head_dim, [&]<int kDim>() {
      const auto run = [&]<bool kRegular>() {
        launch({.name = "attention_mfma_token",
                .grid = token_grid(shape, max_keys, TokenSizes<kDim, kRegular>::kHeads),
                .block = kTokenThreads,
                .early = true},
               stream, attention_token_kernel<Stored, kDim, kRegular>, token);
      };
      const bool regular = shape.head_dim == kDim && group <= TokenSizes<kDim, true>::kHeads &&
                           shape.k_head_stride == kDim % (shape.n_kv_heads * kDim) &&
                           !shape.v_transposed && aligned16(call.q) && fours_align(k) &&
                           fours_align(v);
      regular ? run.template operator()<true>() : run.template operator()<false>();
    });
  });
}

}  // namespace greta::attention_mfma_detail
