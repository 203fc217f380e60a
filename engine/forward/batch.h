#pragma once

#include <cstdint>
#include <span>

#include "engine/forward/fault.h"

namespace greta {

/// Consecutive tokens of one sequence, as part of a batch.
struct Stretch {
  int64_t n_tokens = 0;
  int64_t first_pos = 0;
  int64_t cache_row = 0;   ///< of the KV cache, which has the sequence's position 0
  int64_t cache_rows = 0;  ///< from there on that are the sequence's, a spare one included
};

/// One batch of consecutive tokens, or of several sequences.
struct Batch {
  std::span<const int32_t> tokens;  ///< 1 .. max_batch ids, all below vocab
  /// Of several sequences, whose tokens follow each other; empty: of one, at first_pos, which has
  /// the cache from its first row on. Of several, faults go by the first one's moment.
  std::span<const Stretch> stretches = {};
  /// The one token is the greatest of the batch before, whatever `tokens` says: it need not be
  /// known.
  bool after_top = false;
  int64_t first_pos = 0;
  bool decode = false;   ///< which routes and faults apply
  bool keep_kv = true;   ///< false: K and V are computed and traced, the cache stays as it is
  int64_t n_logits = 1;  ///< logits of the last n_logits tokens; of several sequences 1, of each
  int64_t step = 0;      ///< of decode, and
  int64_t n_prompt = 0;  ///< tokens of the prompt: what the onset of a fault goes by
  int64_t repeat = 0;    ///< how often the prompt ran before: a race comes out otherwise

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  Moment moment() const { return {first_pos, step, n_prompt}; }
};

/// What a batch must fit.
struct BatchLimits {
  int64_t max_batch = 0;     ///< tokens
  int64_t capacity = 0;      ///< positions of the KV cache
  int64_t cache_rows = 0;    ///< of all sequences
  int64_t vocab = 0;         ///< ids of the vocabulary
  bool first_batch = false;  ///< there is none before
};

/// Throws std::invalid_argument for a batch that does not fit, with the numbers.
void check_batch(const Batch& batch, const BatchLimits& limits);

}  // namespace greta
