#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "common/json_document.h"
#include "common/json_text.h"
#include "common/utf8.h"
#include "ingest/foreign/bytes.h"
#include "ingest/foreign/files.h"
#include "ingest/foreign/tensor.h"
#include "ingest/text.h"

namespace greta {
namespace {

using Json = nlohmann::json;

/// "Functional.linear.1.forward" taken apart; of "Module.layers.0.q.Linear.forward.0" index is that
/// behind the direction.
struct Call {
  std::string name;   ///< as written
  std::string api;    ///< Functional.linear; "" of a module
  int64_t index = 0;  ///< of a function's calls, or of a module's
  std::string direction = "forward";
};

Call call_of(const std::string& name) {
  Call call;
  call.name = name;
  for (std::string_view direction : {"forward", "backward"}) {
    const size_t at = name.rfind("." + std::string(direction));
    if (at == name.npos) continue;
    call.direction = direction;
    if (name.starts_with("Module.") || name.starts_with("Cell.")) {
      const std::string_view behind = std::string_view(name).substr(at + 1 + direction.size());
      if (behind.starts_with('.')) call.index = text::number<int64_t>(behind.substr(1)).value_or(0);
      return call;
    }
    const std::string before = name.substr(0, at);
    const size_t dot = before.rfind('.');
    const auto index = dot == before.npos
                           ? std::nullopt
                           : text::number<int64_t>(std::string_view(before).substr(dot + 1));
    if (index) call.api = before.substr(0, dot), call.index = *index;
    return call;
  }
  return call;
}

struct Direction {
  std::string section, name;
};
const Direction kSections[] = {{"input_args", "input"},
                               {"input_kwargs", "input"},
                               {"input", "input"},
                               {"output", "output"},
                               {"parameters", "parameters"},
                               {"grad", "grad"},
                               {"parameters_grad", "parameters_grad"}};

std::optional<double> number_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (value.is_number()) return value.get<double>();
  return std::nullopt;
}

/// A hash by its digits: 8 are a CRC-32, 32 an MD5, of which the first 16 are kept.
struct PrintedHash {
  uint64_t value;
  const char* algorithm;
};
std::optional<PrintedHash> hash_of(const std::string& digits) {
  if (digits.size() != 8 && digits.size() != 32) return std::nullopt;
  uint64_t value = 0;
  for (char c : std::string_view(digits).substr(0, 16)) {
    const char lower = static_cast<char>(c | 0x20);
    const int digit = text::is_digit(c)              ? c - '0'
                      : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10
                                                     : -1;
    if (digit < 0) return std::nullopt;
    value = value << 4 | static_cast<uint64_t>(digit);
  }
  return PrintedHash{value, digits.size() == 8 ? "crc-32" : "md5"};
}

class Msprobe {
 public:
  Msprobe(const ForeignSource& source, const std::string& construct) : source_(source) {
    try {
      if (!construct.empty()) construct_ = python_object(construct, "");
    } catch (const ForeignError& error) {
      source_.rows.find(0, false,
                        "construct.json beside it is no whole JSON object" +
                            std::string(error.what()) +
                            ": in which layer a function was called is not known");
    }
  }

  void read() {
    constexpr const char* kNone = "is no whole JSON object with msprobe's data";
    const Json dump = python_object(source_.text(), kNone);
    if (!dump.contains("data") || !dump["data"].is_object()) throw ForeignError(kNone);
    for (const char* key : {"task", "level", "framework"}) {
      if (dump.contains(key) && dump[key].is_string()) {
        source_.rows.note_attribute(std::string("msprobe.") + key,
                                    utf8::printable(dump[key].get<std::string>().substr(0, 64)));
      }
    }
    std::vector<Call> calls;
    for (const auto& [name, value] : dump["data"].items()) calls.push_back(call_of(name));
    std::stable_sort(calls.begin(), calls.end(), [](const Call& a, const Call& b) {
      return std::tie(a.api, a.index, a.name) < std::tie(b.api, b.index, b.name);
    });
    for (const Call& call : calls) add_call(call, dump["data"][call.name]);
  }

