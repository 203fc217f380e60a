#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/gpu/attention.h"
#include "kernels/gpu/attention_device.h"
#include "kernels/gpu/attention_mfma_token.h"
#include "kernels/gpu/attention_token.h"
#include "kernels/gpu/attention_token_combine.h"
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
