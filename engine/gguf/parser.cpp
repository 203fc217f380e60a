#include "engine/gguf/parser.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace greta {
namespace {

using namespace std::string_literals;

constexpr uint64_t kMinEntryBytes = 8 + 4 + 1;           // key length, type, a bool
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;  // name length, n_dims, dim, type, offset
constexpr uint64_t kMaxAlignment = uint64_t{1} << 30;
constexpr size_t kMaxQuoted = 80;

struct TypeName {
  std::string_view name;
  size_t bytes;
};
constexpr std::array<TypeName, 13> kTypeNames{{{"uint8", 1},
                                               {"int8", 1},
                                               {"uint16", 2},
                                               {"int16", 2},
                                               {"uint32", 4},
                                               {"int32", 4},
                                               {"float32", 4},
                                               {"bool", 1},
                                               {"string", 0},
                                               {"array", 0},
                                               {"uint64", 8},
                                               {"int64", 8},
                                               {"float64", 8}}};

// ggml's tensor types by number, so that a refusal can say what the file holds.
constexpr std::array<std::string_view, 43> kTensorTypeNames{
    "f32",   "f16",        "q4_0",       "q4_1",       "q4_2",     "q4_3",     "q5_0",
    "q5_1",  "q8_0",       "q8_1",       "q2_k",       "q3_k",     "q4_k",     "q5_k",
    "q6_k",  "q8_k",       "iq2_xxs",    "iq2_xs",     "iq3_xxs",  "iq1_s",    "iq4_nl",
    "iq3_s", "iq2_s",      "iq4_xs",     "i8",         "i16",      "i32",      "i64",
    "f64",   "iq1_m",      "bf16",       "q4_0_4_4",   "q4_0_4_8", "q4_0_8_8", "tq1_0",
    "tq2_0", "iq4_nl_4_4", "iq4_nl_4_8", "iq4_nl_8_8", "mxfp4",    "nvfp4",    "q1_0",
    "q2_0"};

std::string supported_tensor_types() {
  std::string list;
  for (const WeightTypeInfo& type : kWeightTypes) {
    list += (list.empty() ? "" : ", ") + std::string(type.name);
  }
  return list;
}

std::string tensor_type_name(uint32_t number) {
  const bool is_known = number < kTensorTypeNames.size();
  return std::to_string(number) + " (" +
         (is_known ? std::string(kTensorTypeNames[number]) : "unknown"s) + ")";
}

// What else a file without the magic may be.
std::string describe_magic(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<size_t>(bytes.size(), 16));
  if (text.starts_with("FUGG"))
    return "the file is big-endian; only little-endian GGUF is supported";
  for (const std::string_view old : {"lmgg", "fmgg", "tjgg", "algg"}) {
    if (text.starts_with(old)) {
      return "this is a GGML file from before GGUF; convert it to GGUF version 2 or 3";
    }
  }
  if (text.starts_with("version https://")) {
    return "this is a Git LFS pointer, not the model; fetch the file itself";
  }
  return "the bytes GGUF are missing: not a GGUF file; versions 2 and 3 are supported";
}

// Bytes of n values; blocks are whole. False when that is more than `limit`.
bool fits(const WeightTypeInfo& info, int64_t n_values, uint64_t limit, uint64_t& n_bytes) {
  const uint64_t n_blocks = static_cast<uint64_t>(n_values) / info.block_values;
  if (n_blocks > limit / info.block_bytes) return false;
  n_bytes = n_blocks * info.block_bytes;
  return true;
}

}  // namespace

std::string_view gguf_type_name(uint32_t number) {
  return number < kTypeNames.size() ? kTypeNames[number].name : "?";
}

size_t gguf_type_bytes(uint32_t number) {
  return number < kTypeNames.size() ? kTypeNames[number].bytes : 0;
}

std::string gguf_quoted(std::string_view name) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string quoted = "'";
  for (const char c : name.substr(0, kMaxQuoted)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      quoted += c;
    } else {
      quoted += "\\x"s + kHex[byte >> 4] + kHex[byte & 15];
    }
  }
  return quoted + (name.size() > kMaxQuoted ? "'…" : "'");
}

