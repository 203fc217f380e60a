#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/gpu/attention_mfma_call.h"
#include "kernels/gpu/attention_softmax.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/query_tile.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// What a wavefront keeps of 16 queries of attention_mfma on its way through the keys: from scores
// to weights, and the sums of blocks of keys to a total. Who multiplies, and where operands come
// from, is not its concern. Device code.

namespace greta::attention_mfma_detail {

using BlockScores = QueryTile::Sum[kBlockKeys / 16];
using BlockWeights = QueryTile::Operand[kBlockKeys / 16];

/// kOutTiles: of 16 dimensions each, of the output.
template <int kOutTiles>
class QuerySums {
 public:
  static constexpr int kSlots = QueryTile::kSlots, kValues = QueryTile::kValues;
  using Outputs = QueryTile::Sum[kOutTiles];

  /// Before the first block of keys.
  __device__ void clear(const Exponents& exponents) {
    GRETA_UNROLL
    for (int s = 0; s < kSlots; ++s) total_[s] = exponents.none();
    GRETA_UNROLL
    for (int tile = 0; tile < kOutTiles; ++tile) total_out_[tile] = {};
  }

  /// Scores of keys from `first` on that a query does not see to −∞; position(slot): the query's.
  /// What this needs is needed at the ends alone: opaque offsets keep it from being prepared ahead
  /// of the loop.
  template <class Position>
  __device__ static void mask(const AttentionShape& shape, int first, Position position,
                              BlockScores& scores) {
    const int own_key = opaque(QueryTile::key(0));
    int hidden[kSlots], end[kSlots];
    GRETA_UNROLL
    for (int s = 0; s < kSlots; ++s) {
      const int64_t own = position(s);
      hidden[s] = hidden_keys(shape, own) - first - own_key;
      end[s] = visible_keys(shape, own) - first - own_key;
    }
    GRETA_UNROLL
    for (int tile = 0; tile < kBlockKeys / 16; ++tile) {
      GRETA_UNROLL
      for (int i = 0; i < kValues; ++i) {
        const int key = tile * 16 + QueryTile::key(i) - QueryTile::key(0), s = QueryTile::slot(i);
        const int seen = mask_below(key, end[s]) & ~mask_below(key, hidden[s]);
        const int minus_infinity = bits_as<int>(-INFINITY);
        float& score = scores[tile].value[i];
        score = bits_as<float>((bits_as<int>(score) & seen) | (minus_infinity & ~seen));
      }
    }
  }

  /// A block's scores to weights, also as operands, and what is known of their sum.
  __device__ void softmax(const Exponents& exponents, BlockScores& scores, BlockWeights& weights) {
    float most[kSlots], shift[kSlots], sums[kSlots];
    GRETA_UNROLL
    for (int s = 0; s < kSlots; ++s) most[s] = exponents.none().most;
    GRETA_UNROLL
    for (int tile = 0; tile < kBlockKeys / 16; ++tile) {
      GRETA_UNROLL
      for (int i = 0; i < kValues; ++i) {
        float& here = most[QueryTile::slot(i)];
        here = fmaxf(here, scores[tile].value[i]);
      }
    }
    GRETA_UNROLL
    for (int s = 0; s < kSlots; ++s) {
      most[s] = QueryTile::reduce(most[s], Max{});
      shift[s] = exponents.shift_of(most[s]);
    }
    GRETA_UNROLL
    for (int tile = 0; tile < kBlockKeys / 16; ++tile) {
      QueryTile::Sum& here = scores[tile];
      GRETA_UNROLL
      for (int i = 0; i < kValues; ++i) {
        here.value[i] = exponents.weight(here.value[i], shift[QueryTile::slot(i)]);
      }
      GRETA_UNROLL
      for (int s = 0; s < kSlots; ++s) {
        const float sum = QueryTile::own_sum(here, s);
        sums[s] = tile == 0 ? sum : sums[s] + sum;
      }
      weights[tile] = QueryTile::weights(here);
    }
    GRETA_UNROLL
    for (int s = 0; s < kSlots; ++s) block_[s] = {most[s], QueryTile::reduce(sums[s], Plus{})};
  }

  /// What the block's weights are relative to.
  __device__ float most(int slot) const { return block_[slot].most; }

  /// Adds the block to the total; out: its weights times values.
  __device__ void fold(const Exponents& exponents, const Outputs& out) {
    Fold folds[kSlots];
    GRETA_UNROLL
    for (int s = 0; s < kSlots; ++s) {
      folds[s] = fold_of(exponents, total_[s].most, block_[s].most);
      total_[s] = {fmaxf(total_[s].most, block_[s].most),
                   folded(total_[s].sum, block_[s].sum, folds[s])};
    }
    GRETA_UNROLL
    for (int tile = 0; tile < kOutTiles; ++tile) {
      GRETA_UNROLL
      for (int i = 0; i < kValues; ++i) {
        float& total = total_out_[tile].value[i];
        total = folded(total, out[tile].value[i], folds[QueryTile::slot(i)]);
      }
    }
  }

  /// Of all keys, when the last block is folded.
  __device__ const Softmax& total(int slot) const { return total_[slot]; }

  /// Stores the outputs, dimensions first_dim on, of the head of tokens token(slot) that there are.
  template <class Token>
  __device__ void store(const Call& call, int head, int first_dim, Token token) const {
    const auto head_dim = static_cast<int>(call.shape.head_dim);
    const bool pairs = head_dim % 2 == 0 && reinterpret_cast<uintptr_t>(call.out) % 8 == 0;
    GRETA_UNROLL
    for (int i = 0; i < kValues; i += 2) {
      const int s = QueryTile::slot(i);
      const int64_t t = token(s);
      if (t >= call.shape.n_tokens) continue;
      const float share = 1.0f / total_[s].sum;
      const int dim = opaque(QueryTile::dim(i));
      float* to = call.out + (t * call.shape.n_heads + head) * head_dim;
      GRETA_UNROLL
      for (int tile = 0; tile < kOutTiles; ++tile) {
        const int d = first_dim + tile * 16 + dim;
        const float2 pair{total_out_[tile].value[i] * share, total_out_[tile].value[i + 1] * share};
        if (pairs) {
          if (d < head_dim) store_as(to + d, pair);
        } else {
          if (d < head_dim) to[d] = pair.x;
          if (d + 1 < head_dim) to[d + 1] = pair.y;
        }
      }
    }
  }

 private:
  // Of the lane's queries.
  Softmax total_[kSlots], block_[kSlots];
  Outputs total_out_;
};

}  // namespace greta::attention_mfma_detail
