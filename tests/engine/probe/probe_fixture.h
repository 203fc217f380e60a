#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tests/engine/engine_fixture.h"

// Probes into memory, with every value of every row.

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
  Probe probe(engine.model, engine.weights, *engine.backend, n, options);
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

}  // namespace greta
