#pragma once

#include <algorithm>
#include <functional>

#include "kernels/blocks.h"
#include "kernels/gpu/attention.h"
#include "tests/kernels/gpu/gpu_test.h"

// What the tests of both routes of attention share.

namespace greta::attention_test {

enum class Route { kValu, kMfma };

struct Input {
  AttentionShape shape;
  Values q, k, v;
};

struct Result {
  Values out, scores, probs;
  bool operator==(const Result& other) const {
    return bits_of(out) == bits_of(other.out) && bits_of(scores) == bits_of(other.scores) &&
           bits_of(probs) == bits_of(other.probs);
  }
};

inline AttentionShape shape_of(int64_t n_heads, int64_t n_kv_heads, int64_t head_dim,
                               int64_t n_tokens, int64_t first_pos) {
  AttentionShape shape;
  shape.n_heads = n_heads;
  shape.n_kv_heads = n_kv_heads;
  shape.head_dim = head_dim;
  shape.n_tokens = n_tokens;
  shape.first_pos = first_pos;
  shape.cache_rows = first_pos + n_tokens + 2;
  shape.scale = 1 / std::sqrt(static_cast<float>(head_dim));
  shape.k_head_stride = head_dim;
  return shape;
}

// The rows that no query sees are NaN, but for keys that a window hides: these are still scored.
inline Input random_input(const AttentionShape& shape, uint32_t seed = 1) {
  const auto row = static_cast<size_t>(shape.n_kv_heads * shape.head_dim);
  Input input{
      shape,
      bell_values(seed, static_cast<size_t>(shape.n_tokens * shape.n_heads * shape.head_dim), 1.5),
      bell_values(seed + 1, static_cast<size_t>(shape.cache_rows) * row),
      bell_values(seed + 2, static_cast<size_t>(shape.cache_rows) * row)};
  const auto n_seen = static_cast<size_t>(std::min(
      shape.first_pos + shape.n_tokens + std::max<int64_t>(shape.mask_shift, 0), shape.cache_rows));
  std::fill(input.k.begin() + static_cast<std::ptrdiff_t>(n_seen * row), input.k.end(), kNan);
  std::fill(input.v.begin() + static_cast<std::ptrdiff_t>(n_seen * row), input.v.end(), kNan);
  if (shape.window > 0) {
    const auto n_hidden =
        static_cast<size_t>(std::max<int64_t>(shape.first_pos + 1 - shape.window, 0));
    std::fill_n(input.v.begin(), n_hidden * row, kNan);
  }
  return input;
}

inline size_t trace_stride(const AttentionShape& shape) {
  return static_cast<size_t>(shape.n_heads * (shape.first_pos + shape.n_tokens));
}
inline size_t trace_values(const AttentionShape& shape, int64_t first_query) {
  return trace_stride(shape) *
         static_cast<size_t>(std::max<int64_t>(shape.n_tokens - first_query, 0));
}

inline std::vector<uint16_t> halves_of(const Values& values) {
  std::vector<uint16_t> halves(values.size());
  std::transform(values.begin(), values.end(), halves.begin(), f32_to_f16);
  return halves;
}

// Values that stay as they are where nothing is written.
inline constexpr float kUntouched = 12345.0f;

class GpuAttention : public GpuTest {
 protected:
  struct Options {
    int64_t spare_keys = 0;  // that max_keys counts beyond what is seen
    bool trace = true;
    int64_t first_query = 0;
    bool halves = false;  // the cache is f16
  };

