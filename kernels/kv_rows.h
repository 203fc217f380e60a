#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// Keys or values of a KV cache, row-major without gaps, in the memory of whoever computes.

namespace greta {

/// How a cache stores its values: as they are, or rounded to the nearest f16 (to even).
enum class KvType { kF32, kF16 };

/// Rows to read and write. Positions are counted in values.
struct KvRows {
  void* data = nullptr;
  KvType type = KvType::kF32;

  constexpr KvRows() = default;
  constexpr KvRows(std::nullptr_t) {}
  constexpr KvRows(float* values) : data(values) {}
  constexpr KvRows(uint16_t* halves) : data(halves), type(KvType::kF16) {}
  constexpr KvRows(void* values, KvType its) : data(values), type(its) {}

  KvRows operator+(int64_t n) const {
    if (type == KvType::kF16) return static_cast<uint16_t*>(data) + n;
    return static_cast<float*>(data) + n;
  }
};

/// Rows to read.
struct ConstKvRows {
  const void* data = nullptr;
  KvType type = KvType::kF32;

  constexpr ConstKvRows() = default;
  constexpr ConstKvRows(std::nullptr_t) {}
  constexpr ConstKvRows(const float* values) : data(values) {}
  constexpr ConstKvRows(const uint16_t* halves) : data(halves), type(KvType::kF16) {}
  constexpr ConstKvRows(const KvRows& rows) : data(rows.data), type(rows.type) {}
};

/// The same memory as words of 32 bits, of rows whose width is even: for who moves or fills it.
inline std::span<float> words_of(const KvRows& rows, int64_t n) {
  return {static_cast<float*>(rows.data),
          static_cast<size_t>(rows.type == KvType::kF16 ? n / 2 : n)};
}

}  // namespace greta