void GgufParser::fail(uint64_t offset, const std::string& what) const {
  std::string message = file_.name_ + ": ";
  if (place_.kind.empty()) {
    message += "header";
  } else {
    message += std::string(place_.kind) + " ";
    message += place_.name.empty() ? std::to_string(place_.index) : gguf_quoted(place_.name);
  }
  throw GgufError(message + " at byte " + std::to_string(offset) + ": " + what);
}

template <typename T>
T GgufParser::read(std::string_view what) {
  if (left() < sizeof(T)) {
    fail(at_, "the file ends within the " + std::string(what) + ": it is truncated");
  }
  const T value = load_unaligned<T>(&bytes_[at_]);
  at_ += sizeof(T);
  return value;
}

std::string_view GgufParser::read_string(std::string_view what) {
  const uint64_t start = at_;
  const auto length = read<uint64_t>(std::string(what) + " length");
  if (length > left()) {
    fail(start, "the " + std::string(what) + " of " + std::to_string(length) +
                    " bytes runs past the end of the file, " + std::to_string(left()) +
                    " bytes further: truncated or damaged");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + at_, length);
  at_ += length;
  return text;
}

void GgufParser::parse() {
  parse_header();
  for (uint64_t i = 0; i < n_entries_; ++i) parse_entry(i);
  set_alignment();
  for (uint64_t i = 0; i < n_tensors_; ++i) parse_tensor(i);
  place_data();
  check_overlaps();
}

void GgufParser::parse_header() {
  if (bytes_.size() < 4 || std::memcmp(bytes_.data(), "GGUF", 4) != 0) {
    if (bytes_.empty()) fail(0, "the file is empty: not a GGUF file");
    fail(0, describe_magic(bytes_));
  }
  at_ = 4;
  file_.version_ = read<uint32_t>("version");
  if (file_.version_ != 2 && file_.version_ != 3) {
    // A big-endian writer keeps the order of the magic's bytes and swaps everything else.
    const bool is_swapped = file_.version_ != 0 && (file_.version_ & 0xffff) == 0;
    fail(4, is_swapped ? "the file is big-endian; only little-endian GGUF is supported"s
                       : "GGUF version " + std::to_string(file_.version_) +
                             " is not supported; versions 2 and 3 are");
  }
  n_tensors_ = read<uint64_t>("tensor count");
  n_entries_ = read<uint64_t>("metadata count");
  if (n_tensors_ > left() / kMinTensorBytes) {
    fail(8, std::to_string(n_tensors_) + " tensors do not fit in a file of " +
                std::to_string(bytes_.size()) + " bytes: truncated or damaged");
  }
  if (n_entries_ > (left() - n_tensors_ * kMinTensorBytes) / kMinEntryBytes) {
    fail(16, std::to_string(n_entries_) + " metadata entries do not fit in a file of " +
                 std::to_string(bytes_.size()) + " bytes: truncated or damaged");
  }
}

void GgufParser::parse_entry(uint64_t index) {
  const uint64_t start = at_;
  place_ = {"metadata entry", index, {}};
  const std::string_view key = read_string("key");
  if (key.empty()) fail(start, "the key is empty");
  place_ = {"metadata key", index, key};
  if (!file_.by_key_.emplace(key, file_.metadata_.size()).second) {
    fail(start, "the key occurs twice");
  }
  const auto type = read<uint32_t>("value type");
  file_.metadata_.emplace_back(key, read_value(type));
}

GgufValue GgufParser::read_value(uint32_t type) {
  if (type >= kTypeNames.size()) {
    fail(at_ - 4, "value type " + std::to_string(type) + " is unknown; types 0 (uint8) to 12 " +
                      "(float64) are supported");
  }
  switch (static_cast<GgufType>(type)) {
    case GgufType::kBool:
      return read_bool();
    case GgufType::kString:
      return read_string("string");
    case GgufType::kArray:
      return read_array();
    default:
      return read_number(type);
  }
}