 private:
  /// The layer of the module that a function was called in.
  int64_t layer_of(const Call& call) const {
    std::string name = call.name;
    for (int up = 0; up < 16 && construct_.is_object(); ++up) {
      const auto found = construct_.find(name);
      if (found == construct_.end()) break;
      const Json* parent = &*found;
      if (parent->is_array() && !parent->empty()) parent = &(*parent)[0];
      if (!parent->is_string()) break;
      name = parent->get<std::string>();
      const TracePlace place = source_.rows.rules().place_of(name);
      if (place.layer >= 0) return place.layer;
    }
    return -1;
  }

  void add_call(const Call& call, const Json& said) {
    if (!said.is_object()) {
      source_.rows.find(0, true, "call " + shown(call.name) + " is no object", said.dump());
      return;
    }
    std::string as_written = call.name, in_layer = call.name;
    int64_t layer = -1;
    if (!call.api.empty() && (layer = layer_of(call)) >= 0) {
      const int64_t nth = seen_[{layer, call.api + "." + call.direction}]++;
      in_layer = call.api + "." + std::to_string(nth) + "." + call.direction;
    }
    for (const Direction& section : kSections) {
      if (!said.contains(section.section)) continue;
      const std::string behind = "." + section.name;
      add_values(said[section.section], as_written + behind, in_layer + behind, layer, call);
    }
    for (const auto& [key, value] : said.items()) {
      bool known = false;
      for (const Direction& section : kSections) known |= section.section == key;
      if (!known) add_values(value, as_written + "." + key, in_layer + "." + key, layer, call);
    }
  }

  /// Every tensor of a value, its place in it behind its name.
  void add_values(const Json& value, const std::string& name, const std::string& in_layer,
                  int64_t layer, const Call& call) {
    if (value.is_array()) {
      for (size_t i = 0; i < value.size(); ++i) {
        const std::string behind = "." + std::to_string(i);
        add_values(value[i], name + behind, in_layer + behind, layer, call);
      }
    } else if (value.is_object() && is_tensor(value)) {
      add_tensor_of(value, name, in_layer, layer, call);
    } else if (value.is_object() && !value.contains("type")) {
      for (const auto& [key, item] : value.items()) {
        add_values(item, name + "." + key, in_layer + "." + key, layer, call);
      }
    }
  }

  static bool is_tensor(const Json& value) {
    return value.contains("shape") && value.contains("dtype") && value["shape"].is_array() &&
           value["dtype"].is_string();
  }

  void add_tensor_of(const Json& said, const std::string& name, const std::string& in_layer,
                     int64_t layer, const Call& call) {
    ++line_;
    TracePlace place = source_.rows.rules().place_of(name);
    if (layer >= 0 && place.layer < 0) place = {in_layer, layer};
    // A module that is called again in a step writes its trace point again.
    const bool is_trace_point = place.tensor.find('.') == place.tensor.npos;
    if (is_trace_point && call.api.empty() && call.index > 0) {
      place.tensor += " #" + std::to_string(call.index + 1);
    }
    std::vector<uint64_t> shape;
    uint64_t n = 0;
    try {
      for (const Json& size : said["shape"]) {
        if (!size.is_number_unsigned()) throw ForeignError("has a shape that is not of numbers");
        shape.push_back(size.get<uint64_t>());
      }
      n = count_of(shape);
    } catch (const ForeignError& error) {
      source_.rows.find(0, true, "tensor " + shown(name) + " " + error.what(), said.dump());
      return;
    }
    source_.rows.begin(place, line_, extra_of(said, name));
    TraceRow& row = source_.rows.add_whole(source_.path.rank_name(), call.direction,
                                           source_.path.step.value_or(kUnknownStep));
    row.n = static_cast<int64_t>(n);
    for (auto [key, to] : {std::pair{"Max", &row.max}, {"Min", &row.min}, {"Mean", &row.mean}}) {
      if (said.contains(key)) *to = statistic(said[key], row);
    }
    if (said.contains("Norm")) statistic(said["Norm"], row);
    add_hash(said, row, name);
    note_dtype(said["dtype"].get<std::string>(), n);
  }

