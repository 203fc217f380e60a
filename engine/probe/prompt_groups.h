#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/forward/model.h"

// Which prompts of a suite are computed together.

namespace greta {

/// Sequences that a batch has at most where nobody says how many: more gain nothing.
inline constexpr int64_t kMostSequences = 64;

/// What a group of prompts must fit.
struct GroupLimits {
  int64_t sequences = 1;
  int64_t tokens = 0;  ///< of all; a prompt that has more is alone
};

/// Prompts in their order, some together: how many each group has. lengths: their tokens, with
/// those decoded after them.
std::vector<size_t> group_sizes(std::span<const int64_t> lengths, const GroupLimits& limits);

/// Sizes of the largest groups.
struct GroupExtent {
  int64_t sequences = 1;
  int64_t tokens = 0;
  int64_t cache_rows = 0;  ///< of groups of several, a spare one for each
};
GroupExtent extent_of(std::span<const int64_t> lengths, const GroupLimits& limits);

/// Bytes that a probe takes of a backend at most, about, but for the weights. kept_bytes: for the
/// rows of each sequence that wait for their other side.
int64_t probe_bytes(const ModelConfig& config, std::span<const int64_t> lengths,
                    const GroupLimits& limits, int64_t kept_bytes);

/// Sequences, at most limits.sequences, that fit free_bytes, with a reserve; at least one.
int64_t sequences_that_fit(const ModelConfig& config, std::span<const int64_t> lengths,
                           GroupLimits limits, int64_t kept_bytes, int64_t free_bytes);

}  // namespace greta
