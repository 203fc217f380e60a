#include "ingest/foreign/tensor.h"

#include "ingest/foreign/error.h"

namespace greta {
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

std::string gathered(const Tensor& tensor, std::string_view storage) {
  if (end_of(tensor) > storage.size()) throw ForeignError("reaches beyond its storage");
  const size_t bytes = bytes_of(tensor.dtype), dims = tensor.shape.size();
  const uint64_t count = count_of(tensor.shape);
  // A stride of 0 repeats values: many of them from few bytes.
  constexpr uint64_t kMostGathered = uint64_t{32} << 20;
  if (product(count, bytes) > kMostGathered) {
    throw ForeignError("is not contiguous, and larger than 32 MiB");
  }
  std::string values;
  values.reserve(count * bytes);
  std::vector<uint64_t> at(dims, 0);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t place = 0;
    for (size_t d = 0; d < dims; ++d) place += at[d] * tensor.stride[d];
    values.append(storage.substr(tensor.offset + place * bytes, bytes));
    for (size_t d = dims; d-- > 0 && ++at[d] == tensor.shape[d];) at[d] = 0;
  }
  return values;
}

}  // namespace greta
