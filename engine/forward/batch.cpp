#include "engine/forward/batch.h"

#include <stdexcept>
#include <string>

namespace greta {

void check_batch(const Batch& batch, const BatchLimits& limits) {
  const int64_t n = batch.size();
  if (n < 1 || n > limits.max_batch) {
    throw std::invalid_argument("a batch of " + std::to_string(n) + " tokens; it must have 1 to " +
                                std::to_string(limits.max_batch));
  }
  if (batch.first_pos < 0 || batch.first_pos + n > limits.capacity) {
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
