#include "ingest/foreign/npy.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "common/utf8.h"
#include "ingest/foreign/error.h"
#include "ingest/foreign/tensor_files.h"
#include "ingest/foreign/tensor_set.h"
#include "ingest/text.h"

namespace greta {
namespace {

constexpr size_t kMaxNpyHeader = size_t{1} << 20;

constexpr struct {
  std::string_view name;
  Dtype dtype;
} kNpyTypes[] = {{"f4", Dtype::kF32}, {"f2", Dtype::kF16}, {"f8", Dtype::kF64},
                 {"i1", Dtype::kI8},  {"u1", Dtype::kU8},  {"i2", Dtype::kI16},
                 {"u2", Dtype::kU16}, {"i4", Dtype::kI32}, {"u4", Dtype::kU32},
                 {"i8", Dtype::kI64}, {"u8", Dtype::kU64}, {"b1", Dtype::kBool}};

/// What stands behind 'key': in the dict that a header is.
std::string_view value_behind(std::string_view header, std::string_view key) {
  for (char quote : {'\'', '"'}) {
    const std::string quoted = quote + std::string(key) + quote;
    size_t at = header.find(quoted);
    if (at == header.npos) continue;
    at = header.find(':', at + quoted.size());
    if (at == header.npos) break;
    return text::trim(header.substr(at + 1));
  }
  throw ForeignError("its header has no '" + std::string(key) + "'");
}

Dtype dtype_of(std::string_view descr) {
  if (descr.empty() || (descr[0] != '\'' && descr[0] != '"')) {
    throw ForeignError("is of records, which greta does not read");
  }
  const std::string_view type = descr.substr(1, descr.find(descr[0], 1) - 1);
  for (const auto& one : kNpyTypes) {
    if (type.size() == 3 && type.substr(1) == one.name &&
        (type[0] == '<' || type[0] == '|' || (type[0] == '>' && one.name[1] == '1'))) {
      return one.dtype;
    }
  }
  throw ForeignError("is of type '" + utf8::printable(type.substr(0, 40)) +
                     "', which greta does not read" +
                     (type.ends_with("O") ? ": its values are a pickle of objects" : ""));
}

std::vector<uint64_t> shape_in(std::string_view tuple) {
  const size_t end = tuple.find(')');
  if (tuple.empty() || tuple[0] != '(' || end == tuple.npos) {
    throw ForeignError("its header has no shape");
  }
  std::vector<uint64_t> shape;
  for (size_t at = 1; at < end;) {
    const size_t comma = std::min(tuple.find(',', at), end);
    const std::string_view digits = text::trim(tuple.substr(at, comma - at));
    at = comma + 1;
    if (digits.empty() && at > end) break;
    const auto size = text::number<uint64_t>(digits);
    if (!size || shape.size() == 64) throw ForeignError("its header has no shape of numbers");
    shape.push_back(*size);
  }
  return shape;
}

}  // namespace

Tensor read_npy_header(Bytes& bytes, std::string name) {
  constexpr size_t kFixed = 8;
  const std::string start = bytes.text(0, kFixed);
  if (!start.starts_with(kNpyMagic)) throw ForeignError("is no .npy");
  const bool is_long = start[6] != 1;
  if (start[6] < 1 || start[6] > 3) throw ForeignError("is of a version that is not known");
  uint32_t length = 0;
  const std::string digits = bytes.text(kFixed, is_long ? 4 : 2);
  std::memcpy(&length, digits.data(), digits.size());
  if (length > kMaxNpyHeader) throw ForeignError("its header claims more than 1 MiB");
  const std::string header = bytes.text(kFixed + digits.size(), length);
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.offset = kFixed + digits.size() + length;
  tensor.dtype = dtype_of(value_behind(header, "descr"));
  tensor.shape = shape_in(value_behind(header, "shape"));
  if (value_behind(header, "fortran_order").starts_with("True")) {
    count_of(tensor.shape);  // refuses what would overflow
    uint64_t stride = 1;
    for (uint64_t size : tensor.shape) {
      tensor.stride.push_back(stride);
      stride *= std::max<uint64_t>(size, 1);
    }
  }
  return tensor;
}

void read_npy(const ForeignSource& source) {
  TensorSet set(source);
  set.add(read_npy_header(source.bytes, source.path.name));
  set.add_rows(0, source.bytes);
}

}  // namespace greta
