#include "engine/hip/attention.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

namespace greta {
namespace {

// The next power of two, so that a graph serves many positions.
int64_t most_keys(const AttentionShape& shape) {
  const int64_t needed = std::max<int64_t>(shape.first_pos + shape.n_tokens + shape.mask_shift, 1);
  const auto at_least = static_cast<uint64_t>(std::max<int64_t>(needed, 256));
  return std::min(static_cast<int64_t>(std::bit_ceil(at_least)),
                  std::max(shape.cache_rows, needed));
}

// But for its position, which lies in device memory.
Signature sign(const AttentionShape& shape) {
  return Signature(kAttend, shape.n_heads, shape.n_kv_heads, shape.head_dim, shape.n_tokens,
                   shape.mask_shift, shape.window, shape.cache_rows, shape.scale,
                   shape.modulo_heads, shape.k_head_stride, shape.v_transposed, shape.subtract_max,
                   shape.score_shift);
}

}  // namespace

AttentionCalls::AttentionCalls(Stream& stream, OpQueue& ops, const std::function<void()>& make_room)
    : stream_(stream),
      ops_(ops),
      make_room_(make_room),
      mfma_scratch_("scratch of attention", make_room) {}

void AttentionCalls::begin(bool one_token) {
  one_token_ = one_token;
  unfinished_.clear();
  n_unfinished_ = 0;
}

/// Its counters begin as zeros.
void* AttentionCalls::zeroed(Scratch<std::byte>& scratch, size_t bytes) {
  const size_t before = scratch.size();
  std::byte* const memory = scratch.get(bytes);
  if (scratch.size() != before) set_bytes(memory, bytes, 0, stream_);
  return memory;
}

void* AttentionCalls::valu_scratch(size_t number, size_t bytes) {
  while (valu_scratch_.size() <= number) {
    valu_scratch_.emplace_back("scratch of attention", make_room_);
  }
  return zeroed(valu_scratch_[number], bytes);
}

void AttentionCalls::add(Route route, const AttentionShape& shape, const int32_t* pos,
                         const float* q, ConstKvRows k, ConstKvRows v, float* out,
                         const AttentionTrace& trace) {
  const int64_t max_keys = most_keys(shape);
  auto* run = attention_valu;
  void* scratch = nullptr;
  if (route == Route::kMfma) {
    run = attention_mfma;
    scratch = zeroed(mfma_scratch_, attention_mfma_scratch(shape, max_keys));
  } else if (route == Route::kValu) {
    const bool later = trace.probs != nullptr && one_token_;
    scratch = valu_scratch(later ? 1 + n_unfinished_ : 0, attention_valu_scratch(shape, max_keys));
    if (later) {
      run = attention_valu_unfinished;
      leave_unfinished(shape, pos, max_keys, trace, scratch);
    }
  } else {
    throw std::invalid_argument("the GPU has no route " + std::string(route_name(route)) +
                                " for attention; it has MFMA and VALU");
  }
  const Signature signature(kAttend, sign(shape), static_cast<int>(route), pos, max_keys, q, k, v,
                            out, trace.scores, trace.probs, trace.first_query, scratch);
  ops_.add(signature,
           [=, this] { run(shape, pos, max_keys, q, k, v, out, trace, scratch, stream_); });
}

void AttentionCalls::leave_unfinished(const AttentionShape& shape, const int32_t* pos,
                                      int64_t max_keys, const AttentionTrace& trace,
                                      const void* scratch) {
  // A fault changes the shape of some layers.
  if (unfinished_.empty() || sign(unfinished_.back().shape).value() != sign(shape).value()) {
    unfinished_.push_back({shape, pos, max_keys, trace, {}});
  }
  unfinished_.back().calls.push_back({trace.probs, scratch});
  ++n_unfinished_;
}

void AttentionCalls::end() {
  for (const Unfinished& some : unfinished_) {
    Signature signature(kFinishAttention, sign(some.shape), some.max_keys, some.trace.first_query);
    for (const UnfinishedTrace& call : some.calls) {
      signature.add(call.probs);
      signature.add(call.scratch);
    }
    ops_.add(signature, [this, some] {
      finish_attention_valu(some.shape, some.pos, some.max_keys, some.trace, some.calls, stream_);
    });
  }
  unfinished_.clear();
}

}  // namespace greta
