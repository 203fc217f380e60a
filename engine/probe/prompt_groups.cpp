#include "engine/probe/prompt_groups.h"

#include <algorithm>
#include <numeric>

namespace greta {

std::vector<size_t> group_sizes(std::span<const int64_t> lengths, const GroupLimits& limits) {
  std::vector<size_t> sizes;
  int64_t tokens = 0;
  for (const int64_t length : lengths) {
    const bool fits = !sizes.empty() && tokens + length <= limits.tokens &&
                      static_cast<int64_t>(sizes.back()) < limits.sequences;
    if (!fits) {
      sizes.push_back(0);
      tokens = 0;
    }
    ++sizes.back();
    tokens += length;
  }
  return sizes;
}

GroupExtent extent_of(std::span<const int64_t> lengths, const GroupLimits& limits) {
  GroupExtent extent;
  size_t first = 0;
  for (const size_t n : group_sizes(lengths, limits)) {
    const auto group = lengths.subspan(first, n);
    const auto sequences = static_cast<int64_t>(n);
    const int64_t tokens = std::accumulate(group.begin(), group.end(), int64_t{0});
    first += n;
    if (n == 1) continue;
    extent.sequences = std::max(extent.sequences, sequences);
    extent.tokens = std::max(extent.tokens, tokens);
    extent.cache_rows = std::max(extent.cache_rows, tokens + sequences);
  }
  return extent;
}

int64_t probe_bytes(const ModelConfig& config, std::span<const int64_t> lengths,
                    const GroupLimits& limits, int64_t kept_bytes) {
  const auto size = static_cast<int64_t>(sizeof(float));
  const GroupExtent extent = extent_of(lengths, limits);
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  const int64_t tokens = std::max(extent.tokens, std::min(longest, limits.tokens));
  const int64_t cache = 2 * config.n_layers * config.kv_dim() * (longest + 1 + extent.cache_rows);
  // What activations hold of a token, and as much again of a backend's own.
  const int64_t token = 8 * config.dim + 3 * config.q_dim() + 3 * config.kv_dim() + config.ffn_dim;
  const int64_t sequence = config.vocab + 2 * config.dim + 2 * (longest + 1) * config.n_heads;
  return size * (cache + 2 * tokens * token + extent.sequences * sequence) +
         extent.sequences * kept_bytes;
}

int64_t sequences_that_fit(const ModelConfig& config, std::span<const int64_t> lengths,
                           GroupLimits limits, int64_t kept_bytes, int64_t free_bytes) {
  constexpr int64_t kReserve = 16;  // one part in so many is left to others
  const int64_t usable = free_bytes - free_bytes / kReserve;
  while (limits.sequences > 1 && probe_bytes(config, lengths, limits, kept_bytes) > usable) {
    limits.sequences /= 2;
  }
  return std::max<int64_t>(limits.sequences, 1);
}

}  // namespace greta
