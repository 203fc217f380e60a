#include <algorithm>
#include <cstring>
#include <string_view>

#include "common/utf8.h"
#include "ingest/foreign/bytes.h"
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

/// Where the value that a text begins with ends, exclusively: at a ',', ':' or '}' that is in no
/// text or bracket.
size_t end_of_value(std::string_view text) {
  std::string closing;  // of what is open, innermost last
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const char open = closing.empty() ? '\0' : closing.back();
    if (c == open && !closing.empty()) {
      closing.pop_back();
    } else if (open == '\'' || open == '"') {
      continue;
    } else if (c == '\'' || c == '"') {
      closing += c;
    } else if (c == '(' || c == '[' || c == '{') {
      closing += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (closing.empty() && (c == ',' || c == '}' || c == ':')) {
      return at;
    }
  }
  throw ForeignError("its header is no whole dict of Python");
}

/// What a header says, a dict of Python: each of three keys once, and nothing behind it.
class HeaderDict {
 public:
  std::string_view descr, fortran_order, shape;

  explicit HeaderDict(std::string_view header) : rest_(text::trim(header)) {
    take('{');
    while (text::trim(rest_) != "}") {
      const std::string_view key = take_value();
      take(':');
      std::string_view& value = value_of(key);
      if (!value.empty()) throw ForeignError("its header has " + std::string(key) + " twice");
      value = take_value();
      if (rest_ != "}") take(',');
    }
    if (descr.empty()) throw ForeignError("its header has no 'descr'");
    if (fortran_order.empty()) throw ForeignError("its header has no 'fortran_order'");
    if (shape.empty()) throw ForeignError("its header has no 'shape'");
  }

 private:
  void take(char c) {
    if (!rest_.starts_with(c)) throw ForeignError("its header is no dict of Python");
    rest_.remove_prefix(1);
  }
  std::string_view take_value() {
    const size_t end = end_of_value(rest_);
    const std::string_view value = text::trim(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return value;
  }
  std::string_view& value_of(std::string_view key) {
    const auto is = [&](std::string_view name) {
      return key.size() == name.size() + 2 && key.substr(1, name.size()) == name &&
             key.front() == key.back() && (key.front() == '\'' || key.front() == '"');
    };
    if (is("descr")) return descr;
    if (is("fortran_order")) return fortran_order;
    if (is("shape")) return shape;
    throw ForeignError("its header has " + utf8::printable(key.substr(0, 40)) +
                       ", which no .npy has");
  }

  std::string_view rest_;
};

Dtype dtype_of(std::string_view descr) {
  if (descr.empty() || (descr[0] != '\'' && descr[0] != '"')) {
    throw ForeignError("is of records, which greta does not read");
  }
  const std::string_view type = descr.substr(1, descr.size() - 2);
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
  const size_t end = tuple.size() - 1;
  const bool is_tuple = tuple.starts_with('(') && tuple.ends_with(')');
  if (!is_tuple || (end > 1 && tuple.find(',') == tuple.npos)) {
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
  const HeaderDict said(header);
  tensor.dtype = dtype_of(said.descr);
  tensor.shape = shape_in(said.shape);
  if (said.fortran_order != "True" && said.fortran_order != "False") {
    throw ForeignError("its header says fortran_order " +
                       utf8::printable(said.fortran_order.substr(0, 40)) +
                       ", which is neither True nor False");
  }
  if (said.fortran_order == "True") {
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