  Result run(Route route, const Input& input, Options options) {
    const AttentionShape& shape = input.shape;
    const auto q = upload(input.q), k = upload(input.k), v = upload(input.v);
    const auto half_k = upload(halves_of(input.k)), half_v = upload(halves_of(input.v));
    const auto rows = [&](const auto& values, const auto& halves) {
      return options.halves ? ConstKvRows(halves.data()) : ConstKvRows(values.data());
    };
    const auto first_pos = upload(std::vector<int32_t>{static_cast<int32_t>(shape.first_pos)});
    auto out = upload(Values(input.q.size(), kUntouched));
    const size_t n_traced = options.trace ? trace_values(shape, options.first_query) : 0;
    auto scores = upload(Values(n_traced, kUntouched)),
         probs = upload(Values(n_traced, kUntouched));
    AttentionTrace trace;
    if (options.trace) {
      trace = {scores.data(), probs.data(), options.first_query,
               static_cast<int64_t>(trace_stride(shape))};
    }
    AttentionShape without_pos = shape;
    without_pos.first_pos = 0;  // what counts lies in memory
    const int64_t max_keys =
        shape.first_pos + shape.n_tokens + shape.mask_shift + options.spare_keys;
    const bool valu = route == Route::kValu;
    auto scratch = buffer<uint8_t>(valu ? attention_valu_scratch(without_pos, max_keys)
                                        : attention_mfma_scratch(without_pos, max_keys));
    set_bytes(scratch.data(), kAttentionCounters * sizeof(uint32_t), 0, stream_);
    const auto attention = valu ? attention_valu : attention_mfma;
    attention(without_pos, first_pos.data(), max_keys, q.data(), rows(k, half_k), rows(v, half_v),
              out.data(), trace, scratch.data(), stream_);
    const auto after = download(scratch);
    for (size_t i = 0; i < kAttentionCounters * sizeof(uint32_t); ++i) EXPECT_EQ(after[i], 0);
    return {download(out), download(scores), download(probs)};
  }
  Result run(Route route, const Input& input) { return run(route, input, Options{}); }
};

class GpuAttentionRoutes : public GpuAttention, public testing::WithParamInterface<Route> {
 protected:
  Result run(const Input& input) { return GpuAttention::run(GetParam(), input, Options{}); }
  Result run(const Input& input, Options options) {
    return GpuAttention::run(GetParam(), input, options);
  }
};

#define GRETA_BOTH_ROUTES(suite)                                \
  INSTANTIATE_TEST_SUITE_P(                                     \
      Both, suite, testing::Values(Route::kValu, Route::kMfma), \
      [](const auto& route) { return route.param == Route::kValu ? "Valu" : "Mfma"; })

// What a shape says otherwise; the CPU does the same with it.
struct Fault {
  const char* name;
  std::function<void(AttentionShape&)> inject;
};

inline const std::vector<Fault>& faults() {
  static const std::vector<Fault> all{
      {"mask hides the own key", [](AttentionShape& s) { s.mask_shift = -1; }},
      {"mask shows the next key", [](AttentionShape& s) { s.mask_shift = 1; }},
      {"mask stops at the cache's end",
       [](AttentionShape& s) {
         s.mask_shift = 1;
         s.cache_rows = s.first_pos + s.n_tokens;
       }},
      {"modulo heads", [](AttentionShape& s) { s.modulo_heads = true; }},
      {"stride of two heads", [](AttentionShape& s) { s.k_head_stride *= 2; }},
      {"odd stride", [](AttentionShape& s) { s.k_head_stride += 3; }},
      {"stride of a row and more",
       [](AttentionShape& s) { s.k_head_stride = (s.n_kv_heads + 1) * s.head_dim + 4; }},
      {"V transposed", [](AttentionShape& s) { s.v_transposed = true; }},
      {"no maximum",
       [](AttentionShape& s) {
         s.subtract_max = false;
         s.score_shift = 0.5f;
       }},
      {"negative scale", [](AttentionShape& s) { s.scale = -s.scale; }},
      {"window", [](AttentionShape& s) { s.window = 41; }},
      {"window of one key", [](AttentionShape& s) { s.window = 1; }},
      {"window, and the mask hides the own key",
       [](AttentionShape& s) {
         s.window = 40;
         s.mask_shift = -1;
       }},
      {"window, and the mask shows the next key",
       [](AttentionShape& s) {
         s.window = 2;
         s.mask_shift = 1;
       }},
      {"window without a maximum",
       [](AttentionShape& s) {
         s.window = 33;
         s.subtract_max = false;
         s.score_shift = 0.5f;
       }},
  };
  return all;
}

}  // namespace greta::attention_test
