#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/utf8.h"
#include "ingest/foreign/bytes.h"
#include "ingest/foreign/files.h"
#include "ingest/foreign/tensor_set.h"

namespace greta {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxNpyHeader = size_t{1} << 20;

constexpr struct {
  std::string_view name;
  Dtype dtype;
} kNpyTypes[] = {{"f4", Dtype::kF32}, {"f2", Dtype::kF16}, {"f8", Dtype::kF64},
                 {"i1", Dtype::kI8},  {"u1", Dtype::kU8},  {"i2", Dtype::kI16},
                 {"u2", Dtype::kU16}, {"i4", Dtype::kI32}, {"u4", Dtype::kU32},
                 {"i8", Dtype::kI64}, {"u8", Dtype::kU64}, {"b1", Dtype::kBool}};

/// A literal of Python, of texts without quotes in them, as JSON.
std::string literal_as_json(std::string_view python) {
  std::string json;
  for (const char c : python) {
    if (c == ' ' || c == '\n') continue;
    const bool closes = c == ')' || c == ']' || c == '}';
    if (closes && json.ends_with(',')) json.pop_back();
    json += c == '\'' ? '"' : c == '(' ? '[' : c == ')' ? ']' : c;
  }
  for (const std::string_view word : {":True", ":False"}) {
    for (size_t at = json.find(word); at != json.npos; at = json.find(word, at)) {
      json[at + 1] = static_cast<char>(json[at + 1] | 0x20);
    }
  }
  return json;
}

/// The dict of Python that a header is: three keys, each once.
Json header_dict(std::string_view header) {
  Json said = python_object(literal_as_json(header), "its header is no dict of Python");
  for (const char* key : {"descr", "fortran_order", "shape"}) {
    if (!said.contains(key)) throw ForeignError("its header has no '" + std::string(key) + "'");
  }
  if (said.size() > 3) throw ForeignError("its header has more keys than those of a .npy");
  return said;
}

Dtype dtype_of(const Json& descr) {
  if (!descr.is_string()) throw ForeignError("is of records, which greta does not read");
  const auto& type = descr.get_ref<const std::string&>();
  for (const auto& one : kNpyTypes) {
    if (type.size() == 3 && type.substr(1) == one.name &&
        (type[0] == '<' || type[0] == '|' || (type[0] == '>' && one.name[1] == '1'))) {
      return one.dtype;
    }
  }
  throw ForeignError("is of type '" + utf8::printable(std::string_view(type).substr(0, 40)) +
                     "', which greta does not read" +
                     (type.ends_with("O") ? ": its values are a pickle of objects" : ""));
}

std::vector<uint64_t> shape_in(const Json& sizes) {
  std::vector<uint64_t> shape;
  if (!sizes.is_array() || sizes.size() > 64) throw ForeignError("its header has no shape");
  for (const Json& size : sizes) {
    if (!size.is_number_unsigned()) throw ForeignError("its header has no shape of numbers");
    shape.push_back(size.get<uint64_t>());
  }
  return shape;
}

}  // namespace

Tensor read_npy_header(Bytes& bytes, std::string name) {
  constexpr size_t kFixed = 8;
  const std::string start = bytes.text(0, std::min<uint64_t>(bytes.size(), kFixed));
  if (start.size() < kFixed || !start.starts_with(kNpyMagic))
    throw ForeignError("is no array of NumPy");
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
  const Json said = header_dict(header);
  tensor.dtype = dtype_of(said["descr"]);
  tensor.shape = shape_in(said["shape"]);
  const Json& order = said["fortran_order"];
  if (!order.is_boolean()) throw ForeignError("its header says no fortran_order, True or False");
  if (order.get<bool>()) {
    count_of(tensor.shape);  // refuses what would overflow
    uint64_t stride = 1;
    for (uint64_t size : tensor.shape) {
      tensor.stride.push_back(stride);
      stride *= std::max<uint64_t>(size, 1);
    }
  }
  return tensor;
}

void refuse_more_than_one_array(const Tensor& array, Bytes& bytes) {
  const uint64_t end = end_of(array);
  if (bytes.size() <= end) return;
  throw ForeignError("has " + std::to_string(bytes.size() - end) +
                     " bytes behind its values: of a further array, or of none");
}

void read_npy(const ForeignSource& source) {
  TensorSet set(source);
  Tensor array = read_npy_header(source.bytes, source.path.name);
  refuse_more_than_one_array(array, source.bytes);
  set.add(std::move(array));
  set.add_rows(0, source.bytes);
}

}  // namespace greta
