#include "engine/forward/kv_cache.h"

#include <bit>
#include <limits>
#include <stdexcept>
#include <string>

namespace greta {

std::string_view kv_type_name(KvType type) { return type == KvType::kF16 ? "f16" : "f32"; }

KvType parse_kv_type(std::string_view name) {
  for (const KvType type : {KvType::kF32, KvType::kF16}) {
    if (name == kv_type_name(type)) return type;
  }
  throw std::invalid_argument("unknown type of a KV cache: " + std::string(name) +
                              "; there are f32 and f16");
}

KvCache::KvCache(const ModelConfig& config, int64_t capacity, Backend& backend, int64_t shared_rows,
                 KvType type)
    : backend_(backend),
      capacity_(capacity),
      shared_rows_(shared_rows),
      width_(config.kv_dim()),
      type_(type) {
  const auto n_words =
      static_cast<int64_t>(words_of(KvRows(nullptr, type_), all_rows() * width_).size());
  for (int64_t layer = 0; layer < config.n_layers; ++layer) {
    k_.push_back(backend.allocate(n_words));
    v_.push_back(backend.allocate(n_words));
    // A spare row is never written: whoever reads it must not find yesterday's memory.
    for (const KvRows& rows : {k(layer), v(layer)}) {
      const auto spare = words_of(rows + capacity_ * width_, (1 + shared_rows_) * width_);
      backend.fill(spare.data(), std::ssize(spare), 0);
    }
  }
}

void KvCache::poison(int64_t first_row, int64_t n_rows) {
  constexpr uint32_t kTwoNans = 0x7e007e00;
  const float nan = type_ == KvType::kF16 ? std::bit_cast<float>(kTwoNans)
                                          : std::numeric_limits<float>::quiet_NaN();
  for (int64_t layer = 0; layer < std::ssize(k_); ++layer) {
    for (const KvRows& rows : {k(layer), v(layer)}) {
      const auto words = words_of(rows + first_row * width_, n_rows * width_);
      backend_.fill(words.data(), std::ssize(words), nan);
    }
  }
}

void KvCache::copy(int64_t from, int64_t n_rows, int64_t to) {
  if (n_rows == 0) return;
  for (int64_t layer = 0; layer < std::ssize(k_); ++layer) {
    for (const KvRows& rows : {k(layer), v(layer)}) {
      const auto words = words_of(rows + from * width_, n_rows * width_);
      backend_.copy(words.data(), std::ssize(words), words_of(rows + to * width_, 0).data());
    }
  }
}

}  // namespace greta
