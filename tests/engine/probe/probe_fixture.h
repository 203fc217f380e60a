#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/blocks.h"
#include "tests/engine/engine_fixture.h"

// Probes into memory, with every value of every row.

// Differences that a probe took on its device, against those of the whole rows that it left.

// Properties of a probe whose KV cache is f16, on any backend.

namespace greta {

inline constexpr int64_t kWholeRows = 1 << 20;  // samples of so many values hold every row

inline ProbeOptions probe_options(const TestEngine& engine, Mode mode) {
  ProbeOptions options{.forward = engine.options(mode), .selection = {}};
  options.selection.sample_values = kWholeRows;
  options.n_threads = 1;
  return options;
}

inline MemorySink run_probe(const TestEngine& engine, const ProbeOptions& options,
                            std::vector<int32_t> tokens) {
  MemorySink sink;
  const auto n = static_cast<int64_t>(tokens.size()) + options.decode_steps;
  Probe probe(engine.model, engine.weights, *engine.backend, n + 1, options);
  for (const Fault& fault : options.forward.faults.all()) {
    if (fault.kind != FaultKind::kRopeThetaKept) continue;
    MemorySink longer;
    probe.run({.name = "longer", .text_sha256 = "", .tokens = std::vector(tokens.size() + 1, 1)},
              longer);
  }
  probe.run({.name = "p", .text_sha256 = "", .tokens = std::move(tokens)}, sink);
  return sink;
}

/// Where both sides of a run differ in any bit, in forward order. pos: the position, where tokens
/// were decoded after the prompt.
inline std::vector<RowKey> differences(const MemorySink& sink, std::optional<int64_t> pos = {}) {
  const auto prefill = sink.of(Phase::kPrefillLast, pos);
  auto decode = sink.of(Phase::kDecode0, pos);
  if (decode.empty()) decode = sink.of(Phase::kDecode, pos);
  EXPECT_EQ(prefill.size(), decode.size());
  std::vector<RowKey> differ;
  for (const auto& [key, row] : prefill) {
    const auto other = decode.find(key);
    if (other == decode.end()) {
      ADD_FAILURE() << "decode has no " << row_name(key);
    } else if (!same_bits(row->fingerprint, other->second->fingerprint)) {
      differ.push_back(key);
    }
  }
  std::sort(differ.begin(), differ.end(), runs_before);
  return differ;
}

/// The difference of two rows in plain double arithmetic, NULL where both are the same.
inline void expect_difference(const TraceRecord& prefill, const TraceRecord& decode,
                              const PairDifference* got) {
  const std::string name =
      row_name({prefill.point, prefill.layer}) + " at position " + std::to_string(prefill.pos_id);
  const bool same = same_bits(prefill.fingerprint, decode.fingerprint);
  ASSERT_EQ(got == nullptr, same) << name;
  if (same) return;
  const std::vector<float>&x = prefill.sample, &y = decode.sample;
  ASSERT_EQ(x.size(), prefill.fingerprint.n) << name;
  ASSERT_EQ(x.size(), y.size()) << name;
  int64_t differing = 0, first = -1, last = -1;
  double distance = 0, x_norm = 0, y_norm = 0, greatest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = static_cast<double>(x[i]), b = static_cast<double>(y[i]);
    x_norm += a * a;
    y_norm += b * b;
    distance += (a - b) * (a - b);
    greatest = std::max(greatest, std::fabs(a - b));
    if (std::memcmp(&x[i], &y[i], sizeof(float)) == 0) continue;
    if (differing++ == 0) first = static_cast<int64_t>(i);
    last = static_cast<int64_t>(i);
  }
  EXPECT_EQ(got->prefill_hash, prefill.fingerprint.hash) << name;
  EXPECT_EQ(got->decode_hash, decode.fingerprint.hash) << name;
  EXPECT_EQ(got->values.n, static_cast<int64_t>(x.size())) << name;
  EXPECT_EQ(got->values.differing, differing) << name;
  EXPECT_EQ(got->values.first, first) << name;
  EXPECT_EQ(got->values.last, last) << name;
  EXPECT_EQ(got->values.max_abs, greatest) << name;
  ASSERT_TRUE(got->rel_l2().has_value()) << name;
  const double expected = std::sqrt(distance / std::max(x_norm, y_norm));
  EXPECT_NEAR(*got->rel_l2() / expected, 1, 1e-12) << name;
  const std::vector<double> shares = got->shares();
  double whole = 0;
  for (double share : shares) whole += share;
  EXPECT_NEAR(whole, 1, 1e-12) << name;
}

/// Every pair of the sink has its exact difference, in the record that came second. Returns how
/// many differ.
inline int64_t expect_exact(const MemorySink& sink) {
  std::map<std::tuple<int64_t, TracePoint, int>, const TraceRecord*> firsts;
  int64_t n_different = 0;
  for (const TraceRecord& record : sink.records) {
    if (record.phase == Phase::kPrefill) continue;
    const auto [first, is_new] =
        firsts.emplace(std::tuple(record.pos_id, record.point, record.layer), &record);
    if (is_new) {
      EXPECT_EQ(record.difference, nullptr);
      continue;
    }
    const bool decode = is_decode(record.phase);
    expect_difference(decode ? *first->second : record, decode ? record : *first->second,
                      record.difference.get());
    n_different += record.difference ? 1 : 0;
  }
  return n_different;
}

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
