#pragma once

#include <cstdint>

#include "kernels/gpu/attention_split.h"
#include "kernels/gpu/last_block.h"

// How splits of the keys become one result: what each leaves in scratch, which of them is the last
// to do so, and what that one makes of it all (kernels/gpu/attention_valu.hip). Device code.

namespace greta::attention_valu_detail {

/// The sums of groups, brought to one maximum and added in order.
template <class Stored, int kDim, int kHeads, bool kVectors>
__device__ void Split<Stored, kDim, kHeads, kVectors>::leave_partial() {
  struct alignas(16) Row {
    float value[kDim];
  };
  GRETA_SHARED(Row, sums, [kGroups][kHeads]);
  GRETA_SHARED(Softmax, softmaxes, [kGroups][kHeads]);
  const float sum = wave_reduce<kHeadLanes>(sum_, Plus{});
  if (lane() % kHeadLanes == 0) softmaxes[group()][own_head()] = {most_, sum};
  GRETA_UNROLL
  for (int h = 0; h < kHeads; ++h) {
    GRETA_UNROLL
    for (int piece = 0; piece < kPieces; ++piece) {
      store_as(&sums[group()][h].value[d(piece)], acc_[h][piece]);
    }
  }
  __syncthreads();

  constexpr int kEach = kHeads * kDim > kThreads ? kHeads * kDim / kThreads : 1;
  const auto thread = static_cast<int>(threadIdx.x);
  const bool takes_part = thread * kEach < kHeads * kDim;
  const int i = takes_part ? thread * kEach : 0, h = i / kDim;
  // Lane by lane the groups' factors; neighbours have the same head.
  static_assert(kDim % (kGroups * kEach) == 0);
  const Softmax of_group = softmaxes[thread % kGroups][h];
  const float most = wave_reduce<kGroups>(of_group.most, Max{});
  const float factor = exp_f32(of_group.most + shift_of(most));
  const float total = wave_reduce<kGroups>(factor * of_group.sum, Plus{});
  struct alignas(4 * kEach) Part {
    float value[kEach];
  } part = {};
  GRETA_UNROLL
  for (int group = 0; group < kGroups; ++group) {
    const float of_this = wave_shuffle(factor, lane_id() / kGroups * kGroups + group);
    const auto own = load_as<Part>(&sums[group][h].value[i % kDim]);
    GRETA_UNROLL
    for (int j = 0; j < kEach; ++j) part.value[j] = fmaf(of_this, own.value[j], part.value[j]);
  }
  float* to = partial(static_cast<int>(blockIdx.y));
  if (takes_part) store_as(to + i, part);
  if (takes_part && i % kDim == 0) store_as(to + kHeads * kDim + 4 * h, Softmax{most, total});
  const int own = thread % kHeads;
  if (call_.trace.probs == nullptr || thread >= kGroups * kHeads || own >= n_heads_) return;
  const int n_heads = static_cast<int>(call_.shape.n_heads);
  const int64_t maxima = call_.layout.maxima<kGroups>(static_cast<int>(blockIdx.z),
                                                      static_cast<int>(blockIdx.y), n_heads);
  call_.unfinished[maxima + thread / kHeads * n_heads + head(own)] =
      softmaxes[thread / kHeads][own].most;
}

/// Whether all other splits have left their partials. Blocks without keys do not count.
template <class Stored, int kDim, int kHeads, bool kVectors>
__device__ bool Split<Stored, kDim, kHeads, kVectors>::is_last() const {
  return is_last_block(call_.counters + blockIdx.z * gridDim.x + blockIdx.x, n_splits_);
}

/// Threads share the columns of the heads, and kParts of them the splits of a column; lanes of a
/// group, all splits of a head.
template <class Stored, int kDim, int kHeads, bool kVectors>
__device__ void Split<Stored, kDim, kHeads, kVectors>::combine() const {
  constexpr int kColumns = kHeads * kDim / 4;
  constexpr int kParts = kThreads / kDim;  // whatever kHeads: the order decides bits
  constexpr int kMine = kMostSplits / kParts;
  constexpr int kBatches = kMostSplits / kLanes;
  constexpr int kAtOnce = kMine < 16 ? kMine : 16;  // loads under way
  GRETA_SHARED(Floats4, totals, [kParts][kColumns]);
  GRETA_SHARED(Softmax, of_heads, [kHeads]);
  const auto thread = static_cast<int>(threadIdx.x);
  const bool takes_part = thread < kParts * kColumns;
  const int column = thread % kColumns, h = column / (kDim / 4);
  const int first = takes_part ? thread / kColumns * kMine : 0;
  Floats4 parts[kAtOnce];
  const auto load_parts = [&](int from) {
    GRETA_UNROLL
    for (int s = 0; s < kAtOnce; ++s) {
      const int split = from + s < n_splits_ ? from + s : 0;
      parts[s] = load_as<Floats4>(partial(split) + 4 * column);
    }
  };
  load_parts(first);
  Softmax of_splits[kBatches];
  float most = -INFINITY, sum = 0;
  GRETA_UNROLL
  for (int batch = 0; batch < kBatches; ++batch) {
    const int split = batch * kLanes + lane();
    of_splits[batch] = softmax_of(split < n_splits_ ? split : 0, h);
    if (split >= n_splits_) of_splits[batch] = {-INFINITY, 0};
    most = Max{}(most, of_splits[batch].most);
  }
  most = wave_reduce<kLanes>(most, Max{});
  float factors[kBatches];
  GRETA_UNROLL
  for (int batch = 0; batch < kBatches; ++batch) {
    factors[batch] = exp_f32(of_splits[batch].most + shift_of(most));
    sum = fmaf(factors[batch], of_splits[batch].sum, sum);
  }
  const float share = 1.0f / wave_reduce<kLanes>(sum, Plus{});
  if (lane() == 0 && first == 0) of_heads[h] = {most, share};
  Floats4 total = {};
  for (int from = first; from < first + kMine; from += kAtOnce) {
    if (from > first) load_parts(from);
    GRETA_UNROLL
    for (int s = 0; s < kAtOnce; ++s) {
      float factor = factors[0];
      GRETA_UNROLL
      for (int batch = 1; batch < kBatches; ++batch) {
        if (from + s >= batch * kLanes) factor = factors[batch];
      }
      factor = wave_shuffle(factor * share, lane_id() - lane() + (from + s) % kLanes);
      GRETA_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float next = fmaf(factor, parts[s].value[j], total.value[j]);
        total.value[j] = from + s < n_splits_ ? next : total.value[j];
      }
    }
  }
  if (takes_part) totals[thread / kColumns][column] = total;
  __syncthreads();
  if (call_.trace.probs != nullptr && thread < n_heads_) {
    const int64_t to = call_.layout.head(static_cast<int>(blockIdx.z), head(thread));
    store_as(call_.unfinished + to, of_heads[thread]);
  }
  if (thread >= kColumns || h >= n_heads_) return;
  GRETA_UNROLL
  for (int p = 1; p < kParts; ++p) {
    GRETA_UNROLL
    for (int j = 0; j < 4; ++j) total.value[j] += totals[p][column].value[j];
  }
  const int d = column % (kDim / 4) * 4;
  float* out = call_.out + (token_ * call_.shape.n_heads + head(h)) * head_dim_ + d;
  if constexpr (kVectors) {
    if (d < head_dim_) store_as(out, total);
  } else {
    GRETA_UNROLL
    for (int j = 0; j < 4; ++j) {
      if (d + j < head_dim_) out[j] = total.value[j];
    }
  }
}

}  // namespace greta::attention_valu_detail
