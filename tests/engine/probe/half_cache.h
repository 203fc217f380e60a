#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/blocks.h"
#include "tests/engine/probe/probe_fixture.h"

// What has to hold of a probe whose KV cache is f16, on any backend.

namespace greta {

inline std::vector<float> rounded_to_f16(std::vector<float> values) {
  for (float& value : values) value = f16_to_f32(f32_to_f16(value));
  return values;
}

/// In a probe whose samples are whole rows: the cache's rows are what RoPE and the product gave,
/// rounded, and those of all positions are the ones that each position was traced with.
inline void expect_rounded_cache(const MemorySink& sink, Phase phase, int n_layers, int64_t n_pos) {
  using enum TracePoint;
  for (int layer = 0; layer < n_layers; ++layer) {
    std::vector<float> all_k, all_v;
    for (int64_t pos = 0; pos < n_pos; ++pos) {
      const bool last = pos == n_pos - 1;
      const auto rows = sink.of(last ? phase : Phase::kPrefill, pos);
      const auto& k = rows.at({kKCache, layer})->sample;
      const auto& v = rows.at({kVCache, layer})->sample;
      EXPECT_EQ(k, rounded_to_f16(rows.at({kKPostRope, layer})->sample)) << layer << ", " << pos;
      EXPECT_EQ(v, rounded_to_f16(rows.at({kVProj, layer})->sample)) << layer << ", " << pos;
      all_k.insert(all_k.end(), k.begin(), k.end());
      all_v.insert(all_v.end(), v.begin(), v.end());
      if (!last) continue;
      EXPECT_EQ(rows.at({kKCacheRows, layer})->sample, all_k) << layer;
      EXPECT_EQ(rows.at({kVCacheRows, layer})->sample, all_v) << layer;
    }
  }
}

inline ProbeOptions half_cache_options(const TestEngine& engine, Mode mode) {
  ProbeOptions options = probe_options(engine, mode);
  options.forward.kv_cache = KvType::kF16;
  options.selection.phases.push_back(Phase::kPrefill);
  return options;
}

/// Both sides of a probe in batch_invariant are alike in every bit, decoded tokens too.
inline void expect_half_cache_is_invariant(const TestModel& model, const TestEngine& engine) {
  ProbeOptions options = half_cache_options(engine, Mode::kBatchInvariant);
  options.forward.max_batch = 5;
  options.decode_steps = 3;
  const int64_t n = 7;
  const MemorySink sink = run_probe(engine, options, model.tokens(n));
  for (int64_t pos = n - 1; pos < n + 3; ++pos) {
    for (const RowKey& key : differences(sink, pos)) ADD_FAILURE() << pos << ": " << row_name(key);
  }
  for (const TraceRecord& row : sink.records) EXPECT_TRUE(is_finite(row.fingerprint));
  const auto n_layers = static_cast<int>(model.config().n_layers);
  expect_rounded_cache(sink, Phase::kPrefillLast, n_layers, n);
  expect_rounded_cache(sink, Phase::kDecode0, n_layers, n);
}

}  // namespace greta
