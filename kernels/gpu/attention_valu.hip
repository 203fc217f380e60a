#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "kernels/gpu/attention.h"
#include "kernels/gpu/attention_device.h"
#include "kernels/gpu/attention_split.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"

// How splits of the keys become one result: what each leaves in scratch, which of them is the last
// to do so, and what that one makes of it all. Device code.

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

/// True if all other splits have left their partials. Blocks without keys do not count.
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

// Decode attention split over the keys ("Flash-Decoding", Dao et al. 2023). Block (b, s, t) takes
// keys [s·S, s·S + S) and up to kHeads query heads that share a KV head, for token t:
//
//   m = max_j s[j],  l = Σ_j e^(s[j] − m),  a[d] = Σ_j e^(s[j] − m)·V[j][d]
//
// and the last block of a token and its heads to finish combines what all have left in scratch:
//
//   M = max m,  w_s = e^(m_s − M) / Σ e^(m_s − M)·l_s,  out[d] = Σ_s w_s·a_s[d]
//
// Traced probabilities are left as e^(s[j] − m') with the maximum m' of the threads that saw key j;
// a later launch multiplies them by e^(m' − M) / Σ e^(m_s − M)·l_s.
//
// Which thread adds what is a matter of the query's position alone. Cache rows are read once, four
// values at a time, and those that have been there for long before the kernels ahead are done.

namespace greta {
namespace {

using namespace attention_valu_detail;

constexpr int kMaxTokens = 16;   // of one launch; bounds the scratch
constexpr int kSharedHeads = 4;  // of a block

// Small heads leave registers for two blocks. The emulator has no launch bounds.
[[maybe_unused]] constexpr int blocks_at_once(int dim, bool vectors) {
  return vectors && dim <= 128 ? 2 : 1;
}

template <class Stored, int kDim, int kHeads, bool kVectors>
__global__ __launch_bounds__(kThreads, blocks_at_once(kDim, kVectors)) void attention_split_kernel(
    const Call call) {
  allow_next();
  Split<Stored, kDim, kHeads, kVectors> split(call);
  if (!split.has_keys()) return;
  if (!split.is_old()) wait_for_previous();
  split.load_first_keys();
  wait_for_previous();
  split.load_queries();
  split.attend();
  split.leave_partial();
  if (split.is_last()) split.combine();
}

constexpr int kFinishedCalls = 64;  // of a launch

struct TraceFinish {
  AttentionShape shape;
  const int32_t* first_pos;
  int64_t first_query, stride;  // of the traces
  int64_t first_token;
  UnfinishedLayout layout;
  struct Trace {
    float* probs;
    const float* unfinished;
  } calls[kFinishedCalls];
};

// Block (c, i, t) finishes kShortSplit keys of call i, all of one split, for token t. Rows of a
// trace that are kGroups apart have the same factors.
template <int kGroups>
__global__ __launch_bounds__(kThreads) void attention_trace_kernel(const TraceFinish finish) {
  constexpr int kRows = kShortSplit / kGroups;
  allow_next();
  const AttentionShape& shape = finish.shape;
  const auto launch_token = static_cast<int>(blockIdx.z);
  const int token = static_cast<int>(finish.first_token) + launch_token;
  const int position = *finish.first_pos + token;
  const int n_scored = scored_keys(shape, position), n_visible = visible_keys(shape, position);
  const int first = static_cast<int>(blockIdx.x) * kShortSplit;
  const int first_key = first_split_key(shape, position);
  if (first >= n_scored || first < first_key) return;
  wait_for_previous();
  const auto& call = finish.calls[blockIdx.y];
  const AttentionTrace traces{nullptr, nullptr, finish.first_query, finish.stride};
  float* trace = traced_block(call.probs, traces, token);
  if (trace == nullptr) return;
  const auto n_heads = static_cast<int>(shape.n_heads);
  trace += int64_t{first} * n_heads;
  // What is not visible stays 0, whatever the share.
  const int n_hidden = (hidden_keys(shape, position) - first) * n_heads;
  const int n = ((n_visible <= position ? n_visible : position + 1) - first) * n_heads;
  const float* heads = call.unfinished + finish.layout.head(launch_token, 0);
  const float* maxima =
      call.unfinished +
      finish.layout.maxima<kGroups>(
          launch_token, (first - first_key) / split_keys_of(n_scored - first_key), n_heads);
  const int period = kGroups * n_heads;
  for (int i = static_cast<int>(threadIdx.x); i < period && i < n; i += kThreads) {
    float weights[kRows];
    GRETA_UNROLL
    for (int row = 0; row < kRows; ++row) {
      const int at = i + row * period;
      weights[row] = trace[at < n ? at : i];
    }
    const float most = maxima[i];
    const auto of_all = load_as<Softmax>(heads + 2 * (i % n_heads));
    const float factor = exp_f32(most + shift_of(of_all.most)) * of_all.sum;
    GRETA_UNROLL
    for (int row = 0; row < kRows; ++row) {
      const int at = i + row * period;
      if (at >= n_hidden && at < n) trace[at] = weights[row] * factor;
    }
  }
}

// ---- The launchers.

// vectors: whether every row of every array can be accessed 16 bytes at a time.
struct Plan {
  int n_heads;        // of a block
  int64_t n_batches;  // of heads, of all KV heads
  int n_keys;         // at most
  int n_splits;
  int64_t n_tokens;  // of one launch

