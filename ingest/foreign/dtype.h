#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace greta {

/// Types of the values of a tensor, all little-endian.
enum class Dtype {
  kF32,
  kF16,
  kBf16,
  kF64,
  kF8E4M3,
  kF8E5M2,
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kBool
};

size_t bytes_of(Dtype dtype);
/// "f32", "bf16", "f8_e4m3", ...
std::string_view name_of(Dtype dtype);
/// A type of integers, bool included.
bool is_integer(Dtype dtype);

/// Writes values (as stored, host) to `to`, f32 [n]. What no f32 equals (most f64, integers beyond
/// 2^24) is not rounded: false, and where it stands in *at.
bool to_floats(Dtype dtype, const char* values, std::span<float> to, size_t* at);

/// Value i of a tensor of integers; nothing beyond the range of int64.
std::optional<int64_t> integer_at(Dtype dtype, const char* values, size_t i);

}  // namespace greta
