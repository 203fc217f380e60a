#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingest/foreign/bytes.h"

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

/// Where the values of a tensor lie, and how.
struct Tensor {
  std::string name;  ///< as its file writes it
  Dtype dtype = Dtype::kF32;
  std::vector<uint64_t> shape;  ///< none: a scalar
  std::vector<uint64_t>
      stride;           ///< in values, one for each dimension; none: row by row, without gaps
  std::string storage;  ///< what of its file holds it: a member of an archive
  uint64_t offset = 0;  ///< bytes into that
  bool is_negated =
      false;  ///< its values are those that are stored, with the other sign; no integers
};

/// Values of a shape. Throws ForeignError beyond 2^62.
uint64_t count_of(const std::vector<uint64_t>& shape);

/// "[7, 256]"
std::string text_of(const std::vector<uint64_t>& shape);

/// True if the values follow each other row by row, without gaps.
bool is_contiguous(const Tensor& tensor);

/// Bytes of the storage, from its start on, that the tensor reaches to. Throws ForeignError when
/// that is more than can be.
uint64_t end_of(const Tensor& tensor);

}  // namespace greta