  Plan(const AttentionShape& shape, int64_t max_keys, bool vectors) {
    const int64_t group = shape.n_heads / shape.n_kv_heads;
    // Rows that are loaded value by value, which no model needs, are not worth sharing.
    n_heads = group == 1 || !vectors ? 1 : kSharedHeads;
    n_batches = shape.n_kv_heads * ((group + n_heads - 1) / n_heads);
    if (n_batches > kAttentionCounters) {
      throw std::invalid_argument("attention: " + std::to_string(shape.n_heads) +
                                  " heads are more than there are counters for");
    }
    n_keys = static_cast<int>(keys_at_most(shape, max_keys));
    n_splits = std::min(splits_of(n_keys, kShortSplit), kMostSplits);
    n_tokens = std::min({shape.n_tokens, int64_t{kMaxTokens}, kAttentionCounters / n_batches});
  }
};

UnfinishedLayout layout_of(const Plan& plan, const AttentionShape& shape) {
  const int n_groups =
      with_padded_dim(shape.head_dim, [&]<int kDim>() { return Sizes<kDim>::kGroups; });
  return {shape.n_heads, n_groups, plan.n_splits};
}

// Scratch: the counters, what traces are finished with, partials. Where the first two lie does not
// depend on whether arrays can be accessed in fours.
constexpr size_t kCounterBytes = kAttentionCounters * sizeof(uint32_t);

const float* unfinished_in(const void* scratch) {
  return reinterpret_cast<const float*>(static_cast<const std::byte*>(scratch) + kCounterBytes);
}

// Of some tokens, from finish.first_token on, and of some calls.
void launch_finish(const Plan& plan, const TraceFinish& finish, size_t n_calls, int64_t n_tokens,
                   Stream& stream) {
  const dim3 grid(static_cast<unsigned>(splits_of(plan.n_keys, kShortSplit)),
                  static_cast<unsigned>(n_calls), static_cast<unsigned>(n_tokens));
  LaunchShape shape{"attention_trace", grid, kThreads};
  shape.early = true;
  with_padded_dim(finish.shape.head_dim, [&]<int kDim>() {
    launch(shape, stream, attention_trace_kernel<Sizes<kDim>::kGroups>, finish);
  });
}

TraceFinish finish_of(const Plan& plan, const AttentionShape& shape, const int32_t* first_pos,
                      const AttentionTrace& trace) {
  return {shape, first_pos, trace.first_query, trace.stride, 0, layout_of(plan, shape), {}};
}

template <class Stored, int kDim, int kHeads, bool kVectors>
void launch_splits(const Plan& plan, Call call, bool finished, Stream& stream) {
  TraceFinish finish = finish_of(plan, call.shape, call.first_pos, call.trace);
  finish.calls[0] = {call.trace.probs, call.unfinished};
  const int64_t n_tokens = call.shape.n_tokens;
  for (; call.first_token < n_tokens; call.first_token += plan.n_tokens) {
    const int64_t n = std::min(plan.n_tokens, n_tokens - call.first_token);
    // Splits that a short context does not have come last.
    const dim3 grid(static_cast<unsigned>(plan.n_batches), static_cast<unsigned>(plan.n_splits),
                    static_cast<unsigned>(n));
    LaunchShape shape{"attention_valu", grid, kThreads};
    shape.early = true;
    launch(shape, stream, attention_split_kernel<Stored, kDim, kHeads, kVectors>, call);
    if (!finished || call.trace.probs == nullptr) continue;
    finish.first_token = call.first_token;
    launch_finish(plan, finish, 1, n, stream);
  }
}

void queue_attention(const AttentionShape& shape, const int32_t* first_pos, int64_t max_keys,
                     const float* q, ConstKvRows k, ConstKvRows v, float* out,
                     const AttentionTrace& trace, void* scratch, bool finished, Stream& stream) {
  const bool vectors = keys_in_fours(shape, k) && values_in_fours(shape, v) && aligned16(q, out);
  const Plan plan(shape, max_keys, vectors);
  const UnfinishedLayout layout = layout_of(plan, shape);
  auto* const counters = static_cast<uint32_t*>(scratch);
  auto* const unfinished = reinterpret_cast<float*>(counters + kAttentionCounters);
  float* const partials = unfinished + plan.n_tokens * layout.token_values;
  const Call call{shape, first_pos, q,        k.data,     v.data, out,
                  trace, counters,  partials, unfinished, layout, 0};
  with_stored(k, v, [&]<class Stored>() {
    with_padded_dim(shape.head_dim, [&]<int kDim>() {
      if (!vectors) return launch_splits<Stored, kDim, 1, false>(plan, call, finished, stream);
      if (plan.n_heads == 1) {
        return launch_splits<Stored, kDim, 1, true>(plan, call, finished, stream);
      }
      launch_splits<Stored, kDim, kSharedHeads, true>(plan, call, finished, stream);
    });
  });
}

// Traces of several tokens are finished between launches, which use the same scratch.
AttentionShape checked_shape_of_one(const AttentionShape& shape) {
  if (shape.n_tokens != 1) {
    throw std::invalid_argument("attention: probabilities of " + std::to_string(shape.n_tokens) +
                                " tokens cannot be left unfinished, only of one");
  }
  return checked_shape(shape);
}

}  // namespace

size_t attention_valu_scratch(const AttentionShape& shape, int64_t max_keys) {
  const AttentionShape checked = checked_shape(shape);
  // Blocks of several heads need as much as blocks of one, and up to a whole one more.
  const Plan plan(checked, max_keys, true);
  const int64_t partial = plan.n_heads * with_padded_dim(checked.head_dim, [&]<int kDim>() {
                            return Sizes<kDim>::kPartial;
                          });
  const int64_t token_values =
      layout_of(plan, checked).token_values + plan.n_batches * plan.n_splits * partial;
  return kCounterBytes + sizeof(float) * static_cast<size_t>(plan.n_tokens * token_values);
}

void attention_valu(const AttentionShape& shape, const int32_t* first_pos, int64_t max_keys,
                    const float* q, ConstKvRows k, ConstKvRows v, float* out,
                    const AttentionTrace& trace, void* scratch, Stream& stream) {
  const AttentionShape checked = checked_shape(shape);
  if (checked.n_tokens == 0) return;
  queue_attention(checked, first_pos, max_keys, q, k, v, out, trace, scratch, true, stream);
}

void attention_valu_unfinished(const AttentionShape& shape, const int32_t* first_pos,
                               int64_t max_keys, const float* q, ConstKvRows k, ConstKvRows v,
                               float* out, const AttentionTrace& trace, void* scratch,
                               Stream& stream) {
  const AttentionShape checked = checked_shape_of_one(shape);
  queue_attention(checked, first_pos, max_keys, q, k, v, out, trace, scratch, false, stream);
}

void finish_attention_valu(const AttentionShape& shape, const int32_t* first_pos, int64_t max_keys,
                           const AttentionTrace& trace, std::span<const UnfinishedTrace> calls,
                           Stream& stream) {
  const AttentionShape checked = checked_shape_of_one(shape);
  const Plan plan(checked, max_keys, true);
  TraceFinish finish = finish_of(plan, checked, first_pos, trace);
  while (!calls.empty()) {
    const auto now = calls.first(std::min<size_t>(calls.size(), kFinishedCalls));
    std::transform(now.begin(), now.end(), finish.calls, [](const UnfinishedTrace& call) {
      return TraceFinish::Trace{call.probs, unfinished_in(call.scratch)};
    });
    launch_finish(plan, finish, now.size(), 1, stream);
    calls = calls.subspan(now.size());
  }
}

}  // namespace greta
