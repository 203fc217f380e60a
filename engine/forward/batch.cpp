#include "engine/forward/batch.h"

#include <stdexcept>
#include <string>

namespace greta {
namespace {

/// Throws std::invalid_argument for stretches that are not the batch's, or not of the cache's.
void check_stretches(const Batch& batch, const BatchLimits& limits) {
  int64_t n_tokens = 0;
  for (const Stretch& one : batch.stretches) {
    n_tokens += one.n_tokens;
    const bool fits = one.n_tokens > 0 && one.first_pos >= 0 && one.cache_row >= 0 &&
                      one.first_pos + one.n_tokens < one.cache_rows &&
                      one.cache_row + one.cache_rows <= limits.cache_rows;
    if (fits) continue;
    throw std::invalid_argument("positions " + std::to_string(one.first_pos) + " to " +
                                std::to_string(one.first_pos + one.n_tokens - 1) +
                                " of a sequence do not fit its " + std::to_string(one.cache_rows) +
                                " rows from " + std::to_string(one.cache_row) +
                                " on in a KV cache of " + std::to_string(limits.cache_rows));
  }
  if (n_tokens != batch.size() || batch.n_logits != 1 || batch.after_top) {
    throw std::invalid_argument("a batch of " + std::to_string(batch.size()) +
                                " tokens whose sequences have " + std::to_string(n_tokens) +
                                ", and logits of the last of each only");
  }
}

}  // namespace

void check_batch(const Batch& batch, const BatchLimits& limits) {
  const int64_t n = batch.size();
  if (n < 1 || n > limits.max_batch) {
    throw std::invalid_argument("a batch of " + std::to_string(n) + " tokens; it must have 1 to " +
                                std::to_string(limits.max_batch));
  }
  const bool of_several = !batch.stretches.empty();
  if (of_several) check_stretches(batch, limits);
  if (!of_several && (batch.first_pos < 0 || batch.first_pos + n > limits.capacity)) {
    throw std::invalid_argument("positions " + std::to_string(batch.first_pos) + " to " +
                                std::to_string(batch.first_pos + n - 1) +
                                " do not fit a KV cache of " + std::to_string(limits.capacity) +
                                " positions; raise --max-seq-len");
  }
  if (batch.n_logits < 1 || batch.n_logits > n) {
    throw std::invalid_argument("logits of " + std::to_string(batch.n_logits) + " of " +
                                std::to_string(n) + " tokens");
  }
  if (batch.after_top && (n != 1 || limits.first_batch)) {
    throw std::invalid_argument("the token after a batch is one, and there must be a batch before");
  }
  for (const int32_t id : batch.tokens) {
    if (batch.after_top) break;
    if (id < 0 || id >= limits.vocab) {
      throw std::invalid_argument("token id " + std::to_string(id) +
                                  " is not in the vocabulary of " + std::to_string(limits.vocab));
    }
  }
}

}  // namespace greta
