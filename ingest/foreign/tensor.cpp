#include "ingest/foreign/tensor.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/blocks.h"

namespace greta {
namespace {

static_assert(std::endian::native == std::endian::little);

template <class T>
T value_at(const char* values, size_t i) {
  T value;
  std::memcpy(&value, values + i * sizeof(T), sizeof(T));
  return value;
}

/// A float of 1 sign, 4 exponent (bias 7) and 3 mantissa bits, without infinities: 0x7f is NaN.
float f8_e4m3_to_f32(uint8_t bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  const float sign = bits & 0x80 ? -1.0f : 1.0f;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -9);
  return sign * std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
}

/// The upper half of an f16.
float f8_e5m2_to_f32(uint8_t bits) { return f16_to_f32(static_cast<uint16_t>(bits << 8)); }

/// A value that rounds to another is not taken; every NaN is.
template <class T>
bool is_same(T value, float rounded) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value) || static_cast<double>(rounded) == value;
  } else {
    // 2^24 and all below are exact; a greater one is when its low bits are zeros
    if (std::abs(rounded) >= 0x1p63f)
      return std::abs(rounded) < 0x1p64f && value > 0 &&
             static_cast<uint64_t>(rounded) == static_cast<uint64_t>(value);
    return static_cast<int64_t>(rounded) == static_cast<int64_t>(value);
  }
}

template <class T>
bool convert_exactly(const char* values, std::span<float> to, size_t* at) {
  for (size_t i = 0; i < to.size(); ++i) {
    const T value = value_at<T>(values, i);
    to[i] = static_cast<float>(value);
    if (!is_same(value, to[i])) {
      *at = i;
      return false;
    }
  }
  return true;
}

template <class T, class Function>
bool convert(const char* values, std::span<float> to, Function function) {
  for (size_t i = 0; i < to.size(); ++i) to[i] = function(value_at<T>(values, i));
  return true;
}

/// Calls `use` with a value of the type that values of a dtype are stored as.
template <class Use>
auto with_stored(Dtype dtype, const Use& use) {
  switch (dtype) {
    case Dtype::kF32:
      return use(float{});
    case Dtype::kF64:
      return use(double{});
    case Dtype::kI8:
      return use(int8_t{});
    case Dtype::kI16:
      return use(int16_t{});
    case Dtype::kF16:
    case Dtype::kBf16:
    case Dtype::kU16:
      return use(uint16_t{});
    case Dtype::kI32:
      return use(int32_t{});
    case Dtype::kU32:
      return use(uint32_t{});
    case Dtype::kI64:
      return use(int64_t{});
    case Dtype::kU64:
      return use(uint64_t{});
    default:
      return use(uint8_t{});
  }
}

}  // namespace

size_t bytes_of(Dtype dtype) {
  return with_stored(dtype, [](auto value) { return sizeof value; });
}

std::string_view name_of(Dtype dtype) {
  constexpr std::string_view kNames[] = {"f32",     "f16", "bf16", "f64", "f8_e4m3",
                                         "f8_e5m2", "i8",  "u8",   "i16", "u16",
                                         "i32",     "u32", "i64",  "u64", "bool"};
  return kNames[static_cast<size_t>(dtype)];
}

bool is_integer(Dtype dtype) { return dtype >= Dtype::kI8; }

bool to_floats(Dtype dtype, const char* values, std::span<float> to, size_t* at) {
  switch (dtype) {
    case Dtype::kF32:
      std::memcpy(to.data(), values, to.size_bytes());
      return true;
    case Dtype::kF16:
      return convert<uint16_t>(values, to, f16_to_f32);
    case Dtype::kBf16:
      return convert<uint16_t>(values, to, bf16_to_f32);
    case Dtype::kF8E4M3:
      return convert<uint8_t>(values, to, f8_e4m3_to_f32);
    case Dtype::kF8E5M2:
      return convert<uint8_t>(values, to, f8_e5m2_to_f32);
    case Dtype::kBool:
      return convert<uint8_t>(values, to, [](uint8_t bit) { return bit != 0 ? 1.0f : 0.0f; });
    default:
      return with_stored(
          dtype, [&](auto value) { return convert_exactly<decltype(value)>(values, to, at); });
  }
}

std::optional<int64_t> integer_at(Dtype dtype, const char* values, size_t i) {
  return with_stored(dtype, [&](auto stored) -> std::optional<int64_t> {
    if constexpr (std::is_integral_v<decltype(stored)>) {
      const auto value = value_at<decltype(stored)>(values, i);
      if (std::in_range<int64_t>(value)) return static_cast<int64_t>(value);
    }
    return std::nullopt;
  });
}

namespace {

constexpr uint64_t kMost = uint64_t{1} << 62;

uint64_t product(uint64_t a, uint64_t b) {
  uint64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result) || result > kMost) {
    throw ForeignError("is larger than any tensor can be");
  }
  return result;
}

uint64_t sum(uint64_t a, uint64_t b) {
  uint64_t result = 0;
  if (__builtin_add_overflow(a, b, &result) || result > kMost) {
    throw ForeignError("reaches farther than any file can");
  }
  return result;
}

}  // namespace

uint64_t count_of(const std::vector<uint64_t>& shape) {
  uint64_t count = 1;
  for (uint64_t size : shape) {
    if (size == 0) return 0;
  }
  for (uint64_t size : shape) count = product(count, size);
  return count;
}

std::string text_of(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (uint64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

bool is_contiguous(const Tensor& tensor) {
  if (tensor.stride.empty()) return true;
  uint64_t expected = 1;
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.stride[i] != expected) return false;
    expected = product(expected, tensor.shape[i]);
  }
  return true;
}

uint64_t end_of(const Tensor& tensor) {
  uint64_t values = count_of(tensor.shape);
  if (values > 0 && !tensor.stride.empty()) {
    values = 1;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      values = sum(values, product(tensor.shape[i] - 1, tensor.stride[i]));
    }
  }
  return sum(tensor.offset, product(values, bytes_of(tensor.dtype)));
}

}  // namespace greta
