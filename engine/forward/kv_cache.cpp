#include "engine/forward/kv_cache.h"

#include <limits>

namespace greta {

KvCache::KvCache(const ModelConfig& config, int64_t capacity, Backend& backend)
    : backend_(backend), capacity_(capacity), width_(config.kv_dim()) {
  for (int64_t layer = 0; layer < config.n_layers; ++layer) {
    k_.push_back(backend.allocate(rows() * width_));
    v_.push_back(backend.allocate(rows() * width_));
    // The spare row is never written: whoever reads it must not find yesterday's memory.
    backend.fill(k(layer) + capacity_ * width_, width_, 0);
    backend.fill(v(layer) + capacity_ * width_, width_, 0);
  }
}

void KvCache::poison_from(int64_t row) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (size_t layer = 0; layer < k_.size(); ++layer) {
    backend_.fill(k_[layer].get() + row * width_, (rows() - row) * width_, kNan);
    backend_.fill(v_[layer].get() + row * width_, (rows() - row) * width_, kNan);
  }
}

}  // namespace greta
