#include "kernels/cpu/attention_call.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/blocks.h"

namespace greta {
namespace {

constexpr int64_t kRowsPerPiece = 64;
constexpr int64_t kFewQueries = 4;

[[noreturn]] void refuse(const std::string& why) {
  throw std::invalid_argument("attention: " + why);
}

AttentionShape checked(const AttentionShape& s) {
  const AttentionShape shape = consistent_shape(s);
  if (s.first_pos < 0 || s.first_pos > s.cache_rows - s.n_tokens) {
    refuse(std::to_string(s.n_tokens) + " tokens from position " + std::to_string(s.first_pos) +
           " on are not in a cache of " + std::to_string(s.cache_rows) + " rows");
  }
  return shape;
}

void check_trace(const AttentionShape& s, const AttentionTrace& trace) {
  if (trace.scores == nullptr && trace.probs == nullptr) return;
  if (trace.first_query < 0) refuse("a trace from a negative query on");
  const bool several = s.n_tokens - trace.first_query > 1;
  if (several && trace.stride / s.n_heads < s.first_pos + s.n_tokens) {
    refuse("traced queries " + std::to_string(trace.stride) + " values apart overlap");
  }
}

}  // namespace

/// function(rows) with the rows as what they are stored as.
template <class Function>
auto with_stored(const ConstKvRows& rows, Function function) {
  if (rows.type == KvType::kF16) return function(static_cast<const uint16_t*>(rows.data));
  return function(static_cast<const float*>(rows.data));
}

float value_of(float stored) { return stored; }
float value_of(uint16_t stored) { return f16_to_f32(stored); }

AttentionCall::AttentionCall(const AttentionShape& shape, const float* q, ConstKvRows k,
                             ConstKvRows v, float* out, const AttentionTrace& trace, Isa isa)
    : shape_(checked(shape)),
      q_(q),
      k_(k),
      v_(v),
      out_(out),
      trace_(trace),
      isa_(isa),
      kernels_(GRETA_SELECT_KERNELS(isa, attention_kernels)) {
  check_trace(shape_, trace_);
  if (k.type != v.type) refuse("K and V are stored as different types");
}

SeenKeys AttentionCall::visible(int64_t t) const {
  const int64_t end = std::min(position(t) + 1 + shape_.mask_shift, shape_.cache_rows);
  const int64_t begin = shape_.window == 0 ? 0 : position(t) + 1 - shape_.window;
  return {std::clamp<int64_t>(begin, 0, end), end};
}

int64_t AttentionCall::n_scored(int64_t t) const {
  return std::max(visible(t).end, position(t) + 1);
}

int64_t AttentionCall::first_scored(int64_t t) const {
  const bool is_traced =
      traced(Traced::kScores, t, 0) != nullptr || traced(Traced::kProbs, t, 0) != nullptr;
  return is_traced ? 0 : visible(t).begin / kBlockKeys * kBlockKeys;
}

int64_t AttentionCall::first_key() const {
  return shape_.n_tokens == 0 ? 0 : std::min(first_scored(0), first_scored(shape_.n_tokens - 1));
}

int64_t AttentionCall::n_keys() const {
  return shape_.n_tokens == 0 ? 0 : n_scored(shape_.n_tokens - 1);
}

void AttentionCall::load_query(int64_t t, int64_t h, float* to) const {
  const float* from = q_ + (t * shape_.n_heads + h) * shape_.head_dim;
  std::copy_n(from, shape_.head_dim, to);
  std::fill(to + shape_.head_dim, to + dim(), 0.0f);
}

void AttentionCall::store_output(int64_t t, int64_t h, const float* from) const {
  std::copy_n(from, shape_.head_dim, out_ + (t * shape_.n_heads + h) * shape_.head_dim);
}

float* AttentionCall::traced(Traced what, int64_t t, int64_t h) const {
  float* array = what == Traced::kScores ? trace_.scores : trace_.probs;
  if (array == nullptr || t < trace_.first_query) return nullptr;
  return array + (t - trace_.first_query) * trace_.stride + h;
}

// Several queries are worth a copy: a head's rows in the cache are a power of two apart as often
// as not, and then share a few sets of the nearest cache.
bool AttentionCall::rows_can_stay() const {
  return shape_.n_tokens <= kFewQueries && dim() == shape_.head_dim && k_.type == KvType::kF32;
}

// Whether every K head lies within its row, so that it can be read where it stands.
bool AttentionCall::keys_stand_apart() const {
  return (shape_.n_kv_heads - 1) * shape_.k_head_stride + shape_.head_dim <= row_values();
}

// One K head to `to` [head_dim]; it may go round the end of its row.
template <class Stored>
void AttentionCall::load_key(const Stored* keys, int64_t row, int64_t g, float* to) const {
  const Stored* values = keys + row * row_values();
  const int64_t first = g * shape_.k_head_stride;
  if (keys_stand_apart()) {
    for (int64_t d = 0; d < shape_.head_dim; ++d) to[d] = value_of(values[first + d]);
    return;
  }
  for (int64_t d = 0; d < shape_.head_dim; ++d) {
    to[d] = value_of(values[(first + d) % row_values()]);
  }
}

template <class Stored>
void AttentionCall::load_value(const Stored* values, int64_t row, int64_t g, float* to) const {
  const int64_t head_step = shape_.v_transposed ? 1 : shape_.head_dim;
  const int64_t value_step = shape_.v_transposed ? shape_.n_kv_heads : 1;
  const Stored* from = values + row * row_values() + g * head_step;
  for (int64_t d = 0; d < shape_.head_dim; ++d) to[d] = value_of(from[d * value_step]);
}

// load(row, g, to) writes a head to `to` [head_dim].
template <class Load>
HeadRows AttentionCall::copy_rows(ThreadScratch& scratch, ThreadPool& pool, Load load) const {
  const int64_t n_rows = n_keys(), first = first_key(), n_needed = n_rows - first;
  const int64_t width = dim();
  float* all = scratch.get(shape_.n_kv_heads * n_rows * width);
  pool.run(shape_.n_kv_heads * n_needed, kRowsPerPiece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = first + i % n_needed, g = i / n_needed;
      float* to = all + (g * n_rows + row) * width;
      load(row, g, to);
      std::fill(to + shape_.head_dim, to + width, 0.0f);
    }
  });
  return {all, n_rows * width, width};
}

