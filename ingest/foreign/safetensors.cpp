#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/utf8.h"
#include "ingest/foreign/error.h"
#include "ingest/foreign/python_json.h"
#include "ingest/foreign/tensor_files.h"
#include "ingest/foreign/tensor_set.h"

namespace greta {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxHeaderBytes = size_t{32} << 20;
constexpr size_t kLengthBytes = 8;

constexpr struct {
  const char* name;
  Dtype dtype;
} kSafetensorsTypes[] = {
    {"F32", Dtype::kF32}, {"F16", Dtype::kF16},        {"BF16", Dtype::kBf16},
    {"F64", Dtype::kF64}, {"F8_E4M3", Dtype::kF8E4M3}, {"F8_E5M2", Dtype::kF8E5M2},
    {"I8", Dtype::kI8},   {"U8", Dtype::kU8},          {"I16", Dtype::kI16},
    {"U16", Dtype::kU16}, {"I32", Dtype::kI32},        {"U32", Dtype::kU32},
    {"I64", Dtype::kI64}, {"U64", Dtype::kU64},        {"BOOL", Dtype::kBool}};

uint64_t size_in(const Json& value) {
  if (!value.is_number_unsigned()) throw ForeignError("has a size that is no number");
  return value.get<uint64_t>();
}

/// Of one member of the header. Throws ForeignError without the tensor's name.
Tensor tensor_of(const std::string& name, const Json& said, uint64_t data_at, uint64_t data_bytes) {
  Tensor tensor;
  tensor.name = name;
  const bool is_whole = said.is_object() && said.contains("dtype") && said["dtype"].is_string() &&
                        said.contains("shape") && said["shape"].is_array() &&
                        said.contains("data_offsets") && said["data_offsets"].is_array() &&
                        said["data_offsets"].size() == 2;
  if (!is_whole) throw ForeignError("lacks its dtype, shape or data_offsets");
  const auto& type = said["dtype"].get_ref<const std::string&>();
  bool is_known = false;
  for (const auto& one : kSafetensorsTypes) {
    if (type != one.name) continue;
    tensor.dtype = one.dtype;
    is_known = true;
  }
  if (!is_known) {
    throw ForeignError("is of dtype " + utf8::printable(type) + ", which greta does not read");
  }
  for (const Json& size : said["shape"]) tensor.shape.push_back(size_in(size));
  const uint64_t begin = size_in(said["data_offsets"][0]), end = size_in(said["data_offsets"][1]);
  if (begin > end || end > data_bytes) {
    throw ForeignError("lies at bytes " + std::to_string(begin) + " to " + std::to_string(end) +
                       " of " + std::to_string(data_bytes));
  }
  tensor.offset = data_at + begin;
  if (end_of(tensor) - tensor.offset != end - begin) {
    throw ForeignError("has a shape of " + text_of(tensor.shape) + " and " +
                       std::to_string(end - begin) + " bytes");
  }
  return tensor;
}

}  // namespace

bool is_safetensors(std::string_view head) {
  if (head.size() < kLengthBytes + 2 || head[kLengthBytes] != '{') return false;
  uint64_t length = 0;
  std::memcpy(&length, head.data(), sizeof length);
  constexpr uint64_t kMostThatIsMeant = 100'000'000;
  return length >= 2 && length <= kMostThatIsMeant &&
         (head[kLengthBytes + 1] == '"' || head[kLengthBytes + 1] == '}' ||
          head[kLengthBytes + 1] == ' ');
}

void read_safetensors(const ForeignSource& source) {
  uint64_t length = 0;
  source.bytes.read(0, reinterpret_cast<char*>(&length), sizeof length);
  if (length > source.bytes.size() - kLengthBytes || length > kMaxHeaderBytes) {
    throw ForeignError("its header claims " + std::to_string(length) + " bytes of the file's " +
                       std::to_string(source.bytes.size()) + "; at most 32 MiB are read");
  }
  const std::string header = source.bytes.text(kLengthBytes, static_cast<size_t>(length));
  const Json said = parse_python_json(header);
  if (!said.is_object()) throw ForeignError("its header is no JSON object");
  const uint64_t data_at = kLengthBytes + length, data_bytes = source.bytes.size() - data_at;
  TensorSet set(source);
  int64_t line = 0;
  for (const auto& [name, value] : said.items()) {
    if (name == "__metadata__") continue;
    ++line;
    try {
      set.add(tensor_of(name, value, data_at, data_bytes));
    } catch (const ForeignError& error) {
      source.rows.find(line, true,
                       "tensor " + utf8::printable(name.substr(0, 200)) + " " + error.what(), name);
    }
  }
  for (const Tensor& tensor : set.tensors()) {
    if (TensorSet::is_token_list(tensor)) set.take_token_list(tensor, source.bytes);
  }
  set.map();
  for (size_t i = 0; i < set.tensors().size(); ++i) {
    if (!TensorSet::is_token_list(set.tensors()[i])) set.add_rows(i, source.bytes);
  }
}

}  // namespace greta
