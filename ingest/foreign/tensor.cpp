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

}  // namespace greta
