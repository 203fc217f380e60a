#include "engine/forward/kv_cache.h"

#include <limits>

namespace greta {

KvCache::KvCache(const ModelConfig& config, int64_t capacity, Backend& backend, int64_t shared_rows)
    : backend_(backend), capacity_(capacity), shared_rows_(shared_rows), width_(config.kv_dim()) {
  for (int64_t layer = 0; layer < config.n_layers; ++layer) {
    k_.push_back(backend.allocate(all_rows() * width_));
    v_.push_back(backend.allocate(all_rows() * width_));
    // A spare row is never written: whoever reads it must not find yesterday's memory.
    const int64_t n = (1 + shared_rows_) * width_;
    backend.fill(k(layer) + capacity_ * width_, n, 0);
    backend.fill(v(layer) + capacity_ * width_, n, 0);
  }
}

void KvCache::poison(int64_t first_row, int64_t n_rows) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (size_t layer = 0; layer < k_.size(); ++layer) {
    backend_.fill(k_[layer].get() + first_row * width_, n_rows * width_, kNan);
    backend_.fill(v_[layer].get() + first_row * width_, n_rows * width_, kNan);
  }
}

void KvCache::copy(int64_t from, int64_t n_rows, int64_t to) {
  if (n_rows == 0) return;
  for (const std::vector<Buffer>* cache : {&k_, &v_}) {
    for (const Buffer& layer : *cache) {
      backend_.copy(layer.get() + from * width_, n_rows * width_, layer.get() + to * width_);
    }
  }
}

}  // namespace greta
