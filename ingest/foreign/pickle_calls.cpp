#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "common/utf8.h"
#include "ingest/foreign/bytes.h"
#include "ingest/foreign/pickle.h"

namespace greta {
namespace {

struct NamedDtype {
  std::string_view name;
  Dtype dtype;
};

constexpr NamedDtype kStorages[] = {
    {"FloatStorage", Dtype::kF32},  {"HalfStorage", Dtype::kF16}, {"BFloat16Storage", Dtype::kBf16},
    {"DoubleStorage", Dtype::kF64}, {"CharStorage", Dtype::kI8},  {"ByteStorage", Dtype::kU8},
    {"ShortStorage", Dtype::kI16},  {"IntStorage", Dtype::kI32},  {"LongStorage", Dtype::kI64},
    {"BoolStorage", Dtype::kBool}};

constexpr std::string_view kOtherStorages[] = {
    "ComplexFloatStorage", "ComplexDoubleStorage", "QInt8Storage",    "QUInt8Storage",
    "QInt32Storage",       "QUInt4x2Storage",      "QUInt2x4Storage", "UntypedStorage"};

constexpr NamedDtype kDtypes[] = {
    {"float32", Dtype::kF32},        {"float", Dtype::kF32},
    {"float16", Dtype::kF16},        {"half", Dtype::kF16},
    {"bfloat16", Dtype::kBf16},      {"float64", Dtype::kF64},
    {"double", Dtype::kF64},         {"float8_e4m3fn", Dtype::kF8E4M3},
    {"float8_e5m2", Dtype::kF8E5M2}, {"int8", Dtype::kI8},
    {"uint8", Dtype::kU8},           {"int16", Dtype::kI16},
    {"uint16", Dtype::kU16},         {"int32", Dtype::kI32},
    {"uint32", Dtype::kU32},         {"int64", Dtype::kI64},
    {"uint64", Dtype::kU64},         {"bool", Dtype::kBool}};

/// Types that torch has, or will have: names alone, which nothing can call.
constexpr std::string_view kStartsOfDtypes[] = {"float8_", "float4_", "complex", "qint",
                                                "quint",   "int",     "uint",    "bits"};

constexpr std::string_view kOtherNames[] = {"collections.OrderedDict",
                                            "torch._utils._rebuild_tensor_v2",
                                            "torch._utils._rebuild_tensor_v3",
                                            "torch._utils._rebuild_parameter",
                                            "torch._utils._rebuild_parameter_with_state",
                                            "torch.Size",
                                            "torch.device",
                                            "torch.serialization._get_layout",
                                            "torch.storage.UntypedStorage",
                                            "torch.per_tensor_affine",
                                            "torch.per_channel_affine",
                                            "torch.per_channel_affine_float_qparams",
                                            "numpy.ndarray",
                                            "_codecs.encode"};

constexpr struct {
  std::string_view name, what;
} kUnreadTensors[] = {
    {"torch._utils._rebuild_sparse_tensor", "is sparse, which greta does not read"},
    {"torch._utils._rebuild_sparse_csr_tensor", "is sparse, which greta does not read"},
    {"torch._utils._rebuild_qtensor", "is quantised, which greta does not read"},
    {"torch._utils._rebuild_nested_tensor", "is nested, which greta does not read"},
    {"torch._utils._rebuild_meta_tensor_no_storage", "has no values: its device is meta"},
    {"torch._utils._rebuild_device_tensor_from_numpy",
     "is an array of NumPy, which greta reads from a .npy or .npz"},
    {"numpy.core.multiarray._reconstruct",
     "is an array of NumPy, which greta reads from a .npy or .npz"},
    {"numpy._core.multiarray._reconstruct",
     "is an array of NumPy, which greta reads from a .npy or .npz"}};

constexpr std::string_view kNumbers[] = {"numpy.core.multiarray.scalar",
                                         "numpy._core.multiarray.scalar", "numpy.dtype"};

template <size_t n>
std::optional<Dtype> find_dtype(const NamedDtype (&table)[n], std::string_view name) {
  if (!name.starts_with("torch.")) return std::nullopt;
  for (const NamedDtype& one : table) {
    if (name.substr(6) == one.name) return one.dtype;
  }
  return std::nullopt;
}

template <size_t n>
bool is_one_of(const std::string_view (&names)[n], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

/// A type of values that greta does not read: torch.complex64, torch.QInt8Storage.
bool is_other_type(std::string_view name) {
  if (!name.starts_with("torch.")) return false;
  name.remove_prefix(6);
  if (is_one_of(kOtherStorages, name)) return true;
  const bool is_plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  return is_plain && std::any_of(std::begin(kStartsOfDtypes), std::end(kStartsOfDtypes),
                                 [&](std::string_view start) { return name.starts_with(start); });
}

std::optional<Dtype> dtype_of_storage(std::string_view name) { return find_dtype(kStorages, name); }

std::optional<Dtype> dtype_named(std::string_view name) { return find_dtype(kDtypes, name); }

/// Result of a call of this name: a tensor that greta does not read ("is sparse"); "" of all
/// others.
std::string_view unread_tensor_of(std::string_view name) {
  for (const auto& one : kUnreadTensors) {
    if (name == one.name) return one.what;
  }
  return {};
}

bool makes_number(std::string_view name) { return is_one_of(kNumbers, name); }

}  // namespace

bool is_known_name(std::string_view name) {
  return is_one_of(kOtherNames, name) || dtype_of_storage(name) || dtype_named(name) ||
         is_other_type(name) || !unread_tensor_of(name).empty() || makes_number(name);
}

namespace {

using Arguments = std::vector<const PickleValue*>;

PickleValue pickled_value(PickleValue::Kind kind, std::string_view text = {}) {
  PickleValue value;
  value.kind = kind;
  value.text = text;
  return value;
}

PickleValue unread(const std::string& why) {
  constexpr size_t kMaxShown = 200;
  return pickled_value(PickleValue::kUnread, utf8::printable(why.substr(0, kMaxShown)));
}

/// The numbers of a shape or a stride.
std::vector<uint64_t> sizes_of(const PickleValue& tuple) {
  if (tuple.kind != PickleValue::kTuple) refuse_pickle("has a tensor without a shape");
  std::vector<uint64_t> sizes;
  constexpr size_t kMaxDimensions = 64;
  if (tuple.items.size() > kMaxDimensions) refuse_pickle("has a tensor of more than 64 dimensions");
  for (const PickleValue* item : tuple.items) {
    if (item->kind != PickleValue::kInteger || item->integer < 0) {
      refuse_pickle("has a tensor whose shape is not of numbers");
    }
    sizes.push_back(static_cast<uint64_t>(item->integer));
  }
  return sizes;
}

/// {'conj': True, 'neg': True}, of values that are stored otherwise than they are. Returns what
/// keeps the tensor from being read.
std::string take_bits(const PickleValue* bits, Tensor& tensor) {
  if (!bits || bits->kind == PickleValue::kNone) return "";
  if (bits->kind != PickleValue::kDict) return "has bits of its values that are no dict";
  for (size_t i = 0; i + 1 < bits->items.size(); i += 2) {
    const PickleValue& key = *bits->items[i];
    const PickleValue& value = *bits->items[i + 1];
    if (value.kind == PickleValue::kBool && value.integer == 0) continue;
    const bool is_neg = key.is_text("neg"), is_conj = key.is_text("conj");
    if (value.kind != PickleValue::kBool || !is_neg || is_integer(tensor.dtype)) {
      return "is stored with '" + key.text + "', which greta does not read" +
             (is_neg || is_conj ? ": resolve_" + key.text + "() before it is saved" : "");
    }
    tensor.is_negated = true;
  }
  return "";
}

/// `type` is what names the dtype where the storage's class does not; `bits` what is said of all
/// values, a dict or nothing.
PickleValue rebuilt(const std::vector<const PickleValue*>& items, std::optional<Dtype> dtype,
                    const PickleValue* type, const PickleValue* bits) {
  if (items[0]->kind != PickleValue::kStorage || items[1]->kind != PickleValue::kInteger ||
      items[1]->integer < 0) {
    refuse_pickle("has a tensor without a storage");
  }
  if (!type) type = items[0]->items[0];
  if (!dtype) return unread("is of " + type->text + ", which greta does not read");
  Tensor tensor;
  tensor.dtype = *dtype;
  tensor.storage = items[0]->text;
  tensor.shape = sizes_of(*items[2]);
  tensor.stride = sizes_of(*items[3]);
  if (tensor.stride.size() != tensor.shape.size()) refuse_pickle("has a tensor without strides");
  constexpr int64_t kMostOffset = int64_t{1} << 58;
  if (items[1]->integer > kMostOffset) refuse_pickle("has a tensor that begins beyond any file");
  tensor.offset = static_cast<uint64_t>(items[1]->integer) * bytes_of(*dtype);
  if (const std::string why = take_bits(bits, tensor); !why.empty()) return unread(why);
  PickleValue value = pickled_value(PickleValue::kTensor);
  value.tensor = std::make_shared<const Tensor>(std::move(tensor));
  return value;
}

}  // namespace

void refuse_pickle(const std::string& why) { throw ForeignError("its pickle " + why); }

PickleValue called(const std::string& name, const Arguments& arguments) {
  const size_t n = arguments.size();
  const auto is = [&](size_t i, PickleValue::Kind kind) { return arguments[i]->kind == kind; };
  if (name == "collections.OrderedDict" && n == 0) return pickled_value(PickleValue::kDict);
  if (name == "torch._utils._rebuild_tensor_v2" && n >= 6) {
    return rebuilt(arguments, arguments[0]->dtype, nullptr, n > 6 ? arguments[6] : nullptr);
  }
  if (name == "torch._utils._rebuild_tensor_v3" && n >= 7) {
    const auto dtype = is(6, PickleValue::kName) ? dtype_named(arguments[6]->text) : std::nullopt;
    return rebuilt(arguments, dtype, arguments[6], n > 7 ? arguments[7] : nullptr);
  }
  if (name.starts_with("torch._utils._rebuild_parameter") && n > 0) return *arguments[0];
  if (name == "torch.Size" && n == 1 && is(0, PickleValue::kTuple)) {
    PickleValue size = pickled_value(PickleValue::kTuple);
    size.items = arguments[0]->items;
    return size;
  }
  const bool is_of_text = name == "torch.device" || name == "torch.serialization._get_layout" ||
                          name == "_codecs.encode";
  if (is_of_text && n > 0 && is(0, PickleValue::kText)) {
    return pickled_value(PickleValue::kText, arguments[0]->text);
  }
  if (makes_number(name)) return pickled_value(PickleValue::kOther, "a number of NumPy");
  if (const std::string_view why = unread_tensor_of(name); !why.empty()) {
    return pickled_value(PickleValue::kUnread, why);
  }
  refuse_pickle("calls " + name + " otherwise than torch.save does");
}

PickleValue storage_named(const PickleValue& id) {
  if (id.kind != PickleValue::kTuple || id.items.size() < 5 || !id.items[0]->is_text("storage") ||
      id.items[1]->kind != PickleValue::kName || id.items[2]->kind != PickleValue::kText ||
      id.items[4]->kind != PickleValue::kInteger) {
    refuse_pickle("refers to something that is no storage");
  }
  PickleValue storage = pickled_value(PickleValue::kStorage, id.items[2]->text);
  storage.integer = id.items[4]->integer;
  storage.dtype = dtype_of_storage(id.items[1]->text);
  storage.items = {id.items[1]};
  return storage;
}

}  // namespace greta
