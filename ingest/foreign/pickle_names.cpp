#include "ingest/foreign/pickle_names.h"

#include <algorithm>
#include <iterator>

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

/// Of types that torch has, or will have: names alone, which nothing can call.
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

}  // namespace

std::optional<Dtype> dtype_of_storage(std::string_view name) { return find_dtype(kStorages, name); }

std::optional<Dtype> dtype_named(std::string_view name) { return find_dtype(kDtypes, name); }

std::string_view unread_tensor_of(std::string_view name) {
  for (const auto& one : kUnreadTensors) {
    if (name == one.name) return one.what;
  }
  return {};
}

bool makes_number(std::string_view name) { return is_one_of(kNumbers, name); }

bool is_known_name(std::string_view name) {
  return is_one_of(kOtherNames, name) || dtype_of_storage(name) || dtype_named(name) ||
         is_other_type(name) || !unread_tensor_of(name).empty() || makes_number(name);
}

}  // namespace greta