GgufValue GgufParser::read_number(uint32_t type) {
  constexpr std::string_view kWhat = "value";
  switch (static_cast<GgufType>(type)) {
    case GgufType::kUint8:
      return uint64_t{read<uint8_t>(kWhat)};
    case GgufType::kInt8:
      return int64_t{read<int8_t>(kWhat)};
    case GgufType::kUint16:
      return uint64_t{read<uint16_t>(kWhat)};
    case GgufType::kInt16:
      return int64_t{read<int16_t>(kWhat)};
    case GgufType::kUint32:
      return uint64_t{read<uint32_t>(kWhat)};
    case GgufType::kInt32:
      return int64_t{read<int32_t>(kWhat)};
    case GgufType::kFloat32:
      return double{read<float>(kWhat)};
    case GgufType::kUint64:
      return read<uint64_t>(kWhat);
    case GgufType::kInt64:
      return read<int64_t>(kWhat);
    case GgufType::kFloat64:
      return read<double>(kWhat);
    default:
      fail(at_ - 4, "value type " + std::string(gguf_type_name(type)) + " is not a number");
  }
}

bool GgufParser::read_bool() {
  const auto byte = read<uint8_t>("value");
  if (byte > 1) {
    fail(at_ - 1, "a bool of value " + std::to_string(byte) + "; 0 and 1 are supported");
  }
  return byte == 1;
}

GgufArray GgufParser::read_array() {
  const uint64_t start = at_;
  GgufArray array;
  array.element_type = read<uint32_t>("element type");
  array.count = read<uint64_t>("element count");
  if (array.element_type == static_cast<uint32_t>(GgufType::kArray)) {
    fail(start, "an array of arrays is not supported; arrays of numbers, bools and strings are");
  }
  if (array.element_type >= kTypeNames.size()) {
    fail(start, "element type " + std::to_string(array.element_type) +
                    " is unknown; types 0 (uint8) to 12 (float64) are supported");
  }
  const bool is_text = array.element_type == static_cast<uint32_t>(GgufType::kString);
  const uint64_t least_bytes = is_text ? 8 : gguf_type_bytes(array.element_type);
  if (array.count > left() / least_bytes) {
    fail(start, std::to_string(array.count) + " elements of type " +
                    std::string(gguf_type_name(array.element_type)) + " run past the end of the " +
                    "file, " + std::to_string(left()) + " bytes further: truncated or damaged");
  }
  if (is_text) {
    for (uint64_t i = 0; i < array.count; ++i) array.strings.push_back(read_string("string"));
    return array;
  }
  array.data = bytes_.subspan(at_, array.count * least_bytes);
  if (array.element_type == static_cast<uint32_t>(GgufType::kBool)) {
    for (uint64_t i = 0; i < array.count; ++i) read_bool();
  } else {
    at_ += array.data.size();
  }
  return array;
}

void GgufParser::set_alignment() {
  place_ = {};
  const GgufValue* value = file_.find("general.alignment");
  if (value == nullptr) return;
  const uint64_t* alignment = std::get_if<uint64_t>(value);
  place_ = {"metadata key", 0, "general.alignment"};
  // The specification asks for a multiple of 8; tools ask for a power of two as well.
  if (alignment == nullptr || !std::has_single_bit(*alignment) || *alignment < 8 ||
      *alignment > kMaxAlignment) {
    const auto* key = file_.metadata_[file_.by_key_.at("general.alignment")].first.data();
    fail(static_cast<uint64_t>(reinterpret_cast<const std::byte*>(key) - bytes_.data()),
         (alignment != nullptr ? "alignment " + std::to_string(*alignment)
                               : "a value that is no unsigned integer"s) +
             " is not supported; powers of two from 8 to " + std::to_string(kMaxAlignment) +
             " are");
  }
  file_.alignment_ = *alignment;
}

