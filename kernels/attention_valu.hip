#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/attention.h"
#include "kernels/attention_device.h"
#include "kernels/attention_split.h"
#include "kernels/gpu_runtime.h"

// Decode attention split over the keys ("Flash-Decoding", Dao et al. 2023). Block (b, s, t) takes
// keys [s·S, s·S + S) and up to kHeads query heads that share a KV head, for token t:
//
//   m = max_j s[j],  l = Σ_j e^(s[j] − m),  a[d] = Σ_j e^(s[j] − m)·V[j][d]
//
// and the last block of a token and its heads to finish combines what all have left in scratch:
//
//   M = max m,  w_s = e^(m_s − M) / Σ e^(m_s − M)·l_s,  out[d] = Σ_s w_s·a_s[d]
//
// Which thread adds what is a matter of the query's position alone. Cache rows are read once, in
// 16-byte loads, and those that have been there for long before the kernels ahead are done.

namespace greta {
namespace {

using namespace attention_valu_detail;

constexpr int kMaxTokens = 16;   // of one launch; bounds the scratch
constexpr int kSharedHeads = 4;  // of a block

// Small heads leave registers for two blocks.
constexpr int blocks_at_once(int dim, bool vectors) { return vectors && dim <= 128 ? 2 : 1; }

template <int kDim, int kHeads, bool kVectors>
__global__ __launch_bounds__(kThreads, blocks_at_once(kDim, kVectors)) void attention_split_kernel(
    const Call call) {
  allow_next();
  Split<kDim, kHeads, kVectors> split(call);
  if (!split.has_keys()) return;
  if (!split.is_old()) wait_for_previous();
  split.load_first_keys();
  wait_for_previous();
  split.load_queries();
  split.attend();
  split.leave_partial();
  if (split.is_last()) split.combine();
}

// With the grid of the kernel before it.
template <int kDim, int kHeads, bool kVectors>
__global__ __launch_bounds__(kThreads) void attention_trace_kernel(const Call call) {
  allow_next();
  wait_for_previous();
  const Split<kDim, kHeads, kVectors> split(call);
  if (split.has_keys()) split.finish_trace();
}

// ---- The launcher.

// Whether every row of every array can be accessed 16 bytes at a time.
bool in_fours(const Call& call) {
  return keys_in_fours(call.shape, call.k) && values_in_fours(call.shape, call.v) &&
         aligned16(call.q, call.out);
}

struct Plan {
  int n_heads;        // of a block
  int64_t n_batches;  // of heads, of all KV heads
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
    const auto n_keys = static_cast<int>(keys_at_most(shape, max_keys));
    n_splits = std::min(splits_of(n_keys, kShortSplit), kMostSplits);
    n_tokens = std::min({shape.n_tokens, int64_t{kMaxTokens}, kAttentionCounters / n_batches});
  }
};

template <int kDim, int kHeads, bool kVectors>
void launch_splits(const Plan& plan, Call call, Stream& stream) {
  const int64_t n_tokens = call.shape.n_tokens;
  for (; call.first_token < n_tokens; call.first_token += plan.n_tokens) {
    // Splits that a short context does not have come last.
    const dim3 grid(static_cast<unsigned>(plan.n_batches), static_cast<unsigned>(plan.n_splits),
                    static_cast<unsigned>(std::min(plan.n_tokens, n_tokens - call.first_token)));
    LaunchShape shape{"attention_valu", grid, kThreads};
    shape.early = true;
    launch(shape, stream, attention_split_kernel<kDim, kHeads, kVectors>, call);
    if (call.trace.probs == nullptr) continue;
    shape.name = "attention_trace";
    launch(shape, stream, attention_trace_kernel<kDim, kHeads, kVectors>, call);
  }
}

template <class Function>
void with_padded_dim(int64_t head_dim, Function function) {
  if (head_dim <= 64) return function.template operator()<64>();
  if (head_dim <= 128) return function.template operator()<128>();
  function.template operator()<256>();
}

constexpr size_t kCounterBytes = kAttentionCounters * sizeof(uint32_t);

}  // namespace

size_t attention_valu_scratch(const AttentionShape& shape, int64_t max_keys) {
  const AttentionShape checked = checked_shape(shape);
  // Blocks of several heads need as much as blocks of one, and up to a whole one more.
  const Plan plan(checked, max_keys, true);
  size_t bytes = kCounterBytes;
  with_padded_dim(checked.head_dim, [&]<int kDim>() {
    const int64_t values = plan.n_heads * (kDim + Sizes<kDim>::kStats);
    bytes += sizeof(float) *
             static_cast<size_t>(plan.n_tokens * plan.n_batches * plan.n_splits * values);
  });
  return bytes;
}

void attention_valu(const AttentionShape& shape, const int32_t* first_pos, int64_t max_keys,
                    const float* q, const float* k, const float* v, float* out,
                    const AttentionTrace& trace, void* scratch, Stream& stream) {
  const AttentionShape checked = checked_shape(shape);
  if (checked.n_tokens == 0) return;
  auto* counters = static_cast<uint32_t*>(scratch);
  auto* partials = reinterpret_cast<float*>(counters + kAttentionCounters);
  const Call call{checked, first_pos, q, k, v, out, trace, counters, partials, 0};
  const bool vectors = in_fours(call);
  const Plan plan(checked, max_keys, vectors);
  with_padded_dim(checked.head_dim, [&]<int kDim>() {
    if (!vectors) return launch_splits<kDim, 1, false>(plan, call, stream);
    if (plan.n_heads == 1) return launch_splits<kDim, 1, true>(plan, call, stream);
    launch_splits<kDim, kSharedHeads, true>(plan, call, stream);
  });
}

}  // namespace greta
