#pragma once

#include <cstdint>
#include <vector>

#include "engine/forward/backend.h"
#include "engine/forward/model.h"

namespace greta {

/// Keys and values of every position so far, f32, in the backend's memory. One spare row beyond the
/// capacity, so that a write or a read one row too far stays inside.
class KvCache {
 public:
  /// Throws std::invalid_argument when the sizes do not fit an address space.
  KvCache(const ModelConfig& config, int64_t capacity, Backend& backend);

  int64_t capacity() const { return capacity_; }  ///< positions
  int64_t rows() const { return capacity_ + 1; }
  int64_t width() const { return width_; }  ///< values of a row: n_kv_heads · head_dim
  float* k(int64_t layer) { return k_[static_cast<size_t>(layer)].get(); }  ///< [rows, width]
  float* v(int64_t layer) { return v_[static_cast<size_t>(layer)].get(); }

  /// Overwrites all rows from `row` on with NaN, so that nothing stale can look clean.
  void poison_from(int64_t row);

 private:
  Backend& backend_;
  int64_t capacity_;
  int64_t width_;
  std::vector<Buffer> k_, v_;
};

}  // namespace greta
