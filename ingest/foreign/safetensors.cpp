#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "common/utf8.h"
#include "ingest/foreign/bytes.h"
#include "ingest/foreign/files.h"
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

void report(const ForeignSource& source, const std::string& name, const std::string& why) {
  source.rows.find(0, true, "tensor " + utf8::printable(name.substr(0, 200)) + " " + why, name);
}

/// The format has an object of texts there. Of a tensor that is called so it has nothing.
void report_metadata(const ForeignSource& source, const Json& value) {
  const bool is_metadata = value.is_object() && std::all_of(value.begin(), value.end(),
                                                            [](auto& v) { return v.is_string(); });
  if (!is_metadata) source.rows.find(0, true, "its __metadata__ is no object of texts");
}

/// Indices of tensors by where they begin.
std::vector<size_t> by_offset(const std::vector<Tensor>& tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(tensors[a].offset, end_of(tensors[a])) <
           std::pair(tensors[b].offset, end_of(tensors[b]));
  });
  return order;
}

/// Takes out tensors that share bytes, which the format forbids: at most one of them is what its
/// name says, and nothing tells which. Returns whether there were none.
bool take_out_overlaps(const ForeignSource& source, std::vector<Tensor>& tensors,
                       uint64_t data_at) {
  std::vector<std::string> why(tensors.size());
  std::optional<size_t> farthest;
  for (size_t i : by_offset(tensors)) {
    const uint64_t begin = tensors[i].offset, end = end_of(tensors[i]);
    if (begin == end) continue;
    if (farthest && begin < end_of(tensors[*farthest])) {
      const auto with = [&](size_t other) {
        return "shares bytes with tensor " + utf8::printable(tensors[other].name.substr(0, 200)) +
               ", from byte " + std::to_string(begin - data_at) + " on";
      };
      why[i] = with(*farthest);
      if (why[*farthest].empty()) why[*farthest] = with(i);
    }
    if (!farthest || end > end_of(tensors[*farthest])) farthest = i;
  }
  std::vector<Tensor> kept;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (why[i].empty()) {
      kept.push_back(std::move(tensors[i]));
    } else {
      report(source, tensors[i].name, why[i]);
    }
  }
  const bool is_whole = kept.size() == tensors.size();
  tensors = std::move(kept);
  return is_whole;
}

/// The format knows no bytes of no tensor: where there are some, a tensor is missing or is said to
/// be smaller than it is.
void report_holes(const ForeignSource& source, const std::vector<Tensor>& tensors, uint64_t data_at,
                  uint64_t data_bytes) {
  const auto report_hole = [&](uint64_t from, uint64_t to) {
    source.rows.find(0, true,
                     "bytes " + std::to_string(from - data_at) + " to " +
                         std::to_string(to - data_at) + " of its data belong to no tensor");
  };
  uint64_t end = data_at;
  for (size_t i : by_offset(tensors)) {
    if (tensors[i].offset > end) report_hole(end, tensors[i].offset);
    end = std::max(end, end_of(tensors[i]));
  }
  if (end < data_at + data_bytes) report_hole(end, data_at + data_bytes);
}

}  // namespace

void read_safetensors(const ForeignSource& source) {
  uint64_t length = 0;
  if (source.bytes.size() < kLengthBytes) {
    throw ForeignError("no .safetensors: it has not even the length of a header");
  }
  source.bytes.read(0, reinterpret_cast<char*>(&length), sizeof length);
  if (length > source.bytes.size() - kLengthBytes) {
    throw ForeignError("its header claims " + std::to_string(length) + " bytes of the file's " +
                       std::to_string(source.bytes.size()) +
                       ": it is cut, or no .safetensors at all");
  }
  if (length > kMaxHeaderBytes) {
    throw ForeignError("its header has " + std::to_string(length) +
                       " bytes; at most 32 MiB are read");
  }
  const std::string header = source.bytes.text(kLengthBytes, static_cast<size_t>(length));
  const Json said = python_object(header, "its header is no JSON object");
  const uint64_t data_at = kLengthBytes + length, data_bytes = source.bytes.size() - data_at;
  std::vector<Tensor> tensors;
  bool is_whole = true;
  for (const auto& [name, value] : said.items()) {
    if (name == "__metadata__") {
      report_metadata(source, value);
      continue;
    }
    try {
      tensors.push_back(tensor_of(name, value, data_at, data_bytes));
    } catch (const ForeignError& error) {
      is_whole = false;
      report(source, name, error.what());
    }
  }
  is_whole &= take_out_overlaps(source, tensors, data_at);
  if (is_whole) report_holes(source, tensors, data_at, data_bytes);
  if (tensors.empty()) source.rows.find(0, false, "it has no tensor that greta reads");
  TensorSet set(source);
  for (Tensor& tensor : tensors) set.add(std::move(tensor));
  for (const Tensor& tensor : set.tensors()) {
    if (TensorSet::is_token_list(tensor)) set.take_token_list(tensor, source.bytes);
  }
  set.map();
  for (size_t i = 0; i < set.tensors().size(); ++i) {
    if (!TensorSet::is_token_list(set.tensors()[i])) set.add_rows(i, source.bytes);
  }
}

}  // namespace greta
