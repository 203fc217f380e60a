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
//   M = max m,  w_s = e^(m_s − M) / Σ e^(m_s − M)·l_s,  out[d] = Σ_s w_s·a_s[d], s ascending.
//
// Which thread adds what is a matter of the query's position alone. Cache rows are read once, in
// 16-byte loads, those of V on their way before those of K are needed.

namespace greta {
namespace {

using namespace attention_valu_detail;

constexpr int kMaxTokens = 16;  // of one launch; bounds the scratch

template <int kSteps, int kHeads, bool kVectors>
__global__ __launch_bounds__(kThreads,
                             kSteps < 8 ? 2 : 1) void attention_split_kernel(const Call call) {
  GRETA_DYNAMIC_SHARED(float, shared);
  allow_next();
  wait_for_previous();
  Split<kSteps, kHeads, kVectors> split(call, shared);
  if (!split.has_keys()) return;
  split.score();
  split.weigh();
  split.leave_partial();
  if (split.is_last()) split.combine();
}

// ---- The launcher.

// Of any query that has at most n_keys.
int64_t most_splits(int64_t n_keys) {
  int64_t most = 1;
  for (int64_t split_keys = kShortSplit;; split_keys *= 2) {
    const int64_t n = std::min(n_keys, most_keys(split_keys));
    most = std::max(most, (n + split_keys - 1) / split_keys);
    if (n == n_keys) return most;
  }
}

// Of a block. Rows that are loaded value by value, which no model needs, are not worth sharing.
int heads_at_once(const AttentionShape& shape, bool vectors) {
  const int64_t group = shape.n_heads / shape.n_kv_heads;
  if (group == 1 || !vectors) return 1;
  return group <= 4 || shape.head_dim > 64 ? 4 : kMaxHeads;
}

struct Plan {
  int n_heads;        // of a block
  int n_steps;        // of kKeyLanes · 4 values of a head
  int64_t n_batches;  // of heads, of all KV heads
  int64_t n_splits;
  int64_t n_tokens;      // of one launch
  int64_t split_keys;    // at most
  size_t partial_bytes;  // of one launch

  Plan(const AttentionShape& shape, int64_t max_keys, bool vectors) {
    const int64_t n_keys = keys_at_most(shape, max_keys);
    const int64_t group = shape.n_heads / shape.n_kv_heads;
    n_heads = heads_at_once(shape, vectors);
    n_steps = shape.head_dim <= 32 ? 1 : shape.head_dim <= 64 ? 2 : shape.head_dim <= 128 ? 4 : 8;
    n_batches = shape.n_kv_heads * ((group + n_heads - 1) / n_heads);
    n_splits = most_splits(n_keys);
    split_keys = split_keys_of(n_keys);
    if (n_batches > kAttentionCounters) {
      throw std::invalid_argument("attention: " + std::to_string(shape.n_heads) +
                                  " heads are more than there are counters for");
    }
    n_tokens = std::min({shape.n_tokens, int64_t{kMaxTokens}, kAttentionCounters / n_batches});
    const int64_t values =
        n_tokens * n_batches * n_splits * n_heads * (4 * kKeyLanes * n_steps + kStats);
    partial_bytes = static_cast<size_t>(values) * sizeof(float);
  }
};

template <int kSteps, int kHeads, bool kVectors>
void launch_splits(const Plan& plan, Call call, Stream& stream) {
  const int64_t n_tokens = call.shape.n_tokens;
  for (; call.first_token < n_tokens; call.first_token += plan.n_tokens) {
    // Splits that a short context does not have come last.
    const dim3 grid(static_cast<unsigned>(plan.n_batches), static_cast<unsigned>(plan.n_splits),
                    static_cast<unsigned>(std::min(plan.n_tokens, n_tokens - call.first_token)));
    LaunchShape shape{"attention_valu", grid, kThreads,
                      Split<kSteps, kHeads, kVectors>::shared_bytes(plan.split_keys)};
    shape.early = true;
    launch(shape, stream, attention_split_kernel<kSteps, kHeads, kVectors>, call);
  }
}

template <int kSteps>
void launch_steps(const Plan& plan, const Call& call, bool vectors, Stream& stream) {
  if (!vectors) return launch_splits<kSteps, 1, false>(plan, call, stream);
  if (plan.n_heads == 1) return launch_splits<kSteps, 1, true>(plan, call, stream);
  if (plan.n_heads == 4) return launch_splits<kSteps, 4, true>(plan, call, stream);
  if constexpr (kSteps <= 2) launch_splits<kSteps, kMaxHeads, true>(plan, call, stream);
}

constexpr size_t kCounterBytes = kAttentionCounters * sizeof(uint32_t);

}  // namespace

size_t attention_valu_scratch(const AttentionShape& shape, int64_t max_keys) {
  // Blocks of several heads need as much as blocks of one, and up to a whole one more.
  return kCounterBytes + Plan(checked_shape(shape), max_keys, true).partial_bytes;
}

void attention_valu(const AttentionShape& shape, const int32_t* first_pos, int64_t max_keys,
                    const float* q, const float* k, const float* v, float* out,
                    const AttentionTrace& trace, void* scratch, Stream& stream) {
  const AttentionShape checked = checked_shape(shape);
  if (checked.n_tokens == 0) return;
  auto* counters = static_cast<uint32_t*>(scratch);
  auto* partials = reinterpret_cast<float*>(counters + kAttentionCounters);
  const Call call{checked, first_pos, q, k, v, out, trace, counters, partials, 0};
  const bool vectors = keys_in_fours(checked, k) && values_in_fours(checked, v);
  const Plan plan(checked, max_keys, vectors);
  switch (plan.n_steps) {
    case 1:
      return launch_steps<1>(plan, call, vectors, stream);
    case 2:
      return launch_steps<2>(plan, call, vectors, stream);
    case 4:
      return launch_steps<4>(plan, call, vectors, stream);
    default:
      return launch_steps<8>(plan, call, vectors, stream);
  }
}

}  // namespace greta