HeadRows AttentionCall::keys(ThreadScratch& scratch, ThreadPool& pool) const {
  if (rows_can_stay() && keys_stand_apart()) {
    return {static_cast<const float*>(k_.data), shape_.k_head_stride, row_values()};
  }
  return with_stored(k_, [&](const auto* keys) {
    return copy_rows(scratch, pool,
                     [=, this](int64_t row, int64_t g, float* to) { load_key(keys, row, g, to); });
  });
}

HeadRows AttentionCall::values(ThreadScratch& scratch, ThreadPool& pool) const {
  if (rows_can_stay() && !shape_.v_transposed) {
    return {static_cast<const float*>(v_.data), shape_.head_dim, row_values()};
  }
  return with_stored(v_, [&](const auto* values) {
    return copy_rows(scratch, pool, [=, this](int64_t row, int64_t g, float* to) {
      load_value(values, row, g, to);
    });
  });
}

const float* AttentionCall::key_blocks(ThreadScratch& scratch, ThreadPool& pool) const {
  const int64_t block_values = dim() * kBlockKeys;
  const int64_t first_block = first_key() / kBlockKeys, n_needed = n_blocks() - first_block;
  float* all = scratch.get(shape_.n_kv_heads * n_blocks() * block_values);
  pool.run(shape_.n_kv_heads * n_needed, 1, [&](int64_t begin, int64_t end) {
    thread_local ThreadScratch gathered;
    float* head = gathered.get(shape_.head_dim);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t number = first_block + i % n_needed, g = i / n_needed;
      float* block = all + (g * n_blocks() + number) * block_values;
      const int64_t first = number * kBlockKeys;
      const int64_t n = std::min(kBlockKeys, n_keys() - first);
      if (n < kBlockKeys) std::fill_n(block, block_values, 0.0f);
      std::fill(block + shape_.head_dim * kBlockKeys, block + block_values, 0.0f);
      for (int64_t j = 0; j < n; ++j) {
        with_stored(k_, [&](const auto* keys) { load_key(keys, first + j, g, head); });
        for (int64_t d = 0; d < shape_.head_dim; ++d) block[d * kBlockKeys + j] = head[d];
      }
    }
  });
  return all;
}

}  // namespace greta