void GgufParser::parse_tensor(uint64_t index) {
  const uint64_t start = at_;
  place_ = {"tensor", index, {}};
  GgufTensor tensor;
  tensor.name = read_string("name");
  if (tensor.name.empty()) fail(start, "the name is empty");
  place_.name = tensor.name;
  if (!file_.by_name_.emplace(tensor.name, file_.tensors_.size()).second) {
    fail(start, "the name occurs twice");
  }
  read_shape(tensor);
  read_type(tensor);
  const uint64_t said_at = at_;
  claims_.push_back({read<uint64_t>("data offset"), said_at});
  file_.tensors_.push_back(tensor);
}

void GgufParser::read_shape(GgufTensor& tensor) {
  const uint64_t start = at_;
  const auto n_dims = read<uint32_t>("number of dimensions");
  if (n_dims < 1 || n_dims > tensor.dims.size()) {
    fail(start, std::to_string(n_dims) + " dimensions are not supported; 1 to 4 are");
  }
  tensor.n_dims = static_cast<int>(n_dims);
  int64_t n_values = 1;
  for (uint32_t i = 0; i < n_dims; ++i) {
    const auto dim = read<uint64_t>("dimension");
    if (dim == 0) fail(at_ - 8, "dimension " + std::to_string(i) + " is 0");
    if (dim > static_cast<uint64_t>(INT64_MAX / n_values)) {
      fail(at_ - 8, "dimension " + std::to_string(i) + " of " + std::to_string(dim) +
                        ": the number of values overflows 63 bits");
    }
    tensor.dims[i] = static_cast<int64_t>(dim);
    n_values *= tensor.dims[i];
  }
}

void GgufParser::read_type(GgufTensor& tensor) {
  const uint64_t start = at_;
  const auto number = read<uint32_t>("tensor type");
  const WeightTypeInfo* info = find_weight_type(number);
  if (info == nullptr) {
    fail(start, "type " + tensor_type_name(number) +
                    " is not supported; supported: " + supported_tensor_types());
  }
  tensor.type = info->type;
  if (static_cast<uint64_t>(tensor.dims[0]) % info->block_values != 0) {
    fail(start, "rows of " + std::to_string(tensor.dims[0]) + " values do not fill blocks of " +
                    std::to_string(info->block_values) + ", as " + std::string(info->name) +
                    " needs");
  }
}

void GgufParser::place_data() {
  const uint64_t base = (at_ + file_.alignment_ - 1) / file_.alignment_ * file_.alignment_;
  const uint64_t size = bytes_.size() > base ? bytes_.size() - base : 0;
  for (size_t i = 0; i < claims_.size(); ++i) {
    GgufTensor& tensor = file_.tensors_[i];
    const auto [offset, said_at] = claims_[i];
    place_ = {"tensor", i, tensor.name};
    if (offset % file_.alignment_ != 0) {
      fail(said_at, "data offset " + std::to_string(offset) + " is not a multiple of the file's " +
                        "alignment, " + std::to_string(file_.alignment_));
    }
    uint64_t n_bytes = 0;
    if (offset > size ||
        !fits(weight_type_info(tensor.type), tensor.n_values(), size - offset, n_bytes)) {
      fail(said_at, std::to_string(tensor.n_values()) + " values of type " +
                        std::string(weight_type_info(tensor.type).name) + " at data offset " +
                        std::to_string(offset) + " run past the end of the file, which has " +
                        std::to_string(size) + " bytes of data: truncated or damaged");
    }
    tensor.data = bytes_.subspan(base + offset, n_bytes);
  }
}

void GgufParser::check_overlaps() {
  std::vector<size_t> order(claims_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return claims_[a].offset_bytes < claims_[b].offset_bytes; });
  for (size_t i = 1; i < order.size(); ++i) {
    const GgufTensor& before = file_.tensors_[order[i - 1]];
    const GgufTensor& after = file_.tensors_[order[i]];
    if (before.data.data() + before.data.size() <= after.data.data()) continue;
    place_ = {"tensor", order[i], after.name};
    fail(claims_[order[i]].said_at, "shares bytes with tensor " + gguf_quoted(before.name) +
                                        "; every tensor must have its own");
  }
}

}  // namespace greta