  static std::optional<double> statistic(const Json& value, TraceRow& row) {
    const auto number = number_of(value);
    if (number && std::isfinite(*number)) return number;
    if (number || value.is_string()) row.flags |= kFlagNonfiniteStatistic;
    return std::nullopt;
  }

  void add_hash(const Json& said, TraceRow& row, const std::string& name) {
    if (!said.contains("md5") || said["md5"].is_null()) return;
    const auto hash =
        said["md5"].is_string() ? hash_of(said["md5"].get<std::string>()) : std::nullopt;
    const bool is_other = hash && !algorithm_.empty() && algorithm_ != hash->algorithm;
    if (!hash || is_other) {
      source_.rows.find(0, false,
                        "tensor " + shown(name) +
                            " has a hash that is neither CRC-32 nor MD5"
                            " as the others; the row is kept without it",
                        said["md5"].dump());
      return;
    }
    if (*row.n == 0) return;
    algorithm_ = hash->algorithm;
    source_.rows.set_hash(row, hash->value, algorithm_);
  }

  /// What has no column: the norm, how the tensor was made.
  static std::string extra_of(const Json& said, const std::string& name) {
    JsonObject extra;
    extra.add("name", name);
    for (const auto& [key, value] : said.items()) {
      const bool has_column = (key == "Max" || key == "Min" || key == "Mean") && value.is_number();
      if (!has_column && key != "type") {
        extra.raw(key, json_text(value).substr(0, 65536));
      }
    }
    return extra.str();
  }

  void note_dtype(const std::string& dtype, uint64_t n) {
    for (auto [written, name] : {std::pair{"float32", "f32"},
                                 {"Float32", "f32"},
                                 {"bfloat16", "bf16"},
                                 {"BFloat16", "bf16"},
                                 {"float16", "f16"},
                                 {"Float16", "f16"}}) {
      if (dtype.substr(dtype.find('.') + 1) == written) source_.rows.note_dtype(name, n);
    }
  }

  static std::string shown(const std::string& name) {
    return utf8::printable(std::string_view(name).substr(0, 200));
  }

  const ForeignSource& source_;
  Json construct_;
  std::map<std::pair<int64_t, std::string>, int64_t> seen_;
  std::string algorithm_;
  int64_t line_ = 0;  // of rows: which tensor it is
};

}  // namespace

void read_msprobe(const ForeignSource& source, const std::string& construct) {
  Msprobe(source, construct).read();
}

bool is_msprobe(std::string_view head) {
  const size_t start = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  return start != head.npos && head[start] == '{' && head.find("\"data\"") != head.npos &&
         (head.find("\"dump_data_dir\"") != head.npos ||
          (head.find("\"task\"") != head.npos && head.find("\"level\"") != head.npos &&
           head.find("\"framework\"") != head.npos));
}

bool is_msprobe_construct(std::string_view head) {
  const size_t start = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (start == head.npos || head[start] != '{') return false;
  const size_t key = head.find_first_not_of(" \t\r\n", start + 1);
  if (key == head.npos || head[key] != '"') return false;
  const size_t end = head.find('"', key + 1);
  if (end == head.npos) return false;
  const std::string_view name = head.substr(key + 1, end - key - 1);
  const bool is_call = name.find(".forward") != name.npos || name.find(".backward") != name.npos;
  const size_t colon = head.find_first_not_of(" \t\r\n", end + 1);
  if (!is_call || colon == head.npos || head[colon] != ':') return false;
  const size_t value = head.find_first_not_of(" \t\r\n", colon + 1);
  return value != head.npos && (head[value] == '"' || head[value] == 'n' || head[value] == '[');
}

}  // namespace greta
