#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/forward/backend.h"
#include "engine/forward/model.h"
#include "kernels/kv_rows.h"

// The KV cache.

namespace greta {

/// f32, f16.
std::string_view kv_type_name(KvType type);
/// Throws std::invalid_argument for another name, with those that there are.
KvType parse_kv_type(std::string_view name);

/// Keys and values of every position so far in the backend's memory. One spare row beyond the
/// capacity, so that a write or a read one row too far stays inside. Behind those of one sequence
/// there can be rows for others that are computed together.
class KvCache {
 public:
  /// shared_rows: of those others, spare ones included. Throws std::invalid_argument when the sizes
  /// do not fit an address space.
  KvCache(const ModelConfig& config, int64_t capacity, Backend& backend, int64_t shared_rows = 0,
          KvType type = KvType::kF32);

  int64_t capacity() const { return capacity_; }  ///< positions
  int64_t rows() const { return capacity_ + 1; }  ///< of the one sequence
  int64_t all_rows() const { return rows() + shared_rows_; }
  int64_t width() const { return width_; }  ///< values of a row: n_kv_heads · head_dim, even
  KvType type() const { return type_; }
  KvRows k(int64_t layer) { return rows_in(k_, layer); }  ///< [all_rows, width]
  KvRows v(int64_t layer) { return rows_in(v_, layer); }

  /// Overwrites rows of every layer with NaN, so that nothing stale can look clean.
  void poison(int64_t first_row, int64_t n_rows);
  /// The same from `row` on to the last of the one sequence.
  void poison_from(int64_t row) { poison(row, rows() - row); }
  /// Copies rows of every layer to where none of them lies.
  void copy(int64_t from, int64_t n_rows, int64_t to);

 private:
  KvRows rows_in(const std::vector<Buffer>& cache, int64_t layer) const {
    return {cache[static_cast<size_t>(layer)].get(), type_};
  }

  Backend& backend_;
  int64_t capacity_;
  int64_t shared_rows_;
  int64_t width_;
  KvType type_;
  std::vector<Buffer> k_, v_;
};

}  // namespace greta
