#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

// A weight matrix as a GGUF file stores it. Knows no backend: host and device share it.

namespace greta {

/// Storage types of weights. The values are the GGUF format's own type numbers.
enum class WeightType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kBF16 = 30,
};

constexpr bool is_float_type(WeightType type) {
  return type == WeightType::kF32 || type == WeightType::kF16 || type == WeightType::kBF16;
}

/// Values come in blocks of block_values, each stored in block_bytes.
struct WeightTypeInfo {
  WeightType type;
  std::string_view name;  ///< q4_k
  size_t block_values;    ///< 1 for the float types
  size_t block_bytes;
};

inline constexpr std::array<WeightTypeInfo, 14> kWeightTypes{{
    {WeightType::kF32, "f32", 1, 4},
    {WeightType::kF16, "f16", 1, 2},
    {WeightType::kBF16, "bf16", 1, 2},
    {WeightType::kQ4_0, "q4_0", 32, 18},
    {WeightType::kQ4_1, "q4_1", 32, 20},
    {WeightType::kQ5_0, "q5_0", 32, 22},
    {WeightType::kQ5_1, "q5_1", 32, 24},
    {WeightType::kQ8_0, "q8_0", 32, 34},
    {WeightType::kIQ4_NL, "iq4_nl", 32, 18},
    {WeightType::kQ2_K, "q2_k", 256, 84},
    {WeightType::kQ3_K, "q3_k", 256, 110},
    {WeightType::kQ4_K, "q4_k", 256, 144},
    {WeightType::kQ5_K, "q5_k", 256, 176},
    {WeightType::kQ6_K, "q6_k", 256, 210},
}};

/// nullptr for a number that is not a supported type.
constexpr const WeightTypeInfo* find_weight_type(uint32_t number) {
  for (const WeightTypeInfo& type : kWeightTypes) {
    if (static_cast<uint32_t>(type.type) == number) return &type;
  }
  return nullptr;
}

constexpr const WeightTypeInfo& weight_type_info(WeightType type) {
  return *find_weight_type(static_cast<uint32_t>(type));
}

/// Calls f with std::integral_constant<WeightType, type>. Throws std::invalid_argument for a number
/// that is no supported type.
template <class F>
void with_weight_type(WeightType type, F f) {
  const auto choose = [&]<size_t... i>(std::index_sequence<i...>) {
    return ((kWeightTypes[i].type == type &&
             (f(std::integral_constant<WeightType, kWeightTypes[i].type>{}), true)) ||
            ...);
  };
  if (choose(std::make_index_sequence<kWeightTypes.size()>{})) return;
  throw std::invalid_argument(std::to_string(static_cast<uint32_t>(type)) +
                              " is no supported weight type");
}

/// A row-major matrix [rows, cols] of weights, borrowed. cols is a multiple of the block length.
struct Matrix {
  WeightType type = WeightType::kF32;
  const std::byte* data = nullptr;  ///< in the backend's memory; rows without gaps between them
  int64_t rows = 0;
  int64_t cols = 0;

  size_t row_bytes() const {
    const WeightTypeInfo& info = weight_type_info(type);
    return static_cast<size_t>(cols) / info.block_values * info.block_bytes;
  }
  size_t bytes() const { return static_cast<size_t>(rows) * row_bytes(); }
};

/// One product with activations x [n_tokens, w.cols]: out [n_tokens, w.rows] = x · wᵀ.
struct Product {
  Matrix w;
  float* out = nullptr;
};

}  // namespace greta
